"""ALT: adversarially learned transformations of the images by a small random network."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.transforms import RandomResizedCrop

from sdgbench.method import Around, Method, Uniform, param
from sdgbench.methods._ascent import frozen
from sdgbench.methods._losses import js_divergence
from sdgbench.methods.randconv import convolve, draw_kernel
from sdgbench.registry import register_method
from sdgbench.training.device import to_device

WIDTHS = (3, 18, 18, 18, 18, 3)  # channels of the transformation network (code)
SLOPE = 0.2  # of its LeakyReLU
DARKEST = 1e-4  # its output is clamped to [1e-4, 1] (code)
KERNEL_SIZES = (1, 3, 5, 7)  # of RandConv
FLOOR = 1e-4  # of the mixture in the consistency (code)


@register_method(
    "alt",
    title="ALT",
    paper="Gokhale et al., Improving Diversity with Adversarially Learned Transformations for "
    "Domain Generalization, WACV 2023",
    skips={"segmentation": "its consistency and crops were made for one label per image"},
)
class ALT(Method):
    """Predict alike on an image, a random convolution of it, and a learned transformation of it.

    In each step a small network is drawn at random and trained to make the images hard. The input
    augmentation is the recipe's; alt-crop adds that of the paper. warmup=1 is ERM.
    """

    families: ClassVar = ("channels", "hue", "invert")

    @dataclass(frozen=True)
    class Params:
        """Published values for Digits (released code); other datasets use the same."""

        warmup: float = param(0.125, "share of the training that is ERM (code: 1,250 of 10,000)")
        ascent_steps: int = param(
            10, "Adam steps of the transformation network (code); 0: it stays random"
        )
        ascent_lr: float = param(
            5e-6, "Adam learning rate of the transformation network (code)", search=Around(10)
        )
        variation: float = param(
            1.0, "weight of its output's total variation (code)", search=Around(10)
        )
        clean: float = param(
            0.25, "weight of the loss on clean images (code)", search=Uniform(0.1, 1.0)
        )
        consistency: float = param(0.75, "weight of the consistency (code)", search=Around(10))
        crop: float = param(
            1.0, "smallest share of the area that random crops keep (code: 0.5); 1: no crops"
        )

        def __post_init__(self) -> None:
            if not 0 <= self.warmup <= 1 or not 0 < self.crop <= 1 or self.ascent_steps < 0:
                raise ValueError(
                    "alt needs warmup from 0 to 1, crop above 0 and up to 1, ascent_steps of 0 or "
                    "more"
                )

    per_dataset: ClassVar = {"smoke": {"ascent_steps": 2}}

    def setup(self) -> None:
        """The transformation network, whose biases are kept from step to step."""
        if self.params.warmup < 1:
            self.transformation = new_transformation().to(self.device.torch)

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """One step of ERM, or of ALT when it has begun."""
        p = self.params
        if p.crop < 1:
            x = random_resized_crop(x, p.crop)
        if self.updates < round(p.warmup * self.train_steps):
            return self.optimise(self.task.loss(self.network(x), y))
        views = torch.cat([x, self.random_convolution(x), self.learned_transformation(x, y)])
        logits = self.network(views).chunk(3)
        loss = p.clean * self.task.loss(logits[0], y)
        return self.optimise(loss + p.consistency * js_divergence(logits, FLOOR))

    def random_convolution(self, x: Tensor) -> Tensor:
        """The RC-mix view of RandConv: one kernel and one share for the batch."""
        size = KERNEL_SIZES[int(torch.randint(len(KERNEL_SIZES), ()).item())]
        kernel, share = self.device.to_device(draw_kernel(size)), torch.rand(()).item()
        with self.device.no_autocast():
            return convolve(x, kernel, share)

    def learned_transformation(self, x: Tensor, y: Tensor) -> Tensor:
        """Draw the transformation network, train it against the task network, and apply it."""
        p, network = self.params, self.transformation
        draw_weights(network)
        weights = list(network.parameters())
        optimizer = torch.optim.Adam(weights, p.ascent_lr)
        with frozen(self.network), self.device.no_autocast():
            for _ in range(p.ascent_steps):
                x_plus = transform(network, x)
                loss = p.variation * total_variation(x_plus) - self.task.loss(
                    self.network(x_plus), y
                )
                for weight, grad in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                    weight.grad = grad
                optimizer.step()
            with torch.no_grad():
                return transform(network, x)


def new_transformation() -> nn.Sequential:
    """A network of five 3x3 convolutions from pixels to pixels."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(WIDTHS):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.LeakyReLU(SLOPE)]
    return nn.Sequential(*layers[:-1])


def draw_weights(network: nn.Sequential) -> None:
    """Give the convolutions other Kaiming-normal weights; biases stay.

    They are drawn on the CPU, so that they do not depend on the device.
    """
    for layer in network:
        if isinstance(layer, nn.Conv2d):
            weight = torch.empty(layer.weight.shape)
            nn.init.kaiming_normal_(weight, SLOPE, nonlinearity="leaky_relu")
            layer.weight.data.copy_(to_device(weight, layer.weight.device))


def transform(network: nn.Sequential, x: Tensor) -> Tensor:
    """Apply a transformation network, whose pixels are in [-1, 1], to images in [0, 1]."""
    output: Tensor = network(2 * x - 1)
    return (output.clamp(DARKEST, 1) + 1) / 2


def total_variation(x: Tensor) -> Tensor:
    """The mean absolute difference of neighbours, below plus beside, of pixels in [-1, 1]."""
    return 2 * ((x.diff(dim=2).abs()).mean() + (x.diff(dim=3).abs()).mean())


def random_resized_crop(x: Tensor, smallest: float) -> Tensor:
    """Torchvision's RandomResizedCrop back to the images' size, with a box for each image."""
    height, width = x.shape[2:]
    draw = RandomResizedCrop.get_params
    boxes = [draw(x[0], [smallest, 1.0], [3 / 4, 4 / 3]) for _ in range(len(x))]
    top, left, high, wide = to_device(torch.tensor(boxes, dtype=x.dtype), x.device).unbind(1)
    rows, columns = (
        within(start, length, side)
        for start, length, side in ((top, high, height), (left, wide, width))
    )
    shape = (len(x), height, width)
    grid = torch.stack([columns[:, None, :].expand(shape), rows[:, :, None].expand(shape)], 3)
    return F.grid_sample(x, grid, "bilinear", "border", align_corners=False)


def within(start: Tensor, length: Tensor, side: int) -> Tensor:
    """Where ``side`` pixels of a box are in the image, in the sampler's units from -1 to 1."""
    share = (torch.arange(side, device=start.device) + 0.5) / side
    pixel = share * length[:, None] - 0.5  # in the box, whose border pixels are repeated
    pixel = start[:, None] + pixel.clamp(min=0).minimum(length[:, None] - 1)
    return (2 * pixel + 1) / side - 1


@register_method(
    "alt-crop",
    title="ALT (crops)",
    paper="Gokhale et al., WACV 2023, with its input augmentation",
    skips={"segmentation": "its consistency and crops were made for one label per image"},
    flags={"extra_augmentation": "it trains on random resized crops, beyond the recipe"},
)
class ALTCrop(ALT):
    """ALT with the random resized crops of its paper, which the other methods do not have."""

    @dataclass(frozen=True)
    class Params(ALT.Params):
        """As ALT, with crops."""

        crop: float = param(
            0.5,
            "smallest share of the area that random crops keep (code)",
            search=Uniform(0.3, 1.0),
        )
