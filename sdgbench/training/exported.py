"""Trained models as a folder to share: safetensors, the architecture by name, no Python objects."""

from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from sdgbench import registry, storage
from sdgbench.errors import UserError
from sdgbench.method import Method
from sdgbench.records.reading import read
from sdgbench.records.schema import Choice
from sdgbench.training import checkpoint
from sdgbench.training.device import Device
from sdgbench.training.trained_model import TrainedModel, empty_method

FORMAT = 1
WEIGHTS_FILE = "model.safetensors"
MODEL_FILE = "model.json"
METHOD_FILE = "method.py"  # a copy of the plugin that the method is from
ONNX_FILE = "model.onnx"
TENSOR, TUPLE, DICT = "$tensor", "$tuple", "$dict"


class ExportedModel(msgspec.Struct, kw_only=True, frozen=True):
    """The content of ``model.json``; the run is described by ``record.json`` next to it."""

    format: int = FORMAT
    method: str  # by its registered name
    network: str  # by its name
    choice: Choice = "last"  # of weights
    input: list[int]  # channels, height, width; pixels in [0, 1]
    classes: list[str | None]
    weights_sha256: str  # of model.safetensors
    plugin: str | None = None  # the file here that registers the method
    state: dict[str, Any]  # what the method keeps; tensors are named as in the weights


def write(model: TrainedModel, folder: Path, choice: Choice, classes: list[str | None]) -> None:
    """Write weights and architecture, read them back, and compare what both predict."""
    from safetensors.torch import save

    spec, method = model.spec, model.method
    tensors: dict[str, Tensor] = {}
    state = {name: _encode(value, name, tensors) for name, value in _needed(method).items()}
    data = save(tensors, metadata={"format": "pt"})
    storage.write_atomic(folder / WEIGHTS_FILE, lambda file: file.write(data))
    entry = registry.get("method", spec.method)
    plugin = entry.origin.startswith("plugin")
    if plugin:
        source = entry.file.read_bytes()
        storage.write_atomic(folder / METHOD_FILE, lambda file: file.write(source))
    exported = ExportedModel(
        method=spec.method,
        network=spec.recipe["network"],
        choice=choice,
        input=[3, *spec.recipe["image_size"]],
        classes=classes,
        weights_sha256=storage.sha256(folder / WEIGHTS_FILE),
        plugin=METHOD_FILE if plugin else None,
        state=state,
    )
    storage.write_json(folder / MODEL_FILE, exported)
    images = example(model)
    with torch.inference_mode():
        if not torch.equal(model(images), load(folder, method.device)(images)):
            raise UserError(f"The model in {folder} predicts something else than the run: a bug.")


def load(folder: Path, device: Device) -> TrainedModel:
    """The model of an exported folder; nothing in it is executed."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    exported = storage.read_struct(folder / MODEL_FILE, ExportedModel)
    if exported.format != FORMAT:
        raise UserError(f"{folder} was exported by another version of sdgbench.")
    path = folder / WEIGHTS_FILE
    if not path.exists() or storage.sha256(path) != exported.weights_sha256:
        raise UserError(f"{path} is missing, or not the file that was exported with the model.")
    record = read(folder / "record.json")
    if exported.plugin and exported.method not in registry.entries("method"):
        raise UserError(
            f'The method "{exported.method}" is in {folder / exported.plugin}. Read that file; to '
            f'use it: sdgbench.add_plugin("{folder / exported.plugin}").'
        )
    try:
        tensors = load_file(path, device=str(device.torch))
        method = empty_method(record.spec, record.source.train.count, device, folder)
        values = {name: _decode(value, tensors) for name, value in exported.state.items()}
        checkpoint.restore(method, values)
    except (SafetensorError, KeyError, RuntimeError, TypeError) as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise UserError(f"{folder} does not fit its method here: {reason}") from error
    for module in checkpoint.modules(method).values():
        module.eval()
    return TrainedModel(method, record.spec)


def write_onnx(model: TrainedModel, folder: Path) -> None:
    """Write the model as ONNX, for any number of images."""
    try:
        batch = torch.export.Dim("batch", min=1)
        program = torch.onnx.export(
            model,
            (example(model),),
            dynamo=True,
            input_names=["images"],
            output_names=["logits"],
            dynamic_shapes=({0: batch},),
            verbose=False,
        )
        assert program is not None
        data = program.model_proto.SerializeToString()
    except ImportError as error:
        raise UserError("ONNX needs two more packages: pip install 'sdgbench[onnx]'") from error
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"torch cannot write this model as ONNX: {reason[:200]}") from error
    storage.write_atomic(folder / ONNX_FILE, lambda file: file.write(data))


def example(model: TrainedModel, count: int = 4) -> Tensor:
    """Some random images of the size that the model takes."""
    shape = (count, 3, *model.spec.recipe["image_size"])
    images = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    return images.to(model.method.device.torch)


def _needed(method: Method) -> dict[str, Any]:
    """What the method keeps, without optimisers and without modules that do not predict."""
    used = {id(part) for module in method.inference_modules() for part in module.modules()}
    state = checkpoint.capture(method, optimisers=False)
    by_attribute: dict[str, list[nn.Module]] = {}
    for name, module in checkpoint.modules(method).items():
        by_attribute.setdefault(name.partition(".")[0], []).append(module)
    for name, modules in by_attribute.items():
        if not any(id(part) in used for module in modules for part in module.modules()):
            del state[name]
    return state


def _encode(value: Any, key: str, tensors: dict[str, Tensor]) -> Any:
    """A value for JSON; tensors go to ``tensors`` under their path."""
    if isinstance(value, Tensor):
        tensors[key] = value.detach().cpu().clone().contiguous()  # shared memory is not allowed
        return {TENSOR: key}
    if isinstance(value, dict):
        return {DICT: [[k, _encode(v, f"{key}.{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        items = [_encode(item, f"{key}.{number}", tensors) for number, item in enumerate(value)]
        return {TUPLE: items} if isinstance(value, tuple) else items
    return value


def _decode(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if isinstance(value, dict):
        if TENSOR in value:
            return tensors[value[TENSOR]]
        if TUPLE in value:
            return tuple(_decode(item, tensors) for item in value[TUPLE])
        return {key: _decode(item, tensors) for key, item in value[DICT]}
    return value
