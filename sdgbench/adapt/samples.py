"""Which images of a target are learned from, and which it is tested on."""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from sdgbench.dataset import Dataset, Domain
from sdgbench.errors import UserError
from sdgbench.seeds import permutation

HELD_OUT = 10  # images per class that a target without a training split lends


class Target:
    """A target as adaptation sees it: a split to draw from, and images to test on.

    What is drawn follows from the run's seed, the target and the number of the draw alone, so all
    methods of a seed learn from the same images, and fewer shots are a part of more.
    """

    def __init__(self, dataset: Dataset, name: str) -> None:
        self.name, self.classes = name, dataset.task.classes
        self.test = dataset.target(name)
        train = dataset.target_train(name)
        self.drawn_from: Literal["train", "test"] = "test" if train is None else "train"
        self.split = self.test if train is None else train
        self.flags = dataset.data_flags()
        self.tested = self.test.rows_taken(dataset.recipe_used.test_images)

    @cached_property
    def whole(self) -> Domain:
        """The test images before any is held out."""
        return self.test.select(self.tested)

    @cached_property
    def whole_sha256(self) -> str:
        """The hash of their content."""
        return self.whole.sha256()

    def held_out(self, shots: Sequence[int]) -> int:
        """Images per class that no draw of so many shots is tested on.

        The same for 0, 7 and 10 shots, so that their differences are on the same images.
        """
        return max(HELD_OUT, *shots) if self.drawn_from == "test" else 0

    def draw(self, seed: int, draw: int, shots: int) -> np.ndarray:
        """The rows of the split that one draw takes: so many of each class, class by class."""
        labels = np.asarray(self.split.labels)
        rows = [np.empty(0, dtype=np.int64)]
        for label in range(self.classes):
            there = np.flatnonzero(labels == label)
            if len(there) < shots:
                raise UserError(
                    f"{self.name} has {len(there)} images of class {label} to draw from, not "
                    f"{shots}. Take fewer --shots."
                )
            order = permutation(seed, len(there), "few-shot", self.name, draw, label)
            rows.append(there[order[:shots]])
        return np.concatenate(rows)

    def evaluation(self, seed: int, draw: int, held_out: int) -> Domain:
        """The test images without those that are held out for a draw."""
        if not held_out:
            return self.whole
        rows = np.setdiff1d(self.tested, self.draw(seed, draw, held_out))
        if not len(rows):
            raise UserError(
                f"{self.name} has no training split, and nothing to test on is left of its test "
                f"split when {held_out} images per class are held out. Take fewer --shots."
            )
        return self.test.select(rows)
