"""Datasets: one source domain, its unseen targets, the task and the recipe."""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np

from sdgbench.errors import UserError, unknown
from sdgbench.progress import Reporter
from sdgbench.seeds import permutation
from sdgbench.settings import param
from sdgbench.task import Task

Split = Literal["train", "val"]
PRESETS = ("paper", "quick", "smoke")
STREAMED_ABOVE = 2 * 2**30  # bytes: such a domain is never held as a whole
HASHED_AT_ONCE = 2**24  # bytes


class MissingData(UserError):
    """Data that is not there, with how to get it."""


class Rows:
    """Some rows of an array, changed as they are read: nowhere does it exist as a whole."""

    def __init__(
        self,
        array: np.ndarray,
        rows: np.ndarray | None = None,
        change: Callable[[np.ndarray], np.ndarray] = lambda rows: rows,
    ) -> None:
        self.array, self.change = array, change
        self.rows = np.arange(len(array)) if rows is None else rows
        sample = self[:1]
        self.dtype, self.ndim = sample.dtype, sample.ndim
        self.shape = (len(self.rows), *sample.shape[1:])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> np.ndarray:
        first, *others = key if isinstance(key, tuple) else (key,)
        rows = self.rows[first]
        read = self.change(self.array[np.atleast_1d(rows)])
        chosen: np.ndarray = read[(slice(None) if np.ndim(rows) else 0, *others)]
        return chosen

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


def rows_of(
    array: np.ndarray,
    rows: np.ndarray | None = None,
    change: Callable[[np.ndarray], np.ndarray] = lambda rows: rows,
) -> np.ndarray:
    """``Rows`` under the type that they stand in for: indexing is all a domain's reader needs."""
    return cast(np.ndarray, Rows(array, rows, change))


@dataclass(frozen=True)
class Domain:
    """A set of labelled images with a name; its tags are in ``Dataset.target_tags``."""

    name: str
    images: np.ndarray  # uint8 (N, 3, H, W), possibly memory-mapped
    labels: np.ndarray  # integers (N,) or (N, H, W)
    streams: bool = False  # read batch by batch from where it is, never held as a whole

    def __post_init__(self) -> None:
        if self.images.dtype != np.uint8 or self.images.ndim != 4 or self.images.shape[1] != 3:
            raise ValueError(f"{self.name}: images must be uint8 (N, 3, H, W)")
        if len(self.images) != len(self.labels) or not len(self.images):
            raise ValueError(f"{self.name}: needs one label per image and at least one image")

    def __len__(self) -> int:
        return len(self.images)

    def sha256(self) -> str:
        """The hash of the decoded content: shapes, pixels and labels."""
        digest = hashlib.sha256(repr((self.images.shape, self.labels.shape)).encode())
        for block in _blocks(self.images):
            digest.update(np.ascontiguousarray(block).data)
        for block in _blocks(self.labels):
            digest.update(np.ascontiguousarray(block, dtype=np.int64).data)
        return digest.hexdigest()

    @property
    def is_streamed(self) -> bool:
        """Whether it asks for it or is too large for anything else."""
        size = math.prod(self.images.shape) + math.prod(self.labels.shape)
        return self.streams or size > STREAMED_ABOVE

    def take(self, most: int | None) -> "Domain":
        """At most so many images: always the same random ones, in their order."""
        return self if most is None or most >= len(self) else self.select(self.rows_taken(most))

    def rows_taken(self, most: int | None) -> np.ndarray:
        """Which images ``take`` takes."""
        return np.sort(permutation(0, len(self), "take")[:most])

    def select(self, rows: np.ndarray) -> "Domain":
        """The images of some rows, in their order."""
        if self.is_streamed:
            images, labels = rows_of(self.images, rows), rows_of(self.labels, rows)
            return Domain(self.name, images, labels, streams=True)
        return Domain(self.name, self.images[rows], self.labels[rows])


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Cut along the first axis, into what may be in memory at once."""
    rows = max(1, HASHED_AT_ONCE // (math.prod(array.shape[1:]) * 8))  # 8: labels grow to int64
    for start in range(0, len(array), rows):
        yield array[start : start + rows]


@dataclass(frozen=True)
class Recipe:
    """What all methods share on a dataset at a preset."""

    network: str = param("convnet", "network, by name: convnet, wrn-16-4, fcn32-resnet50, ...")
    pretrained: bool = param(False, "start from ImageNet weights, where the network has them")
    image_size: tuple[int, int] = param((32, 32), "height and width of the network's input")
    optimiser: Literal["adam", "sgd"] = param("adam", "optimiser of the task network")
    lr: float = param(1e-4, "initial learning rate")
    momentum: float = param(0.0, "momentum of sgd (Nesterov's when above 0)")
    weight_decay: float = param(0.0, "weight decay")
    schedule: Literal["constant", "linear", "cosine"] = param("constant", "learning-rate schedule")
    steps: int = param(0, "length in steps; 0: given by epochs")
    epochs: int = param(0, "length in passes over the source; 0: given by steps")
    batch: int = param(32, "source images per step")
    augment: Literal["none", "crop-flip"] = param("none", "input augmentation of the source")
    validations: int = param(10, "how often the source validation set is scored during training")
    eval_batch: int = param(256, "images per forward pass in evaluation")
    test_images: int | None = param(None, "at most so many images per target; none: all")
    reduced: str = param("", "what is smaller than in the paper; empty: nothing")

    def __post_init__(self) -> None:
        if bool(self.steps) == bool(self.epochs):
            raise ValueError("the recipe needs either steps or epochs above 0, and not both")
        for name in ("batch", "eval_batch", "lr"):
            if getattr(self, name) <= 0:
                raise ValueError(f"recipe.{name} must be above 0, not {getattr(self, name)}")
        for name in ("steps", "epochs", "validations", "momentum", "weight_decay"):
            if getattr(self, name) < 0:
                raise ValueError(f"recipe.{name} must not be below 0, not {getattr(self, name)}")
        if self.test_images is not None and self.test_images < 1:
            raise ValueError("recipe.test_images must be above 0, or none for all")

    def total_steps(self, source_size: int) -> int:
        """The length in steps; an epoch drops the last partial batch."""
        return self.steps or self.epochs * max(1, source_size // self.batch)


class Dataset:
    """What a contributor of a dataset writes."""

    name: ClassVar[str]
    task: ClassVar[Task]
    family: ClassVar[str] = ""  # whose parameters methods should use, for an embedded twin
    version: ClassVar[int] = 1  # raise it when content or protocol changes: records then differ
    streams: ClassVar[bool] = False  # its images are large: set it on the domains that it makes

    @dataclass(frozen=True)
    class Options:
        """This dataset has no options."""

    def __init__(self, root: Path, options: Any, recipe: Recipe) -> None:
        self.root = root / self.name
        self.options = options
        self.recipe_used = recipe

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The recipe of each preset."""
        raise NotImplementedError

    @classmethod
    def recipe(cls, preset: str) -> Recipe:
        """The recipe of one preset."""
        found = cls.recipes()
        if preset not in found:
            raise unknown("preset", preset, found)
        return found[preset]

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """The targets in order, with their tags; known without opening any data."""
        raise NotImplementedError

    @classmethod
    def source_name(cls, options: Any) -> str:
        """The name of the source domain."""
        raise NotImplementedError

    def prepare(self, reporter: Reporter | None = None) -> None:
        """Bring the data into place: idempotent, locked, verified; only this writes data."""

    def data_flags(self) -> dict[str, Any]:
        """What a reader of a table must know of the data that was used."""
        return {}

    @classmethod
    def averages(cls, targets: Sequence[str]) -> dict[str, list[str]]:
        """Named means over targets; the first is the ranked one."""
        return {"average": list(targets)}

    def source(self, split: Split) -> Domain:
        """The one domain that methods learn from; "val" is held out from it."""
        raise NotImplementedError

    def target(self, name: str) -> Domain:
        """One of the domains that are never seen before evaluation; may raise MissingData."""
        raise NotImplementedError

    def target_train(self, name: str) -> Domain | None:
        """The training split of a target, from which few-shot samples are drawn; None: has none.

        Only ``sdgbench adapt`` opens it, after training.
        """
        return None

    @classmethod
    def tiny(cls, options: Any, recipe: Recipe) -> "Dataset":
        """A synthetic twin of the same shapes, classes and domains, with no data needed."""
        return _Tiny(cls, options, recipe)


class _Tiny(Dataset):
    """Coloured noise whose mean tells the class: learnable at once, and different per domain."""

    def __init__(self, twin: type[Dataset], options: Any, recipe: Recipe, count: int = 48) -> None:
        self.twin, self.options, self.recipe_used, self.count = twin, options, recipe, count
        self.task = twin.task  # type: ignore[misc]

    def source(self, split: Split) -> Domain:
        return self._make(self.twin.source_name(self.options), split)

    def target(self, name: str) -> Domain:
        return self._make(name, "test")

    def _make(self, name: str, split: str) -> Domain:
        rng = np.random.default_rng(list(f"{name}/{split}".encode()))
        height, width = self.recipe_used.image_size
        classes = self.task.classes
        shape = (self.count,) if self.task.metric == "accuracy" else (self.count, height, width)
        labels = rng.integers(0, classes, shape, dtype=np.uint8)
        level = (labels.reshape(self.count, 1, *(shape[1:] or (1, 1))) + 1.0) / (classes + 1)
        noise = rng.normal(0, 12, (self.count, 3, height, width))
        images = (255 * level + noise + rng.normal(0, 8, (1, 3, 1, 1))).clip(0, 255)
        return Domain(name, images.astype(np.uint8), labels, self.twin.streams)
