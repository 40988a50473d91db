"""Gradient ascent on pixels, as GUD and M-ADA use it to make augmented domains."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sdgbench.method import Method
from sdgbench.settings import param

Gain = Callable[[Tensor], Tensor]  # images -> one value per image


class Ascending(Method):
    """A method that stops its training K times to make a domain of worst-case images."""

    @dataclass(frozen=True)
    class Params:
        """What the ascent and its schedule need; values for Digits (released code of both)."""

        K: int = param(3, "augmented domains; 0: ERM")
        T_min: int = param(100, "training steps before each domain (at most an equal share)")
        T_min_epochs: int = param(0, "the same in passes over the source; 0: given by T_min")
        T_adv: int = param(25, "ascent steps per image")
        ascent_step: float = param(1 / 32, "ascent step per image (code: lr 1 on means over 32)")
        ascent_batch: int = param(64, "images that climb together; does not change them")
        max_batches: int | None = param(None, "at most so many batches per domain; none: all")
        clamp: bool = param(False, "clamp augmented images to [0, 1] (code: no)")

        def __post_init__(self) -> None:
            for name, least in (("K", 0), ("T_min", 1), ("T_adv", 0), ("ascent_batch", 1)):
                if getattr(self, name) < least:
                    raise ValueError(f"{name} must be {least} or more, not {getattr(self, name)}")

    def steps_between(self) -> int:
        """Training steps before each domain; a short training still has all its domains."""
        p = self.params
        wanted = p.T_min_epochs * (self.source_size // self.recipe.batch) or p.T_min
        return min(wanted, self.train_steps // (p.K + 1))

    def batches(self, published: int) -> int:
        """How many batches of images a domain has."""
        limit = self.params.max_batches
        return max(1, published if limit is None else min(limit, published))

    def ascend(self, x: Tensor, gain: Gain) -> Tensor:
        """Climb with this method's parameters."""
        p = self.params
        return ascend(x, gain, p.T_adv, p.ascent_step, p.clamp, self.pixel_gradient)


def plain_gradient(gain: Gain, x: Tensor) -> Tensor:
    """The gradient of each image's own value with respect to its pixels."""
    return torch.autograd.grad(gain(x).sum(), x)[0]


def ascend(
    x: Tensor,
    gain: Gain,
    steps: int,
    size: float,
    clamp: bool = False,
    gradient: Callable[[Gain, Tensor], Tensor] = plain_gradient,
) -> Tensor:
    """Climb ``gain`` from ``x`` by plain gradient steps of the given size.

    Each image climbs its own value, so neither its neighbours nor the batch size matter. Only
    the pixels' gradient is computed.
    """
    for _ in range(steps):
        x = x.detach().requires_grad_()
        x = x.detach().add(gradient(gain, x), alpha=size)
    return x.clamp(0, 1) if clamp else x


def mean_square(first: Tensor, second: Tensor) -> Tensor:
    """The mean squared difference of each image for itself, over all of its elements."""
    # Unlike a square written out, this one leaves half precision, where small ones would be 0.
    return F.mse_loss(first, second, reduction="none").flatten(1).mean(1)


@contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """Evaluation mode, and no gradients of weights, while images are made."""
    training = [module.training for module in modules]
    weights = [w for module in modules for w in module.parameters() if w.requires_grad]
    for module in modules:
        module.eval()
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)
        for module, mode in zip(modules, training, strict=True):
            module.train(mode)
