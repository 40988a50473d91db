"""A trained method as a plain torch module."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sdgbench.errors import UserError
from sdgbench.method import Method
from sdgbench.records.schema import Choice, Record
from sdgbench.spec.run_spec import RunSpec
from sdgbench.training import checkpoint
from sdgbench.training.build_method import new_method
from sdgbench.training.device import Device
from sdgbench.training.pool import Pool


class TrainedModel(nn.Module):
    """Takes images in [0, 1], (N, 3, H, W), and gives the logits that the method predicts with.

    Whatever the method does to predict is inside: normalisation, ensembles, resizing.
    """

    def __init__(self, method: Method, spec: RunSpec) -> None:
        super().__init__()
        self.spec = spec
        self.method = method
        self.parts = nn.ModuleList(method.inference_modules())
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Logits with the classes in dimension 1."""
        return self.method.predict(x)

    def extra_repr(self) -> str:
        """The run in words."""
        return self.spec.label


def empty_method(spec: RunSpec, source_size: int, device: Device, folder: Path) -> Method:
    """The method of a run before its first step, without any data."""
    spec.check_dataset_version()
    recipe = spec.build_recipe()
    pool = Pool(folder / "pool", (3, *recipe.image_size), ())
    task = spec.dataset_class.task
    return new_method(spec, task, device, source_size, pool, restored=True)


def load_method(
    spec: RunSpec,
    run_id: str,
    source_size: int,
    folder: Path,
    device: Device,
    choice: Choice = "last",
) -> Method:
    """The method of a finished run with its trained weights, from its checkpoint."""
    path = folder / "checkpoint.pt"
    if not path.exists():
        raise UserError(
            f"{folder} has no weights (checkpoint.pt): its files were copied without it, or it "
            f"was deleted. Train it again: {spec.command} --redo"
        )
    state = checkpoint.load(path, device.torch)
    if state["run"] != run_id:
        raise UserError(f"{path} belongs to the run {state['run']}, not to {run_id}.")
    method = empty_method(spec, source_size, device, folder)
    checkpoint.restore(method, state["method"])
    if choice == "val":
        checkpoint.assign_weights(method, _chosen(state["position"].get("best"), folder)["weights"])
    for module in checkpoint.modules(method).values():
        module.eval()
    return method


def load_trained(record: Record, folder: Path, device: Device, choice: Choice) -> TrainedModel:
    """The model of a finished run, from its checkpoint."""
    size = record.source.train.count
    method = load_method(record.spec, record.id, size, folder, device, choice)
    return TrainedModel(method, record.spec)


def _chosen(best: dict[str, Any] | None, folder: Path) -> dict[str, Any]:
    if best is None:
        raise UserError(f"{folder} has no weights that were chosen on source validation.")
    return best


def as_images(images: Any, size: tuple[int, int]) -> Tensor:
    """Bytes or floats in [0, 1] of NumPy or torch as a float tensor (N, 3, H, W)."""
    tensor = images if isinstance(images, Tensor) else torch.from_numpy(_array(images))
    if tensor.ndim != 4 or tensor.shape[1] != 3 or tuple(tensor.shape[2:]) != tuple(size):
        wanted = f"(N, 3, {size[0]}, {size[1]})"
        raise UserError(f"Images must have the shape {wanted}, not {tuple(tensor.shape)}.")
    if tensor.dtype == torch.uint8:
        return tensor.to(torch.float32).div_(255)
    if not tensor.is_floating_point():
        raise UserError(f"Images must be uint8, or floats in [0, 1], not {tensor.dtype}.")
    if len(tensor) and (tensor.min() < 0 or tensor.max() > 1):
        raise UserError("Images that are floats must be in [0, 1]. Divide bytes by 255.")
    return tensor.to(torch.float32)


def _array(images: Any) -> Any:
    import numpy as np

    array = np.ascontiguousarray(images)
    return array if array.flags.writeable else array.copy()
