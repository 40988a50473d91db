"""Batch norm whose gradient has a gradient of its own, in few passes over the batch.

Torch composes the second derivative of batch norm of dozens of operations. Here it is written out.
Processes that share a batch exchange one message per direction: see ``Exchange``.

For each channel let r = 1 / sqrt(variance + eps), n = (x - mean) r, and let m(.) be the mean over
the batch. The gradient is gx = w r (g - m(g) - n m(g n)); the code differentiates that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class Exchange:
    """How processes that share a batch combine their numbers, in one message per call."""

    gather: Callable[[Tensor], Tensor]  # a vector -> a row for each process
    add: Callable[[Tensor], Tensor]  # a vector -> the sum over all processes


def statistics(x: Tensor, exchange: Exchange) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and count of the whole batch, from those of each process."""
    count = x.numel() // x.shape[1]
    variance, mean = torch.var_mean(x, [0, *range(2, x.dim())], correction=0)
    rows = exchange.gather(torch.cat([mean, variance * count, torch.full_like(mean[:1], count)]))
    means, squares, counts = rows.split([len(mean), len(mean), 1], 1)
    total = counts.sum()
    mean = (counts * means).sum(0) / total
    squares = squares + counts * (means - mean).square()
    return mean, squares.sum(0) / total, total


def train_batch_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running: tuple[Tensor | None, Tensor | None],
    momentum: float,
    eps: float,
) -> Tensor:
    """What ``F.batch_norm`` computes in training, with a cheaper second derivative."""
    y: Tensor = _Train.apply(x, weight, bias, *running, momentum, eps)
    return y


def shared_batch_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    batch: tuple[Tensor, Tensor, Tensor],
    eps: float,
    exchange: Exchange,
) -> Tensor:
    """Normalise a process's part of a batch by the ``statistics`` of the whole batch."""
    y: Tensor = _Shared.apply(x, weight, bias, *batch, eps, exchange)
    return y


class _Train(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, *settings: Any) -> Tensor:
        running_mean, running_var, momentum, eps = settings
        y, mean, r = torch.native_batch_norm(
            x, weight, bias, running_mean, running_var, True, momentum, eps
        )
        ctx.save_for_backward(x, weight, mean, r)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, r = ctx.saved_tensors
        count = x.numel() // x.shape[1]
        return *_Gradients.apply(x, weight, grad, mean, r, count, None), *[None] * 4


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, *batch: Any) -> Tensor:
        mean, variance, count, eps, ctx.exchange = batch
        ctx.save_for_backward(x, weight, mean, (variance + eps).rsqrt(), count)
        return torch.native_batch_norm(x, weight, bias, mean, variance, False, 0.0, eps)[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, r, count = ctx.saved_tensors
        return *_Gradients.apply(x, weight, grad, mean, r, count, ctx.exchange), *[None] * 5


class _Gradients(torch.autograd.Function):
    """The gradients of x, of this process's weight and of its bias."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        grad: Tensor,
        mean: Tensor,
        r: Tensor,
        count: Any,
        exchange: Exchange | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        alone = exchange is None
        x_grad, weight_grad, bias_grad = _kernel(grad, x, weight, mean, r, with_x=alone)
        sums = torch.stack([bias_grad, weight_grad])
        if exchange is not None:
            sums = exchange.add(sums)
        means = sums / count  # m(g) and m(g n)
        if not alone:
            scale = weight * r
            slope = -scale * r * means[1]
            x_grad = _affine(x, slope, -scale * means[0] - slope * mean)
            x_grad.addcmul_(grad, _column(scale, x))
        ctx.save_for_backward(x, weight, grad, mean, r, weight_grad, bias_grad, means)
        ctx.count, ctx.exchange = count, exchange
        return x_grad, weight_grad, bias_grad

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, v: Tensor, a: Tensor, c: Tensor) -> tuple[Tensor | None, ...]:
        """``v``, ``a`` and ``c`` are what reaches the gradients of x, weight and bias."""
        x, weight, grad, mean, r, weight_grad, bias_grad, (g_mean, gn_mean) = ctx.saved_tensors
        _, vn_sum, v_sum = _kernel(v, x, weight, mean, r, with_x=False)
        vg_sum = (v * grad).sum([0, *range(2, x.dim())])
        sums = torch.stack([v_sum, vn_sum, vg_sum, a * bias_grad, a * weight_grad])
        if ctx.exchange is not None:
            sums = ctx.exchange.add(sums)
        v_mean, vn_mean, vg_mean, h_mean, hn_mean = sums / ctx.count
        scale = weight * r
        # Through n, whose gradient is h = (a - scale m(v n)) g - scale m(g n) v, and through r.
        scale_vn, scale_gn = scale * vn_mean, scale * gn_mean
        h_mean = h_mean - scale_gn * v_mean - scale_vn * g_mean
        product = vn_mean * scale_gn  # scale m(v n) m(g n)
        through_r = scale * (vg_mean - v_mean * g_mean) - product
        slope = -r * r * (hn_mean - 2 * product + through_r)
        x_grad = _affine(x, slope, -r * h_mean - slope * mean)
        x_grad.addcmul_(v, _column(-r * scale_gn, x))
        x_grad.addcmul_(grad, _column(r * (a - scale_vn), x))
        slope = r * (a - scale_vn)
        grad_grad = _affine(x, slope, c - scale * v_mean - slope * mean)
        grad_grad.addcmul_(v, _column(scale, x))
        own_weight = r * (vg_sum - v_mean * bias_grad - vn_mean * weight_grad)
        return x_grad, own_weight, grad_grad, None, None, None, None


def _kernel(
    grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, r: Tensor, with_x: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Torch's gradients; those of weight and bias are the sums of grad n and of grad."""
    gradients: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.native_batch_norm_backward(
        grad, x, weight, None, None, mean, r, True, 0.0, [with_x, True, True]
    )
    return gradients


def _affine(x: Tensor, slope: Tensor, offset: Tensor) -> Tensor:
    """``slope * x + offset`` for each channel, in one pass."""
    zero, one = torch.zeros_like(slope), torch.ones_like(slope)
    return torch.native_batch_norm(x, slope, offset, zero, one, False, 0.0, 0.0)[0]


def _column(values: Tensor, x: Tensor) -> Tensor:
    return values.view(-1, *[1] * (x.dim() - 2))
