"""RandAugment: several random operations per image, all of one strength."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sdgbench.method import Integers, Method, Phase, Uniform, param
from sdgbench.methods import _image_ops as ops
from sdgbench.methods._random_ops import FOURTEEN, Ranges, apply, pick, signs
from sdgbench.registry import register_method

FULL = 30  # strengths are 0 to 30


@register_method(
    "randaugment",
    title="RandAugment",
    paper="Cubuk et al., RandAugment: Practical Automated Data Augmentation with a Reduced Search "
    "Space, NeurIPS 2020",
    skips={"segmentation": "its operations move pixels, and the labels would have to follow"},
    flags={"corruption_overlap": "it trains on changes of contrast, brightness and saturation"},
)
class RandAugment(Method):
    """ERM on images with N random operations each, all of strength M (RandAugment).

    N and M are those of the Digits baselines of later papers. M counts to 30, and at 30 the
    operations reach 30 degrees, a shear of 0.3, a shift of 0.45 of the width, 4 bits, factors of
    1.9: the ranges of TrivialAugment's code for RandAugment.
    """

    families: ClassVar = ("channels", "hue", "posterize", "solarize", "rotate", "shear")

    @dataclass(frozen=True)
    class Params:
        """Values of the Digits baselines of later papers."""

        N: int = param(3, "operations per image (later papers); 0: ERM", search=Integers(1, 5))
        M: float = param(
            4.0, "strength of all operations, of 30 (later papers)", search=Uniform(1.0, 30.0)
        )

        def __post_init__(self) -> None:
            if self.N < 0 or not 0 <= self.M <= FULL:
                raise ValueError("randaugment needs N of 0 or more, M from 0 to 30")

    def shardable(self, phase: Phase) -> bool:
        """The loss is a mean over the images, and each image has its own random numbers."""
        return True

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """ERM on augmented images."""
        if self.params.N:
            with self.device.no_autocast():
                x = self.augmented(x)
        return self.optimise(self.task.loss(self.network(x), y))

    def augmented(self, x: Tensor) -> Tensor:
        """N operations of 14 for each image, one after the other; one may occur twice."""
        shift = 0.45 * min(x.shape[2:])
        ranges = Ranges(rotate=30, shear=0.3, translate=shift, bits=(8, 4), factor=(0.1, 1.9))
        drawn = self.rand_per_image(x, 2 * self.params.N)
        level = torch.full((len(x),), float(self.params.M), dtype=drawn.dtype)
        levels = ops.to_levels(x)
        for kind, sign in drawn.T.reshape(-1, 2, len(x)):
            choice = pick(kind, len(FOURTEEN))
            levels = apply(levels, FOURTEEN, choice, level, signs(sign), ranges, FULL)
        return ops.from_levels(levels)
