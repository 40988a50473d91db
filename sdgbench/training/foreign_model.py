"""Models that were trained elsewhere: found, filled with weights, checked, and used as a method."""

import hashlib
import importlib.util
import inspect
import pickle
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sdgbench import networks
from sdgbench.errors import UserError, explain_os_errors
from sdgbench.method import Method, MethodContext
from sdgbench.recipe import Recipe
from sdgbench.task import Task
from sdgbench.training.device import Device
from sdgbench.training.pool import Pool

NESTED = ("state_dict", "model_state_dict", "model", "net")  # where checkpoints keep the weights
MOST_NAMES = 3  # of weights that do not fit


class Normalised(nn.Module):
    """A model that takes normalised images, behind what normalises pixels in [0, 1]."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.model = model
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(list(values)).view(1, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images in [0, 1]."""
        logits: Tensor = self.model((x - self.mean) / self.std)
        return logits


class ForeignMethod(Method):
    """A finished model where a method is expected; it cannot be trained."""

    name = "elsewhere"

    def __init__(self, context: MethodContext, model: nn.Module) -> None:
        self._context = context
        self.model = context.device.prepare_module(model).eval()

    def predict(self, x: Tensor) -> Tensor:
        """What the model says."""
        logits: Tensor = self.model(x)
        return logits

    def inference_modules(self) -> Sequence[nn.Module]:
        """All of it."""
        return [self.model]


def as_method(model: nn.Module, task: Task, recipe: Recipe, device: Device) -> ForeignMethod:
    """The model as a method whose ``predict`` evaluation can call; its output is checked."""
    pool = Pool(Path("unused"), (3, *recipe.image_size), ())
    method = ForeignMethod(MethodContext(None, task, recipe, device, 0, 0, pool), model)
    check_output(method)
    return method


def check_output(method: ForeignMethod) -> None:
    """Try two images; what does not come out as logits of the task is refused."""
    height, width = method.recipe.image_size
    images = torch.rand(2, 3, height, width, generator=torch.Generator().manual_seed(0))
    try:
        with torch.inference_mode():
            logits = method.predict(images.to(method.device.torch))
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise UserError(
            f"The model cannot take images of shape (2, 3, {height}, {width}): "
            f"{type(error).__name__}: {reason}"
        ) from error
    wanted: tuple[int, ...] = (2, method.task.classes)
    if method.task.kind == "segmentation":
        wanted = (*wanted, height, width)
    if not isinstance(logits, Tensor):
        raise UserError(
            f"The model returns a {type(logits).__name__}, not logits of shape {wanted}."
        )
    if tuple(logits.shape) != wanted:
        raise UserError(
            f"The model gives an output of shape {tuple(logits.shape)} for two images; logits of "
            f"{method.task.classes} classes have the shape {wanted}."
        )
    if not logits.isfinite().all():
        raise UserError(
            "The model gives logits that are not finite numbers. Are its weights right?"
        )


def find_model(text: str, task: Task, size: tuple[int, int]) -> nn.Module:
    """The model that ``file.py:function`` makes, or a network by its name (such as timm:NAME)."""
    where, _colon, name = text.rpartition(":")
    if not where.endswith(".py"):
        networks.check(text, size, task.kind)
        return networks.build(text, task.classes, size)
    value = getattr(_import(Path(where)), name, None)
    if value is None:
        raise UserError(f'{where} has no function "{name}". Write --model FILE.py:FUNCTION.')
    if isinstance(value, nn.Module):
        return value
    known = {"classes": task.classes, "num_classes": task.classes}
    try:
        accepted = inspect.signature(value).parameters
        model = value(**{key: known[key] for key in known if key in accepted})
    except Exception as error:
        raise UserError(f"{text} cannot be called: {type(error).__name__}: {error}") from error
    if not isinstance(model, nn.Module):
        raise UserError(f"{text} returns a {type(model).__name__}, not a torch.nn.Module.")
    return model


def _import(file: Path) -> Any:
    if not file.is_file():
        raise UserError(f"There is no file {file}. Write --model FILE.py:FUNCTION.")
    tag = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:8]
    spec = importlib.util.spec_from_file_location(f"sdgbench_model_{file.stem}_{tag}", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[spec.name]
        raise UserError(
            f"{file} cannot be imported: {type(error).__name__}: {error}. Fix it."
        ) from error
    return module


def load_weights(model: nn.Module, path: Path) -> None:
    """Fill a model with the weights of a file (.pt, .pth or .safetensors), without running code."""
    state = _read(path)
    for key in NESTED:
        if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
            state = state[key]
    if not isinstance(state, Mapping) or not any(isinstance(v, Tensor) for v in state.values()):
        raise UserError(f"{path} holds no weights by name (a state_dict). Save model.state_dict().")
    weights = {str(key): value for key, value in state.items()}
    if all(key.startswith("module.") for key in weights):  # of DataParallel
        weights = {key.removeprefix("module."): value for key, value in weights.items()}
    fitting = next((part for part in _parts(model) if _fits(part, weights)), None)
    if fitting is None:
        raise UserError(f"{path} does not fit the model: {_difference(model, weights)}.")
    fitting.load_state_dict(weights)


def _parts(model: nn.Module) -> list[nn.Module]:
    """The model, and what is inside of wrappers around it."""
    return [model, *model.children()]


def _fits(model: nn.Module, weights: Mapping[str, Any]) -> bool:
    own = model.state_dict()
    return own.keys() == weights.keys() and all(
        isinstance(weights[key], Tensor) and weights[key].shape == value.shape
        for key, value in own.items()
    )


def _difference(model: nn.Module, weights: Mapping[str, Any]) -> str:
    own = model.state_dict()
    for what, names in (
        ("it lacks", [key for key in own if key not in weights]),
        ("the model has no", [key for key in weights if key not in own]),
    ):
        if names:
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            return f"{what} {', '.join(names[:MOST_NAMES])}{more}"
    for key, value in own.items():
        shape = tuple(getattr(weights[key], "shape", ()))
        if shape != tuple(value.shape):
            return f"{key} has the shape {shape}, and the model needs {tuple(value.shape)}"
    return "it holds something else than tensors"


def _read(path: Path) -> Any:
    with explain_os_errors("read", path):
        if path.suffix == ".safetensors":
            from safetensors import SafetensorError
            from safetensors.torch import load_file

            try:
                return load_file(path)
            except SafetensorError as error:
                raise UserError(f"{path} is damaged, or no safetensors file ({error}).") from None
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except (
            pickle.UnpicklingError,
            RuntimeError,
            EOFError,
            ValueError,
            KeyError,
            zipfile.BadZipFile,
        ):
            raise UserError(
                f"{path} cannot be read as weights: it is damaged, or holds Python objects, which "
                "are not loaded. Save model.state_dict() alone, or safetensors."
            ) from None


def weights_sha256(model: nn.Module) -> str:
    """The hash of all weights and buffers: names, shapes and values."""
    digest = hashlib.sha256()
    for key, value in sorted(model.state_dict().items()):
        array = value.detach().cpu().contiguous()
        digest.update(repr((key, tuple(array.shape), str(array.dtype))).encode())
        digest.update(array.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
