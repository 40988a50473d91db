"""The geometric operations of AdvST, differentiable: bilinear, with black outside the image."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def warp(x: Tensor, rows: Sequence[Sequence[Tensor]]) -> Tensor:
    """Read each pixel at an affine function of its place, in units of half the width.

    ``rows`` has, for x and y, the factors of x and y and the offset, each of shape (N,).
    """
    aspect = x.shape[2] / x.shape[3]  # the sampler's units are half the sides
    (a, b, c), (d, e, f) = rows
    matrix = torch.stack(
        [torch.stack([a, aspect * b, c], 1), torch.stack([d / aspect, e, f / aspect], 1)], 1
    )
    grid = F.affine_grid(matrix, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, "bilinear", "zeros", align_corners=False)


def rotate(x: Tensor, v: Tensor, _: Tensor) -> Tensor:
    """Rotate counter-clockwise; 1 is the full circle."""
    angle = 2 * torch.pi * v[:, 0]
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    return warp(x, ((cos, -sin, zero), (sin, cos, zero)))


def translate(x: Tensor, v: Tensor, _: Tensor) -> Tensor:
    """Move right and down, by shares of the width."""
    one, zero = torch.ones_like(v[:, 0]), torch.zeros_like(v[:, 0])
    return warp(x, ((one, zero, -2 * v[:, 0]), (zero, one, -2 * v[:, 1])))


def shear(x: Tensor, v: Tensor, _: Tensor) -> Tensor:
    """Shear along both axes about the centre."""
    one, zero = torch.ones_like(v[:, 0]), torch.zeros_like(v[:, 0])
    return warp(x, ((one, v[:, 0], zero), (v[:, 1], one, zero)))


def scale(x: Tensor, v: Tensor, _: Tensor) -> Tensor:
    """Enlarge about the centre."""
    factor, zero = 1 / v[:, 0], torch.zeros_like(v[:, 0])
    return warp(x, ((factor, zero, zero), (zero, factor, zero)))
