"""Random operations of ``_image_ops``, with a strength and a sign of its own for each image."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sdgbench.methods import _image_ops as ops
from sdgbench.training.device import to_device

# Of RandAugment and TrivialAugment, in their order.
FOURTEEN = (
    "identity",
    "autocontrast",
    "equalize",
    "rotate",
    "solarize",
    "color",
    "posterize",
    "contrast",
    "brightness",
    "sharpness",
    "shear-x",
    "shear-y",
    "translate-x",
    "translate-y",
)


@dataclass(frozen=True)
class Ranges:
    """What the operations do at full strength; at no strength they do (nearly) nothing."""

    rotate: float  # degrees, truncated to whole ones
    shear: float
    translate: float  # pixels, truncated to whole ones
    bits: tuple[int, int]  # that posterize keeps: at no strength, and fewer at full strength
    factor: tuple[float, float] = (1.0, 1.0)  # of color, contrast, brightness, sharpness
    bilinear: bool = False

    def value(self, name: str, level: Tensor, scale: float, sign: Tensor) -> Tensor:
        """The value of an operation at strengths ``level``, of which ``scale`` is the full one.

        Truncated values are computed as the published codes do, product first.
        """
        most, fewer = self.bits
        low, high = self.factor
        if name == "rotate":
            return sign * (level * self.rotate / scale).floor()
        if name.startswith("shear"):
            return sign * (level * self.shear / scale)
        if name.startswith("translate"):
            return sign * (level * self.translate / scale).floor()
        if name == "posterize":
            return most - (level * fewer / scale).floor()
        if name == "solarize":
            return 256 - (level * 256 / scale).floor()
        return low + level * (high - low) / scale


def apply(
    levels: Tensor,
    names: Sequence[str],
    choice: Tensor,
    level: Tensor,
    sign: Tensor,
    ranges: Ranges,
    scale: float,
) -> Tensor:
    """Apply operation ``names[choice[n]]`` to image n; other numbers leave it as it is.

    What was drawn is on the CPU, so that a GPU never has to wait until it is known which images
    get which operation.
    """
    result = levels.clone()
    moved, matrices = [], []
    for number, name in enumerate(names):
        rows = (choice == number).nonzero()[:, 0]
        if name == "identity" or not len(rows):
            continue
        value = ranges.value(name, level[rows], scale, sign[rows])
        if name in ops.GEOMETRIC:
            moved.append(rows)
            matrices.append(ops.affine_matrix(name, value, *levels.shape[2:]))
        else:
            rows = to_device(rows, levels.device)
            result[rows] = ops.OPERATIONS[name](levels[rows], value)
    if moved:  # all of them at once
        rows = to_device(torch.cat(moved), levels.device)
        result[rows] = ops.affine(levels[rows], torch.cat(matrices), ranges.bilinear)
    return result


def pick(uniform: Tensor, count: int) -> Tensor:
    """Numbers below ``count`` from numbers in [0, 1)."""
    return (uniform * count).long()


def signs(uniform: Tensor) -> Tensor:
    """Plus or minus one from numbers in [0, 1)."""
    return 1 - 2 * (uniform < 0.5).to(uniform.dtype)
