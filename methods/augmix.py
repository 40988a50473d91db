"""AugMix: mixtures of augmentation chains, with consistent predictions."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sdgbench.method import Around, Integers, Method, Phase, Uniform, param
from sdgbench.methods import _image_ops as ops
from sdgbench.methods._losses import js_divergence
from sdgbench.methods._random_ops import Ranges, apply, pick, signs
from sdgbench.registry import register_method

# Without color, contrast, brightness and sharpness, which are corruptions of the tests.
OPERATIONS = ("autocontrast", "equalize", "posterize", "solarize", *ops.GEOMETRIC)
ALL_OPERATIONS = (*OPERATIONS, "color", "contrast", "brightness", "sharpness")
FULL = 10.0  # the strength at which the ranges are reached


@register_method(
    "augmix",
    title="AugMix",
    paper="Hendrycks et al., AugMix: A Simple Data Processing Method to Improve Robustness and "
    "Uncertainty, ICLR 2020",
    skips={"segmentation": "it mixes images that are shifted against each other and their labels"},
)
class AugMix(Method):
    """Classify images, and predict alike on two mixtures of augmentation chains of each (AugMix).

    Operations are Pillow's, without those that overlap with the corruptions of CIFAR-10-C.
    """

    families: ClassVar[tuple[str, ...]] = ("posterize", "solarize", "rotate", "shear")
    operations: ClassVar[tuple[str, ...]] = OPERATIONS

    @dataclass(frozen=True)
    class Params:
        """Values of the released script for CIFAR-10."""

        weight: float = param(12.0, "weight of the consistency (code); 0: ERM", search=Around(10))
        severity: float = param(
            3.0,
            "strengths are drawn from U(0.1, severity), of 10 (code)",
            search=Uniform(1.0, 10.0),
        )
        width: int = param(3, "chains per mixture (code)", search=Integers(1, 5))
        depth: int = param(
            3, "operations per chain are drawn from 1 to depth (code)", search=Integers(1, 4)
        )

        def __post_init__(self) -> None:
            if self.weight < 0 or not 0.1 <= self.severity <= FULL:
                raise ValueError("augmix needs weight of 0 or more, severity from 0.1 to 10")
            if self.width < 1 or self.depth < 1:
                raise ValueError("augmix needs width and depth of 1 or more")

    recipes: ClassVar = {
        "cifar10c": {
            "network": "wrn-40-2",
            "lr": 0.1,
            "momentum": 0.9,
            "weight_decay": 5e-4,
            "schedule": "cosine",
            "epochs": 100,
            "batch": 128,
        }
    }

    def shardable(self, phase: Phase) -> bool:
        """The loss is a mean over the images, and each image has its own random numbers."""
        return True

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """Classify the clean images; all three in one forward pass, so one batch-norm batch."""
        if not self.params.weight:
            return self.optimise(self.task.loss(self.network(x), y))
        with self.device.no_autocast():
            views = [x, *self.mixtures(x, views=2)]
        logits = self.network(torch.cat(views)).chunk(len(views))
        consistency = js_divergence(logits)
        return self.optimise(self.task.loss(logits[0], y) + self.params.weight * consistency)

    def mixtures(self, x: Tensor, views: int) -> Tensor:
        """Views (view, image, ...): (1 - m) x + m (w_1 chain_1 + w_2 chain_2 + ...).

        The weights w are from Dirichlet(1, ..., 1), that is, exponential ones divided by their
        sum; m is from Beta(1, 1), that is, uniform.
        """
        width, per_chain = self.params.width, 2 + 3 * self.params.depth
        drawn = self.rand_per_image(x, views * (1 + width * per_chain))
        drawn = drawn.view(len(x), views, -1).transpose(0, 1)
        m = drawn[..., :1]
        drawn = drawn[..., 1:].reshape(views, len(x), width, per_chain)
        w = -torch.log1p(-drawn[..., 0])
        shares = torch.cat([1 - m, m * w / w.sum(2, keepdim=True)], 2)
        chains = ops.from_levels(self.chains(ops.to_levels(x), drawn[..., 1:]))
        images = torch.cat([x.expand(views, 1, *x.shape), chains], 1)
        return torch.einsum("vns,vsnchw->vnchw", self.device.to_device(shares.to(x.dtype)), images)

    def chains(self, levels: Tensor, drawn: Tensor) -> Tensor:
        """Augment images by chains of random operations; returns (view, chain, image, ...).

        ``drawn`` (view, image, chain, number) has the random numbers: the first says how many
        operations a chain has, and each operation has three: which one, its strength, its sign.
        """
        p = self.params
        side = min(levels.shape[2:])
        ranges = Ranges(30, 0.3, translate=side / 3, bits=(4, 4), factor=(0.1, 1.9), bilinear=True)
        views, _, width, _ = drawn.shape
        result = levels.repeat(views * width, 1, 1, 1)
        drawn = drawn.transpose(1, 2).flatten(0, 2)
        length = 1 + pick(drawn[:, 0], p.depth)
        for step in range(p.depth):
            kind, strength, sign = drawn[:, 1 + 3 * step : 4 + 3 * step].unbind(1)
            choice = pick(kind, len(self.operations)).masked_fill(step >= length, -1)
            strength = 0.1 + strength * (p.severity - 0.1)
            result = apply(result, self.operations, choice, strength, signs(sign), ranges, FULL)
        return result.view(views, width, *levels.shape)


@register_method(
    "augmix-all",
    title="AugMix (all operations)",
    paper="Hendrycks et al., ICLR 2020",
    skips={"segmentation": "it mixes images that are shifted against each other and their labels"},
    flags={"corruption_overlap": "it trains on changes of contrast, brightness and saturation"},
)
class AugMixAll(AugMix):
    """AugMix with color, contrast, brightness and sharpness, too (``--all-ops`` of its code).

    Their factor is 0.1 at no strength and 1.9 at full strength, so that at the default severity
    they only weaken the image.
    """

    families: ClassVar = ("channels", "hue", *AugMix.families)
    operations: ClassVar = ALL_OPERATIONS
