"""The CIFAR-10-C benchmark in small: rendered objects under 19 corruptions at 5 severities."""

from dataclasses import replace
from typing import Any

import numpy as np

from sdgbench.corruptions.generator import corrupt
from sdgbench.corruptions.names import SEVERITIES
from sdgbench.data.corruption_protocol import CLEAN, CorruptedTargets
from sdgbench.data.domain import Arrays, Domain, Split
from sdgbench.data.generated_dataset import GeneratedDataset
from sdgbench.datasets import _recipes as recipes
from sdgbench.datasets import _shapes as shapes
from sdgbench.recipe import Recipe
from sdgbench.registry import register_dataset
from sdgbench.task import Classification

SIZES = {"train": 4000, "val": 500, "test": 400}
SEEDS = {"train": 1, "val": 2, "test": 3}


@register_dataset("shapes10c", paper="after Hendrycks and Dietterich, ICLR 2019")
class Shapes10C(CorruptedTargets, GeneratedDataset):
    """Rendered objects of ten classes against 19 corruptions at 5 severities, and clean.

    The protocol is that of CIFAR-10-C, with the project's own corruption generator and procedural
    frost overlays; the objects are not those of CIFAR-10.
    """

    task = Classification(classes=10, names=shapes.CLASSES)
    family = "cifar10c"

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The paper's recipe for CIFAR-10, and shorter ones with a narrower network."""
        paper = recipes.CIFAR
        return {
            "paper": paper,
            "quick": replace(
                paper,
                network="wrn-16-1",
                epochs=0,
                steps=400,
                batch=64,
                test_images=200,
                validations=4,
                reduced="WRN-16-1, 400 steps of 64 instead of 200 epochs of 128, 200 test images "
                "per domain",
            ),
            "smoke": replace(
                paper,
                network="wrn-10-1",
                epochs=0,
                steps=10,
                batch=32,
                test_images=16,
                validations=2,
                reduced="WRN-10-1, 10 steps, 16 test images per domain",
            ),
        }

    @classmethod
    def source_name(cls, options: Any) -> str:
        """Clean renderings."""
        return "shapes"

    def source(self, split: Split) -> Domain:
        """Clean objects; those held out are others."""
        return self._clean("shapes", split)

    def target(self, name: str) -> Domain:
        """The test objects, clean or corrupted."""
        if name == CLEAN:
            return self._clean(CLEAN, "test")
        corruption, severity = name.split("/")
        whole = self.cached(corruption, lambda: self._corrupt(corruption))
        block = slice((int(severity) - 1) * SIZES["test"], int(severity) * SIZES["test"])
        return Domain(name, whole.images[block], whole.labels[block])

    def _clean(self, name: str, split: str) -> Domain:
        rng = np.random.default_rng(SEEDS[split])
        return self.cached(name, lambda: shapes.render(SIZES[split], rng), key=split)

    def _corrupt(self, corruption: str) -> Arrays:
        clean = self._clean(CLEAN, "test")
        images = np.ascontiguousarray(clean.images.transpose(0, 2, 3, 1))
        blocks = [corrupt(images, corruption, severity) for severity in SEVERITIES]
        stacked = np.concatenate(blocks).transpose(0, 3, 1, 2)
        return np.ascontiguousarray(stacked), np.tile(clean.labels, len(SEVERITIES))
