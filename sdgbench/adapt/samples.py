"""Few-shot samples: which images of a target are trained on, and which are tested on."""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from sdgbench.data.domain import Domain
from sdgbench.dataset import Dataset
from sdgbench.errors import UserError
from sdgbench.spec.seeds import permutation

HELD_OUT = 10  # images per class to draw from, where a target has no training split


class Target:
    """A target for adaptation: a split to draw samples from, and images to test on.

    A draw depends on the run's seed, the target and the number of the draw alone, so all methods
    of a seed train on the same images, and a draw of fewer shots is a subset of one of more.
    """

    def __init__(self, dataset: Dataset, name: str) -> None:
        self.name, self.classes = name, dataset.task.classes
        self.test = dataset.open_target(name)
        train = dataset.target_train(name)
        self.drawn_from: Literal["train", "test"] = "test" if train is None else "train"
        self.split = self.test if train is None else train
        self.flags = dataset.data_flags()
        self.test_rows = self.test.subsample_rows(dataset.recipe_used.test_images)

    @cached_property
    def whole(self) -> Domain:
        """The test images before any is held out."""
        return self.test.select(self.test_rows)

    @cached_property
    def whole_sha256(self) -> str:
        """The hash of the content of ``whole``."""
        return self.whole.sha256()

    def held_out(self, shots: Sequence[int]) -> int:
        """The number of images per class that are not tested on, at any of the given shots.

        The same for 0, 7 and 10 shots, so that their differences are on the same images.
        """
        return max(HELD_OUT, *shots) if self.drawn_from == "test" else 0

    def draw(self, seed: int, draw: int, shots: int) -> np.ndarray:
        """The rows of the split that one draw selects: ``shots`` of each class, class by class."""
        labels = np.asarray(self.split.labels)
        rows = [np.empty(0, dtype=np.int64)]
        for label in range(self.classes):
            in_class = np.flatnonzero(labels == label)
            if len(in_class) < shots:
                raise UserError(
                    f"{self.name} has {len(in_class)} images of class {label} to draw from, not "
                    f"{shots}. Use fewer --shots."
                )
            order = permutation(seed, len(in_class), "few-shot", self.name, draw, label)
            rows.append(in_class[order[:shots]])
        return np.concatenate(rows)

    def evaluation(self, seed: int, draw: int, held_out: int) -> Domain:
        """The test images without those that are held out for a draw."""
        if not held_out:
            return self.whole
        rows = np.setdiff1d(self.test_rows, self.draw(seed, draw, held_out))
        if not len(rows):
            raise UserError(
                f"{self.name} has no training split, and holding out {held_out} images per "
                "class leaves none of its test split to test on. Use fewer --shots."
            )
        return self.test.select(rows)
