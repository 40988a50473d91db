"""Pillow's image operations for whole batches on the device, with one value per image.

AugMix, TrivialAugment and RandAugment are defined by Pillow. Images are float tensors (N, 3, H, W)
that hold Pillow's levels, whole numbers from 0 to 255. Values are float64 tensors (N) on the CPU,
where they were drawn. tests/methods/test_image_ops.py compares each operation with Pillow's.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F
from torchvision.transforms.v2 import functional as vision

from sdgbench.training.device import to_device

ROUNDING = 1e-3  # Pillow truncates: float32 must not fall below a whole number
FIXED = 65536.0  # Pillow's nearest neighbour has coordinates in 16.16 fixed point


def to_levels(x: Tensor) -> Tensor:
    """Pixels in [0, 1] as levels."""
    return (255 * x).round_().clamp_(0, 255)


def from_levels(levels: Tensor) -> Tensor:
    """Levels as pixels in [0, 1]; with ``to_levels`` bit-exact for images that were bytes."""
    return levels / 255


# Operations on levels --------------------------------------------------------------------------


def autocontrast(levels: Tensor, _: Tensor) -> Tensor:
    """Stretch each channel to the whole range."""
    return as_bytes(vision.autocontrast, levels)


def equalize(levels: Tensor, _: Tensor) -> Tensor:
    """Make each channel's histogram flat."""
    return as_bytes(vision.equalize, levels)


def as_bytes(operation: Callable[[Tensor], Tensor], levels: Tensor) -> Tensor:
    """Apply one of torchvision's operations, which are Pillow's on bytes."""
    return operation(levels.to(torch.uint8)).to(levels.dtype)


def posterize(levels: Tensor, bits: Tensor) -> Tensor:
    """Keep this number of the highest bits."""
    step = per_image(2 ** (8 - bits), levels)
    return (levels / step).floor_() * step


def solarize(levels: Tensor, threshold: Tensor) -> Tensor:
    """Invert the levels from a threshold on."""
    return torch.where(levels < per_image(threshold, levels), levels, 255 - levels)


def color(levels: Tensor, factor: Tensor) -> Tensor:
    """Blend with the grey image."""
    return blend(grey(levels), levels, factor)


def contrast(levels: Tensor, factor: Tensor) -> Tensor:
    """Blend with the mean grey of the image."""
    mean = (grey(levels).mean((1, 2, 3), keepdim=True) + 0.5).floor_()
    return blend(mean, levels, factor)


def brightness(levels: Tensor, factor: Tensor) -> Tensor:
    """Blend with black."""
    return blend(torch.zeros_like(levels), levels, factor)


def sharpness(levels: Tensor, factor: Tensor) -> Tensor:
    """Blend with a smoothed image, whose border is the original's."""
    kernel = torch.ones(3, 3, device=levels.device)
    kernel[1, 1] = 5
    smooth = F.conv2d(levels, kernel.expand(3, 1, 3, 3), groups=3)  # 13 times
    blurred = levels.clone()
    blurred[:, :, 1:-1, 1:-1] = (smooth / 13 + 0.5).floor_()
    return blend(blurred, levels, factor)


def grey(levels: Tensor) -> Tensor:
    """Pillow's luma in 16 bits; every sum is below 2^24, so float32 is exact."""
    red, green, blue = levels.split(1, dim=1)
    luma: Tensor = (19595 * red + 38470 * green + 7471 * blue + 32768) / 65536
    return luma.floor_()


def blend(start: Tensor, levels: Tensor, factor: Tensor) -> Tensor:
    """Go from ``start`` (factor 0) to the image (1) and beyond, truncated and clipped."""
    mixed: Tensor = start + per_image(factor, levels) * (levels - start)
    return mixed.add_(ROUNDING).floor_().clamp_(0, 255)


def per_image(values: Tensor, levels: Tensor) -> Tensor:
    """A value per image, on the images' device, shaped to multiply them."""
    return to_device(values.to(levels.dtype), levels.device).view(-1, 1, 1, 1)


# Affine transformations ------------------------------------------------------------------------

# The position of a value in Pillow's matrix (a, b, c, d, e, f): output pixel (x, y) is taken from
# (a x + b y + c, d x + e y + f).
POSITIONS = {"shear-x": 1, "translate-x": 2, "shear-y": 3, "translate-y": 5}


def affine_matrix(name: str, values: Tensor, height: int, width: int) -> Tensor:
    """Pillow's matrices (N, 6) of one kind; rotations in degrees, about the centre."""
    matrix = torch.tensor([1.0, 0, 0, 0, 1, 0], dtype=torch.float64).repeat(len(values), 1)
    if name == "rotate":
        angle = -values * (math.pi / 180)
        cos, sin = angle.cos(), angle.sin()
        x, y = width / 2, height / 2
        columns = [cos, sin, x - cos * x - sin * y, -sin, cos, y + sin * x - cos * y]
        return torch.stack(columns, 1)
    matrix[:, POSITIONS[name]] = values
    return matrix


def affine(levels: Tensor, matrix: Tensor, bilinear: bool) -> Tensor:
    """Transform each image by its matrix; what comes from outside is black."""
    return _bilinear(levels, matrix) if bilinear else _nearest(levels, matrix)


def _bilinear(levels: Tensor, matrix: Tensor) -> Tensor:
    height, width = levels.shape[2:]
    a, b, c, d, e, f = to_device(matrix.to(levels.dtype), levels.device).view(-1, 6, 1, 1).unbind(1)
    x = torch.arange(width, dtype=levels.dtype, device=levels.device)[None, None, :] + 0.5
    y = torch.arange(height, dtype=levels.dtype, device=levels.device)[None, :, None] + 0.5
    x_in, y_in = a * x + b * y + c, d * x + e * y + f
    inside = (x_in >= 0) & (x_in < width) & (y_in >= 0) & (y_in < height)
    grid = torch.stack([2 * x_in / width - 1, 2 * y_in / height - 1], 3)
    sampled = F.grid_sample(levels, grid, padding_mode="border", align_corners=False)
    return (sampled + ROUNDING).floor_() * inside[:, None]


def _nearest(levels: Tensor, matrix: Tensor) -> Tensor:
    count, channels, height, width = levels.shape
    a, b, c, d, e, f = matrix.unbind(1)
    start = torch.stack([c + a / 2 + b / 2, f + d / 2 + e / 2])
    fixed = (torch.cat([start, torch.stack([a, b, d, e])]) * FIXED + 0.5).floor().long()
    x0, y0, a, b, d, e = to_device(fixed, levels.device).view(6, count, 1, 1)
    x = torch.arange(width, device=levels.device)[None, None, :]
    y = torch.arange(height, device=levels.device)[None, :, None]
    column, row = (x0 + a * x + b * y) >> 16, (y0 + d * x + e * y) >> 16
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    index = (row * width + column).masked_fill_(~inside, 0).flatten(1)
    taken = levels.flatten(2).gather(2, index[:, None].expand(-1, channels, -1)).view_as(levels)
    return taken.mul_(inside[:, None])


OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "autocontrast": autocontrast,
    "equalize": equalize,
    "posterize": posterize,
    "solarize": solarize,
    "color": color,
    "contrast": contrast,
    "brightness": brightness,
    "sharpness": sharpness,
}
GEOMETRIC = ("rotate", "shear-x", "shear-y", "translate-x", "translate-y")
