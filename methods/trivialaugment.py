"""TrivialAugment: one random operation per image, at a random strength."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from sdgbench.method import Method, Phase, Uniform, param
from sdgbench.methods import _image_ops as ops
from sdgbench.methods._random_ops import FOURTEEN, Ranges, apply, pick, signs
from sdgbench.registry import register_method

WIDE = Ranges(rotate=135, shear=0.99, translate=32, bits=(8, 6), factor=(0.01, 2.0))
FULL = 30  # strengths are 0 to 30


@register_method(
    "trivialaugment",
    paper="Mueller, Hutter, TrivialAugment: Tuning-Free Yet State-of-the-Art Data Augmentation, "
    "ICCV 2021",
    skips={"segmentation": "its operations move pixels, and the labels would have to follow"},
    flags={"corruption_overlap": "it trains on changes of contrast, brightness and saturation"},
)
class TrivialAugment(Method):
    """ERM on images with one random operation each, of a random strength (TrivialAugment Wide).

    It costs hardly more than ERM: a method should be better than this. Strengths, the nearest
    neighbour and whole degrees are those of the released code.
    """

    families: ClassVar = ("channels", "hue", "posterize", "solarize", "rotate", "shear")

    @dataclass(frozen=True)
    class Params:
        """The method has no parameters of its own, by design."""

        probability: float = param(
            1.0, "probability that an image is augmented; 0: ERM", search=Uniform(0.3, 1.0)
        )

        def __post_init__(self) -> None:
            if not 0 <= self.probability <= 1:
                raise ValueError("trivialaugment needs probability from 0 to 1")

    def shardable(self, phase: Phase) -> bool:
        """The loss is a mean over the images, and each image has its own random numbers."""
        return True

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """ERM on augmented images."""
        if self.params.probability:
            with self.device.no_autocast():
                x = self.augmented(x)
        return self.optimise(self.task.loss(self.network(x), y))

    def augmented(self, x: Tensor) -> Tensor:
        """One of 14 operations at one of 31 strengths for each image."""
        kind, strength, sign, skipped = self.rand_per_image(x, 4).unbind(1)
        choice = pick(kind, len(FOURTEEN)).masked_fill(skipped >= self.params.probability, -1)
        level = pick(strength, FULL + 1)
        result = apply(ops.to_levels(x), FOURTEEN, choice, level, signs(sign), WIDE, FULL)
        return ops.from_levels(result)
