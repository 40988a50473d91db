"""What ``Method.optimise`` and its relatives do: schedules, loss scaling, sums over processes.

A loss is a mean over the images of the whole batch. Where several processes share the batch, each
weights its own mean by its share, and gradients are summed over the processes. In fp16 the loss is
multiplied by the scaler's current scale, and gradients are divided by it again.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from sdgbench.recipe import Recipe
from sdgbench.training import distributed
from sdgbench.training.device import Device, Scaler
from sdgbench.training.gradient_sum import GradientSum

OVERFLOWS = 8  # how often a pixel gradient that overflows in fp16 is computed with a smaller scale


def new_optimizer(recipe: Recipe, weights: Iterable[Tensor]) -> Optimizer:
    """The optimiser that a recipe names."""
    if recipe.optimiser == "adam":
        return torch.optim.Adam(weights, recipe.lr, weight_decay=recipe.weight_decay, fused=True)
    return torch.optim.SGD(
        weights,
        recipe.lr,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        nesterov=recipe.momentum > 0,
        fused=True,
    )


def scheduled_lr(recipe: Recipe, progress: float) -> float:
    """The learning rate after a share of the training (0 to 1)."""
    if recipe.schedule == "linear":
        return recipe.lr * (1 - progress)
    if recipe.schedule == "step":
        return recipe.lr * (1.0 if progress < 0.5 else 0.1)
    if recipe.schedule == "cosine":
        return recipe.lr * 0.5 * (1 + torch.cos(torch.tensor(torch.pi * progress)).item())
    return recipe.lr


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of all weights, in place where a graph reads it from the device."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def make_capturable(optimizers: Iterable[Optimizer], scheduled: Optimizer, device: Device) -> None:
    """Keep on the device what changes from step to step: the learning rate and step counts."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            if "capturable" in group:
                group["capturable"] = True
            if optimizer is scheduled and not isinstance(group["lr"], Tensor):
                group["lr"] = torch.full((), float(group["lr"]), device=device.torch)
        for state in optimizer.state.values():
            if isinstance(state.get("step"), Tensor):
                state["step"] = device.to_device(state["step"])


def backward_and_step(
    loss: Tensor,
    optimizer: Optimizer,
    device: Device,
    scaler: Scaler | None,
    extra_grads: Sequence[tuple[Tensor, Tensor]],
) -> Tensor:
    """One update; returns the detached loss of the whole batch.

    ``extra_grads`` are tensors with a gradient that reaches them in addition to the loss's.
    """
    optimizer.zero_grad(set_to_none=True)
    divided = distributed.current_shard() is not None
    gradient_sum = GradientSum(_weights(optimizer)) if divided else None
    inner = [(tensor, grad) for tensor, grad in extra_grads if not tensor.is_leaf]
    with device.no_autocast():
        for tensor, grad in extra_grads:
            if tensor.is_leaf:  # not a copy: the loss's gradient is added to it in place
                tensor.grad = _laid_out_like(tensor, _weighted(grad, scaler))
        torch.autograd.backward(
            [_weighted(loss, scaler), *(tensor for tensor, _ in inner)],
            [None, *(_weighted(grad, scaler) for _, grad in inner)],
        )
    if gradient_sum:
        loss = gradient_sum.finish(loss.detach() * distributed.weight())
    if scaler is None:
        optimizer.step()
    else:
        scaler.advance(optimizer)
    return loss.detach()


def gradients(
    loss: Tensor,
    weights: Sequence[Tensor],
    device: Device,
    scaler: Scaler | None,
    *,
    create_graph: bool = False,
    retain_graph: bool = False,
    factor: float = 1.0,
) -> list[Tensor]:
    """The gradients of the whole batch's loss, times ``factor``, without an update.

    Given to the loss, the factor costs nothing; fp16 has too few small numbers for that.
    """
    with device.no_autocast():
        grads: Sequence[Tensor] = torch.autograd.grad(
            _weighted(loss, scaler),
            weights,
            None if scaler else torch.full_like(loss, factor),
            create_graph=create_graph,
            retain_graph=retain_graph or create_graph,
        )
        if distributed.current_shard():
            grads = distributed.all_reduce_sum(grads)
        if scaler:
            grads = torch._foreach_mul(list(grads), factor / scaler.current())
    return list(grads)


def pixel_gradient(
    value: Callable[[Tensor], Tensor], x: Tensor, device: Device, scaler: Scaler | None
) -> Tensor:
    """The gradient of each image's own value with respect to its pixels."""
    if scaler is None:
        with device.no_autocast():
            (grad,) = torch.autograd.grad(value(x).sum(), x)
        return grad
    scale = scaler.current() / len(x)
    for _ in range(OVERFLOWS):
        total = value(x).sum()
        with device.no_autocast():
            (grad,) = torch.autograd.grad(total * scale, x)
        if grad.isfinite().all():
            break
        scale = scale / 16
    return grad / scale


def randn_like(x: Tensor) -> Tensor:
    """Normal numbers for each image, the same ones however many processes share the batch."""
    shard = distributed.current_shard()
    if shard is None:
        return torch.randn_like(x)
    batch = torch.randn(shard.total, *x.shape[1:], dtype=x.dtype, device=x.device)
    return shard.take(batch)


def rand_per_image(images: int, count: int) -> Tensor:
    """A row of uniform numbers for each image, drawn on the CPU for the whole batch."""
    shard = distributed.current_shard()
    rows = torch.rand(shard.total if shard else images, count, dtype=torch.float64)
    return shard.take(rows) if shard else rows


def as_mean(summed: Tensor) -> Tensor:
    """Turn a loss that sums over the images into one that is weighted like a mean."""
    shard = distributed.current_shard()
    return summed / shard.weight if shard else summed


def _weighted(value: Tensor, scaler: Scaler | None) -> Tensor:
    """A loss or gradient, weighted by this process's share and scaled for fp16."""
    if distributed.current_shard():
        value = value * distributed.weight()
    return scaler.scale(value) if scaler else value


def _weights(optimizer: Optimizer) -> list[Tensor]:
    """The weights that an optimiser changes."""
    groups = optimizer.param_groups
    return [weight for group in groups for weight in group["params"] if weight.requires_grad]


def _laid_out_like(weight: Tensor, grad: Tensor) -> Tensor:
    """Fused optimisers need gradients in the memory layout of their weights."""
    same = grad.stride() == weight.stride()
    return grad if same else torch.empty_like(weight).copy_(grad)
