"""RandConv: random convolutions of the images, which keep shapes and change textures."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from sdgbench.method import Around, Method, Phase, Uniform, param
from sdgbench.methods._losses import js_divergence
from sdgbench.registry import register_method

VIEWS = 3  # of each image, between which predictions have to agree


@register_method(
    "randconv",
    paper="Xu et al., Robust and Generalizable Visual Representation Learning via Random "
    "Convolutions, ICLR 2021",
)
class RandConv(Method):
    """Train on images mixed with random convolutions of themselves, and predict alike on three.

    This is RC-mix of the paper; rc-img is its variant without mixing. Parameters are those of the
    released script for Digits. None are released for other datasets, which use the same.
    """

    families: ClassVar = ("channels", "hue", "invert")

    @dataclass(frozen=True)
    class Params:
        """Values of the released script for Digits."""

        weight: float = param(
            10.0, "weight of the consistency (code); 0: one view, no consistency", search=Around(10)
        )
        kernel_sizes: tuple[int, ...] = param((1, 3, 5, 7), "sizes that are drawn from (code)")
        mix: bool = param(True, "mix with the image, by a share from U(0, 1) (RC-mix)")
        probability: float = param(
            1.0, "probability that a view is convolved; 0: ERM", search=Uniform(0.3, 1.0)
        )
        views: Literal["independent", "chained"] = param(
            "independent",
            "views 2 and 3 are made from the image (paper) or from view 1: chained (code)",
        )

        def __post_init__(self) -> None:
            if self.weight < 0 or not 0 <= self.probability <= 1:
                raise ValueError("randconv needs weight of 0 or more, probability from 0 to 1")
            if not self.kernel_sizes or any(k < 1 or k % 2 == 0 for k in self.kernel_sizes):
                raise ValueError("randconv needs odd kernel_sizes, such as 1,3,5,7")

    def shardable(self, phase: Phase) -> bool:
        """All images of a batch share the kernels, which every process draws alike."""
        return True

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """Classify the first view; all views in one forward pass, so one batch for batch norm."""
        p = self.params
        if not p.probability:
            return self.optimise(self.task.loss(self.network(x), y))
        views = self.draw_views(x)
        logits = self.network(torch.cat(views)).chunk(len(views))
        loss = self.task.loss(logits[0], y)
        if p.weight:
            loss = loss + p.weight * js_divergence(logits)
        return self.optimise(loss)

    def draw_views(self, x: Tensor) -> list[Tensor]:
        """The views of a batch that one step needs."""
        p = self.params
        with self.device.no_autocast():
            first = self.draw_view(x)
            start = first if p.views == "chained" else x
            return [first, *(self.draw_view(start) for _ in range(VIEWS - 1 if p.weight else 0))]

    def draw_view(self, x: Tensor) -> Tensor:
        """One random convolution for the whole batch, or the batch as it is."""
        p = self.params
        if torch.rand(()).item() >= p.probability:
            return x
        size = p.kernel_sizes[torch.randint(len(p.kernel_sizes), ()).item()]
        kernel, share = draw_kernel(size), torch.rand(()).item() if p.mix else 1.0
        return convolve(x, self.device.to_device(kernel), share)


def draw_kernel(size: int) -> Tensor:
    """Weights of a convolution from 3 to 3 channels, from N(0, 1 / (3 size^2)).

    They are drawn on the CPU, so that they do not depend on the device.
    """
    weights: Tensor = torch.randn(3, 3, size, size) / (3 * size**2) ** 0.5
    return weights


def convolve(x: Tensor, kernel: Tensor, share: float) -> Tensor:
    """Mix images with their convolution, which has this share. Nothing is clamped.

    Pixels are taken to [-1, 1]: in [0, 1] a black background would stay black.
    """
    z = 2 * x - 1
    convolved = F.conv2d(z, kernel, padding=kernel.shape[-1] // 2)
    return (share * convolved + (1 - share) * z + 1) / 2


@register_method(
    "rc-img",
    title="RC-img",
    paper="Xu et al., ICLR 2021, without mixing",
)
class RandConvImage(RandConv):
    """RandConv without mixing: a view is convolved entirely, or in half of the cases not at all."""

    @dataclass(frozen=True)
    class Params(RandConv.Params):
        """As RandConv, with the published values of RC-img."""

        weight: float = param(
            5.0, "weight of the consistency; 0: one view, no consistency", search=Around(10)
        )
        mix: bool = param(False, "mix with the image, by a share from U(0, 1) (RC-mix)")
        probability: float = param(
            0.5, "probability that a view is convolved; 0: ERM", search=Uniform(0.3, 1.0)
        )
