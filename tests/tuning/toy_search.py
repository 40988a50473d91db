"""A small dataset whose targets can be closed, and methods that break or stop on demand."""

import os
import signal
import zlib
from dataclasses import dataclass

import numpy as np

from sdgbench.data.domain import Domain
from sdgbench.dataset import Dataset
from sdgbench.method import LogUniform, Method, OneOf, param
from sdgbench.recipe import Recipe
from sdgbench.registry import register_dataset, register_method
from sdgbench.task import Classification

CLASSES = 4


@register_dataset("toy-search")
class ToySearch(Dataset):
    """The bright quarter tells the class; targets are darker, or noisier."""

    task = Classification(classes=CLASSES)
    families = ("shading",)

    @classmethod
    def recipes(cls):
        recipe = Recipe(
            network="convnet-4",
            image_size=(16, 16),
            lr=1e-3,
            steps=12,
            batch=16,
            validations=2,
            test_images=40,
            reduced="a toy",
        )
        return {"paper": recipe, "smoke": recipe}

    @classmethod
    def source_name(cls, options):
        return "plain"

    @classmethod
    def target_tags(cls, options):
        return {"dark": {}, "noisy": {}}

    def source(self, split):
        return _images("plain", split, 64)

    def target(self, name):
        if os.environ.get("TOY_CLOSED"):
            raise RuntimeError(f"somebody opened {name}")
        return _images(name, "test", 40)


def _images(name, split, count):
    rng = np.random.default_rng(zlib.crc32(f"{name}/{split}".encode()))
    labels = rng.permutation(np.arange(count) % CLASSES).astype(np.uint8)
    images = np.full((count, 3, 16, 16), 60.0) - 40 * (name == "dark")
    for image, quarter in zip(images, labels, strict=True):
        top, left = 8 * (quarter // 2), 8 * (quarter % 2)
        image[:, top : top + 8, left : left + 8] += 90
    noise = rng.normal(0, 60 if name == "noisy" else 20, images.shape)
    return Domain(name, (images + noise).clip(0, 255).astype(np.uint8), labels)


@register_method("toy-fragile")
class Fragile(Method):
    """ERM with a factor on its loss; some values break it, or ask it to stop."""

    families = ("invert",)

    @dataclass(frozen=True)
    class Params:
        factor: float = param(1.0, "factor of the loss", search=LogUniform(0.1, 10))
        mode: str = param("plain", "what happens", search=OneOf("plain", "other"))
        unused: float = param(0.5, "searched on request only")

    def train_step(self, x, y):
        if self.params.mode == "broken":
            raise RuntimeError("this setting is broken")
        if self.params.mode == "stopping" and os.environ.get("TOY_STOP") and self.updates == 5:
            signal.raise_signal(signal.SIGINT)
        return self.optimise(self.params.factor * self.task.loss(self.network(x), y))
