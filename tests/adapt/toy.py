"""A dataset with a target on which what was learned is wrong."""

import zlib
from dataclasses import dataclass

import numpy as np

from sdgbench.data.domain import Domain
from sdgbench.dataset import Dataset
from sdgbench.recipe import Recipe
from sdgbench.registry import register_dataset
from sdgbench.spec.parameters import param
from sdgbench.task import Classification

CLASSES = 4


@register_dataset("toy-turned")
class ToyTurned(Dataset):
    """The bright quarter tells the class; in the target each class has the next one's quarter."""

    task = Classification(classes=CLASSES)

    @dataclass(frozen=True)
    class Options:
        """What may be chosen."""

        train_split: bool = param(True, "the target has a training split")

    @classmethod
    def recipes(cls):
        recipe = Recipe(
            network="convnet-8",
            image_size=(16, 16),
            lr=3e-3,
            steps=40,
            batch=16,
            validations=0,
            test_images=60,
            reduced="a toy",
        )
        return {"paper": recipe, "smoke": recipe}

    @classmethod
    def source_name(cls, options):
        return "positive"

    @classmethod
    def target_tags(cls, options):
        return {"turned": {}, "darker": {}}

    def source(self, split):
        return _images("positive", split, 80)

    def target(self, name):
        return _images(name, "test", 100)

    def target_train(self, name):
        return _images(name, "few-shot", 90) if self.options.train_split else None


def _images(name, split, count):
    rng = np.random.default_rng(zlib.crc32(f"{name}/{split}".encode()))
    labels = rng.permutation(np.arange(count) % CLASSES).astype(np.uint8)
    images = np.full((count, 3, 16, 16), 60.0) - 30 * (name == "darker")
    for image, quarter in zip(images, (labels + (name == "turned")) % CLASSES, strict=True):
        top, left = 8 * (quarter // 2), 8 * (quarter % 2)
        image[:, top : top + 8, left : left + 8] += 120
    noisy = images + rng.normal(0, 8, images.shape)
    return Domain(name, noisy.clip(0, 255).astype(np.uint8), labels)
