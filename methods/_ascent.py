"""Gradient ascent on pixels, which GUD and M-ADA use to generate augmented domains."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sdgbench.method import Around, Integers, Method, Phase, param

Gain = Callable[[Tensor], Tensor]  # images -> one value per image

# At quick, domains of these datasets are as large as published; elsewhere that would take hours.
WHOLE_DOMAINS: dict[str, dict[str, Any]] = {
    f"{dataset}/quick": {"max_batches": None}
    for dataset in ("digits", "shapes10c", "styles-mini", "streets-mini")
}


class Ascending(Method):
    """A method that interrupts its training K times to generate a domain of worst-case images."""

    @dataclass(frozen=True)
    class Params:
        """Parameters of the ascent and its schedule; values for Digits (released code of both)."""

        K: int = param(3, "augmented domains; 0: ERM", search=Integers(1, 5))
        T_min: int = param(100, "training steps before each domain (fewer in a short training)")
        T_min_epochs: int = param(0, "the same in passes over the source; 0: given by T_min")
        T_adv: int = param(25, "ascent steps per image")
        ascent_step: float = param(
            1 / 32, "ascent step per image (code: lr 1 on means over 32)", search=Around(10)
        )
        ascent_batch: int = param(
            64, "images per ascent batch (on a GPU at least); does not affect the result"
        )
        max_batches: int | None = param(None, "maximum number of batches per domain; none: all")
        clamp: bool = param(False, "clamp augmented images to [0, 1] (code: no)")

        def __post_init__(self) -> None:
            for name, minimum in (("K", 0), ("T_min", 1), ("T_adv", 0), ("ascent_batch", 1)):
                if getattr(self, name) < minimum:
                    raise ValueError(f"{name} must be {minimum} or more, not {getattr(self, name)}")

    @classmethod
    def scaled(cls, image_size: tuple[int, int]) -> dict[str, Any]:
        """The ascent step is that of 32 x 32 pixels times the ratio of pixels.

        The gain of an image is a mean over its pixels or features, so that a pixel's gradient
        shrinks with their number, and the step must grow for pixels to move as far. The batch of
        the ascent, which does not affect the result, shrinks by the same ratio, down to 8.
        """
        p, ratio = cls.Params(), math.prod(image_size) / 32**2
        return {
            "ascent_step": p.ascent_step * ratio,
            "ascent_batch": min(p.ascent_batch, max(8, round(p.ascent_batch / ratio))),
        }

    def steps_between(self) -> int:
        """Training steps before each domain; a short training still generates all K domains."""
        p = self.params
        steps: int = p.T_min_epochs * (self.source_size // self.recipe.batch) or p.T_min
        return min(steps, self.train_steps // (int(p.K) + 1))

    def batches(self, published: int) -> int:
        """The number of batches per domain: the published one, or the limit if it is smaller."""
        limit: int | None = self.params.max_batches
        return max(1, published if limit is None else min(limit, published))

    def cost_per_image(self, phase: Phase) -> float:
        """Each ascent step costs about as much as a training step."""
        return max(1.0, float(self.params.T_adv)) if phase.name == "generate" else 1.0

    def any_batch(self, phase: Phase) -> bool:
        """Each image ascends its own value."""
        return phase.name == "generate"

    def ascend(self, x: Tensor, gain: Gain) -> Tensor:
        """Gradient ascent on ``gain`` from ``x`` with this method's parameters."""
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
    """Plain gradient ascent on ``gain`` from ``x``, with steps of the given size.

    Each image ascends its own value, so neither the other images nor the batch size matter. Only
    the gradient of the pixels is computed.
    """
    for _ in range(steps):
        x = x.detach().requires_grad_()
        x = x.detach().add(gradient(gain, x), alpha=size)
    return x.clamp(0, 1) if clamp else x


def mean_square(first: Tensor, second: Tensor) -> Tensor:
    """The mean squared difference of each image, over all of its elements."""
    # Unlike ``square``, autocast computes it in float32: in half precision small ones would be 0.
    return F.mse_loss(first, second, reduction="none").flatten(1).mean(1)


@contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """Evaluation mode, and no gradients of weights, while images are generated."""
    training = [module.training for module in modules]
    for module in modules:
        module.eval()
    try:
        with without_weight_gradients(*modules):
            yield
    finally:
        for module, mode in zip(modules, training, strict=True):
            module.train(mode)


@contextmanager
def without_weight_gradients(*modules: nn.Module) -> Iterator[None]:
    """No gradients of weights, which saves their computation where only the input's count."""
    weights = [w for module in modules for w in module.parameters() if w.requires_grad]
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)
