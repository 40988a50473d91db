"""The SYNTHIA benchmark in small: rendered streets, three locations under five conditions."""

from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any, Literal

import numpy as np

from sdgbench.data.domain import Arrays, Domain, Split
from sdgbench.data.generated_dataset import GeneratedDataset
from sdgbench.dataset import param
from sdgbench.datasets import _recipes as recipes
from sdgbench.datasets import _scenes as scenes
from sdgbench.recipe import Recipe
from sdgbench.registry import register_dataset
from sdgbench.reporter import Reporter
from sdgbench.task import Segmentation

TRAIN, VAL, TEST = 320, 64, 64  # scenes per set


@register_dataset("streets-mini")
class StreetsMini(GeneratedDataset):
    """Rendered highway scenes against city and town streets in five conditions, 14 classes.

    Scenes, classes and protocol follow the SYNTHIA experiment of the M-ADA paper: train on the
    highway in one condition, test on the city and the town in dawn, fog, night, spring and winter.
    """

    task = Segmentation(classes=14, names=scenes.CLASSES, void=0)
    colours = scenes.PALETTE
    family = "synthia"
    families = ("hue", "shading")  # other light

    @dataclass(frozen=True)
    class Options:
        """What may be chosen."""

        source: Literal["dawn", "fog", "spring"] = param("dawn", "condition of the highway source")

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The paper's recipe for SYNTHIA, and shorter ones with a smaller encoder."""
        paper = recipes.SYNTHIA
        return {
            "paper": paper,
            "quick": replace(
                paper,
                network="fcn32-resnet18",
                image_size=(96, 160),
                epochs=8,
                lr=5e-4,
                validations=4,
                eval_batch=32,
                reduced="FCN on ResNet-18, 96x160 scenes, 8 epochs at lr 5e-4 instead of 50",
            ),
            "smoke": replace(
                paper,
                network="fcn32-tu-test_resnet",
                image_size=(64, 96),
                epochs=0,
                steps=4,
                lr=5e-4,
                batch=4,
                validations=1,
                test_images=4,
                reduced="FCN on a tiny ResNet, 64x96 scenes, 4 steps, 4 test scenes per domain",
            ),
        }

    @classmethod
    def source_name(cls, options: Any) -> str:
        """The highway in the chosen condition."""
        return f"highway/{options.source}"

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """City and town, each in five conditions."""
        return {
            f"{location}/{condition}": {"location": location, "condition": condition}
            for location in ("city", "town")
            for condition in scenes.CONDITIONS
        }

    _workers: Executor | None = None

    def prepare(self, reporter: Reporter | None = None) -> None:
        """Render what is missing, on all cores."""
        # Threads of torch do not survive a fork, so the workers start afresh (when first needed).
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as self._workers:
            super().prepare(reporter)
        self._workers = None

    def source(self, split: Split) -> Domain:
        """Highway scenes; those held out are other scenes of the same kind."""
        first, count = (0, TRAIN) if split == "train" else (TRAIN, VAL)
        return self._scenes(self.source_name(self.options), first, count, split)

    def target(self, name: str) -> Domain:
        """One unseen street."""
        return self._scenes(name, 0, TEST, "test")

    def _scenes(self, name: str, first: int, count: int, split: str) -> Domain:
        size = self.recipe_used.image_size
        key = f"{name}-{split}-{size[0]}x{size[1]}"
        return self.cached(name, lambda: self._render(name, range(first, first + count)), key)

    def _render(self, name: str, indices: range) -> Arrays:
        location, condition = name.split("/")
        draw = partial(scenes.render, location, condition, size=self.recipe_used.image_size)
        if self._workers:
            drawn = list(self._workers.map(draw, indices, chunksize=16))
        else:
            drawn = [draw(index) for index in indices]
        images = np.stack([image.transpose(2, 0, 1) for image, _ in drawn])
        return images, np.stack([labels for _, labels in drawn])
