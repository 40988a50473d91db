"""Synthetic twins: small learnable data of a dataset's shapes, with no download."""

from typing import Any

import numpy as np

from sdgbench.data.domain import Domain, Split, label_type
from sdgbench.dataset import Dataset
from sdgbench.recipe import Recipe


class SyntheticTwin(Dataset):
    """Coloured noise whose mean depends on the class: easy to learn, and different per domain."""

    def __init__(self, twin: type[Dataset], options: Any, recipe: Recipe, count: int = 48) -> None:
        self.twin, self.options, self.recipe_used, self.count = twin, options, recipe, count
        self.task = twin.task_for(options)
        self._domains: dict[tuple[str, str], Domain] = {}

    def source(self, split: Split) -> Domain:
        """A few images for each split."""
        return self._make(self.twin.source_name(self.options), split)

    def target(self, name: str) -> Domain:
        """A few images whose colours differ from the source's."""
        return self._make(name, "test")

    def _make(self, name: str, split: str) -> Domain:
        if (name, split) not in self._domains:
            self._domains[name, split] = self._draw(name, split)
        return self._domains[name, split]

    def _draw(self, name: str, split: str) -> Domain:
        rng = np.random.default_rng(list(f"{name}/{split}".encode()))
        height, width = self.recipe_used.image_size
        classes = self.task.classes
        shape = (self.count,) if self.task.metric == "accuracy" else (self.count, height, width)
        labels = rng.integers(0, classes, shape, dtype=label_type(classes))
        level = (labels.reshape(self.count, 1, *(shape[1:] or (1, 1))) + 1.0) / (classes + 1)
        noise = rng.normal(0, 12, (self.count, 3, height, width))
        images = (255 * level + noise + rng.normal(0, 8, (1, 3, 1, 1))).clip(0, 255)
        return Domain(name, images.astype(np.uint8), labels, self.twin.streams)
