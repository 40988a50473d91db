"""Torch's own layers with cheaper second derivatives, for methods that step through a step.

Values, gradients and names are those of the layers that they extend. In half precision they are
just these.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Linear(nn.Linear):
    """All slopes of the weight are laid out like it; torch adds up transposed ones, slowly."""

    def forward(self, x: Tensor) -> Tensor:
        """Of rows."""
        if torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        y: Tensor = _Linear.apply(x, self.weight, self.bias)
        return y


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            slope @ weight if of_x else None,
            slope.t() @ x if of_weight else None,
            slope.sum(0) if of_bias else None,
        )


class FirstConv2d(nn.Conv2d):
    """For images that need no gradient; torch computes theirs in second derivatives anyway."""

    def __init__(self, inputs: int, outputs: int, size: int) -> None:
        super().__init__(inputs, outputs, size)  # its slopes know no stride, padding or groups

    def forward(self, x: Tensor) -> Tensor:
        """Of images."""
        if x.requires_grad or torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        y: Tensor = _FirstConv.apply(x, self.weight, self.bias)
        return y


class _FirstConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.conv2d(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        return None, *_FirstConvSlopes.apply(x, weight, slope)


class _FirstConvSlopes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        _, of_weight, of_bias = torch.ops.aten.convolution_backward(
            slope, x, weight, [len(weight)], (1, 1), (0, 0), (1, 1), False, (0, 0), 1,
            (False, True, True),
        )  # fmt: skip
        return of_weight, of_bias

    @staticmethod
    def backward(ctx: Any, weight: Tensor, bias: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        return None, None, F.conv2d(x, weight, bias)
