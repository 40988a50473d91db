"""Pro-RandConv: one random convolution block, applied again and again."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torchvision.ops import deform_conv2d
from torchvision.transforms.v2 import functional as vision

from sdgbench.method import Around, Integers, Method, Phase, Uniform, param
from sdgbench.registry import register_method
from sdgbench.training.device import to_device

SIZE = 3  # of the kernel
LEAST = 1e-2  # spreads and offsets are drawn from here on, where papers write epsilon


@register_method(
    "pro-randconv",
    title="Pro-RandConv",
    paper="Choi et al., Progressive Random Convolutions for Single Domain Generalization, "
    "CVPR 2023",
    flags={"reconstruction": "its code is not public; written from descriptions and other codes"},
)
class ProRandConv(Method):
    """Train on images and on a random convolution block's output, applied 1 to 10 times to them.

    A reconstruction: the official code is not public. A public reproduction stayed more than six
    points below the paper on Digits.
    """

    families: ClassVar = ("channels", "hue", "invert", "wave")

    @dataclass(frozen=True)
    class Params:
        """Values that codes of others agree on."""

        weight: float = param(
            1.0, "weight of the loss on transformed images (paper); 0: ERM", search=Around(4)
        )
        repeats: int = param(
            10, "the block is applied 1 to this many times (paper)", search=Integers(1, 20)
        )
        offsets: float | None = param(
            None, "largest scale of the offsets; none: 0.2, or 0.5 above 64 pixels (paper)"
        )
        field: Literal["smooth", "blurred", "white"] = param(
            "smooth", "offsets: Gaussian field (two of four codes), blurred noise, or noise"
        )
        contrast: float = param(
            0.5, "standard deviation of gamma and beta (paper)", search=Uniform(0.1, 1.0)
        )

        def __post_init__(self) -> None:
            if self.weight < 0 or self.repeats < 1 or self.contrast < 0:
                raise ValueError("pro-randconv needs weight, contrast of 0 or more, repeats of 1")
            if self.offsets is not None and self.offsets < 0:
                raise ValueError("pro-randconv needs offsets of 0 or more")

    recipes: ClassVar = {
        "digits": {
            "optimiser": "sgd",
            "lr": 0.01,
            "momentum": 0.9,
            "schedule": "cosine",
            "batch": 64,
            "epochs": 500,
            "steps": 0,
        }
    }

    def shardable(self, phase: Phase) -> bool:
        """All images of a batch share the block, which every process draws alike."""
        return True

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """Classify the images and their transformations, in one forward pass."""
        p = self.params
        if not p.weight:
            return self.optimise(self.task.loss(self.network(x), y))
        with self.device.no_autocast():
            transformed = self.transformed(x)
        logits, others = self.network(torch.cat([x, transformed])).chunk(2)
        return self.optimise(self.task.loss(logits, y) + p.weight * self.task.loss(others, y))

    def transformed(self, x: Tensor) -> Tensor:
        """Draw a block and apply it several times, with the same weights."""
        p = self.params
        height, width = x.shape[2:]
        block = Block.draw(height, width, self.largest_offset(x), p.field, p.contrast).to(x.device)
        z = 2 * x - 1
        for _ in range(1 + int(torch.randint(p.repeats, ()).item())):
            z = block(z)
        return (z + 1) / 2

    def largest_offset(self, x: Tensor) -> float:
        """The published values are for 32 and for 224 pixels."""
        offsets: float | None = self.params.offsets
        return (0.2 if min(x.shape[2:]) <= 64 else 0.5) if offsets is None else offsets


@dataclass(frozen=True)
class Block:
    """Deformable convolution, standardisation, affine map, tanh; one for the whole batch."""

    kernel: Tensor  # (3, 3, SIZE, SIZE)
    offsets: Tensor  # (2 SIZE^2, H, W), in pixels
    gamma: Tensor  # (3)
    beta: Tensor  # (3)

    @classmethod
    def draw(cls, height: int, width: int, largest: float, field: str, contrast: float) -> "Block":
        """Draw all weights, on the CPU, so that they do not depend on the device."""
        scale = LEAST + torch.rand(()).item() * max(0.0, largest - LEAST) if largest else 0.0
        offsets = scale * draw_field(2 * SIZE**2, height, width, field)
        gamma, beta = contrast * torch.randn(2, 3)
        return cls(draw_kernel(), offsets, gamma, beta)

    def to(self, device: torch.device) -> "Block":
        """The same block on a device."""
        return Block(*(to_device(part, device) for part in vars(self).values()))

    def __call__(self, z: Tensor) -> Tensor:
        """Apply the block to images; the result is in (-1, 1)."""
        offsets = self.offsets.expand(len(z), -1, -1, -1)
        z = F.instance_norm(deform_conv2d(z, offsets, self.kernel, padding=SIZE // 2))
        return torch.tanh(self.gamma.view(3, 1, 1) * z + self.beta.view(3, 1, 1))


def draw_kernel() -> Tensor:
    """Weights from N(0, 1/27), under a Gaussian window of a spread from U(0, 1)."""
    spread = LEAST + torch.rand(()).item() * (1 - LEAST)
    place = torch.arange(SIZE) - SIZE // 2
    square = place[:, None] ** 2 + place**2
    window = torch.exp(-square / (2 * spread**2))
    weights: Tensor = torch.randn(3, 3, SIZE, SIZE) * window / (3 * SIZE**2) ** 0.5
    return weights


def draw_field(count: int, height: int, width: int, kind: str) -> Tensor:
    """Random maps of mean 0 and variance 1: noise, blurred noise, or a smooth Gaussian field.

    The amplitudes of the smooth field fall with the fifth power of the frequency.
    """
    maps = torch.randn(count, height, width)
    if kind == "blurred":
        maps = vision.gaussian_blur(maps, [SIZE, SIZE], [1.0, 1.0])
    if kind == "smooth":
        rows, columns = torch.fft.fftfreq(height)[:, None], torch.fft.rfftfreq(width)
        frequency = torch.hypot(height * rows, width * columns)
        amplitude = torch.where(frequency > 0, frequency.clamp(min=1) ** -5.0, 0.0)
        maps = torch.fft.irfft2(amplitude * torch.fft.rfft2(maps), s=(height, width))
    maps = maps - maps.mean((1, 2), keepdim=True)
    return maps / maps.std((1, 2), keepdim=True).clamp(min=1e-12)
