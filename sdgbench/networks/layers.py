"""Torch's layers with cheaper second derivatives, for methods that differentiate a gradient step.

Values, gradients and names are those of the layers that they extend. In half precision, torch's
own layers are used.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sdgbench.networks.batch_norm import train_batch_norm

_second_order = False  # inside of ``second_order``


@contextmanager
def second_order() -> Iterator[None]:
    """For forward passes whose gradient will be differentiated: the layers prepare for it."""
    global _second_order
    before, _second_order = _second_order, True
    try:
        yield
    finally:
        _second_order = before


class BatchNorm2d(nn.BatchNorm2d):
    """Its second derivative, inside of ``second_order``, takes a third of torch's operations."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise a batch of feature maps."""
        prepare = _second_order and self.training and self.momentum is not None and self.affine
        if not prepare or torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        running = self.running_mean, self.running_var
        assert self.momentum is not None
        return train_batch_norm(x, self.weight, self.bias, running, self.momentum, self.eps)


class Linear(nn.Linear):
    """Gradients have the memory layout of the weight; torch adds up transposed ones, slowly."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to a batch of rows."""
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
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            grad @ weight if needs_x else None,
            grad.t() @ x if needs_weight else None,
            grad.sum(0) if needs_bias else None,
        )


class FirstConv2d(nn.Conv2d):
    """For images that need no gradient; in second derivatives torch computes it anyway."""

    def __init__(self, inputs: int, outputs: int, size: int) -> None:
        # The gradients below support no stride, padding or groups.
        super().__init__(inputs, outputs, size)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve a batch of images."""
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
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        return None, *_FirstConvGrads.apply(x, weight, grad)


class _FirstConvGrads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        _, weight_grad, bias_grad = torch.ops.aten.convolution_backward(
            grad,
            x,
            weight,
            [len(weight)],
            (1, 1),
            (0, 0),
            (1, 1),
            False,
            (0, 0),
            1,
            (False, True, True),
        )
        return weight_grad, bias_grad

    @staticmethod
    def backward(ctx: Any, weight_grad: Tensor, bias_grad: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        return None, None, F.conv2d(x, weight_grad, bias_grad)
