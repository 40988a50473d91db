"""Domains: sets of labelled images, held in memory or read batch by batch from disk."""

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from sdgbench import storage
from sdgbench.errors import BadData, UserError, explain_os_errors
from sdgbench.spec.seeds import permutation

Split = Literal["train", "val"]
Arrays = tuple[np.ndarray, np.ndarray]  # images and labels

STREAMED_ABOVE = 2 * 2**30  # bytes: a larger domain is never held in memory as a whole
BYTES_AT_ONCE = 2**24  # bytes


def label_type(classes: int) -> type[np.integer[Any]]:
    """The smallest type that holds the labels of ``classes`` and that torch can index with."""
    if classes <= 256:
        return np.uint8
    return np.int16 if classes <= 2**15 else np.int32


class LazyRows:
    """Selected rows of an array, transformed as they are read; never in memory as a whole."""

    def __init__(
        self,
        array: np.ndarray,
        rows: np.ndarray | None = None,
        transform: Callable[[np.ndarray], np.ndarray] = lambda rows: rows,
    ) -> None:
        self.array, self.transform = array, transform
        self.rows = np.arange(len(array)) if rows is None else rows
        sample = self[:1]
        self.dtype, self.ndim = sample.dtype, sample.ndim
        self.shape = (len(self.rows), *sample.shape[1:])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: Any) -> np.ndarray:
        first, *others = key if isinstance(key, tuple) else (key,)
        rows = self.rows[first]
        block = self.transform(self.array[np.atleast_1d(rows)])
        selected: np.ndarray = block[(slice(None) if np.ndim(rows) else 0, *others)]
        return selected

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


def lazy_rows(
    array: np.ndarray,
    rows: np.ndarray | None = None,
    transform: Callable[[np.ndarray], np.ndarray] = lambda rows: rows,
) -> np.ndarray:
    """``LazyRows``, typed as the array that they replace: a domain's readers only index it."""
    return cast(np.ndarray, LazyRows(array, rows, transform))


def content_sha256(images: np.ndarray, labels: np.ndarray) -> str:
    """The hash of decoded content: shapes, pixels and labels, whatever files they come from."""
    digest = hashlib.sha256(repr((images.shape, labels.shape)).encode())
    for block in blocks(images):
        digest.update(np.ascontiguousarray(block).data)
    for block in blocks(labels):
        digest.update(np.ascontiguousarray(block, dtype=np.int64).data)
    return digest.hexdigest()


def blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Cut an array along its first axis into blocks that fit into memory."""
    row = max(1, 8 * math.prod(array.shape[1:]))  # 8: labels are converted to int64
    step = max(1, BYTES_AT_ONCE // row)
    for start in range(0, len(array), step):
        yield array[start : start + step]


def load_array(path: Path, fix: str, mmap: bool = False) -> np.ndarray:
    """Read an array from a .npy file of ours; if it is damaged, the error says how to fix it."""
    with explain_os_errors("read", path):
        storage.open_regular(path).close()  # a pipe would block
        try:
            array = np.load(path, mmap_mode="r" if mmap else None)
        except OSError:
            raise
        except Exception:  # NumPy raises errors of many kinds for damaged headers
            array = None
    if not isinstance(array, np.ndarray):
        raise UserError(f"{path} is damaged. {fix}")
    return array


@dataclass(frozen=True)
class Domain:
    """A set of labelled images with a name; its tags are in ``Dataset.target_tags``."""

    name: str
    images: np.ndarray  # uint8 (N, 3, H, W), possibly memory-mapped
    labels: np.ndarray  # integers (N,) or (N, H, W)
    streams: bool = False  # read batch by batch from disk, never held as a whole

    def __post_init__(self) -> None:
        for what, array in (("images", self.images), ("labels", self.labels)):
            if not isinstance(array, (np.ndarray, LazyRows)) and not hasattr(array, "dtype"):
                raise BadData(f"{self.name}: {what} must be an array, not a {type(array).__name__}")
        if self.images.dtype != np.uint8 or self.images.ndim != 4 or self.images.shape[1] != 3:
            raise BadData(
                f"{self.name}: images must be uint8 (N, 3, H, W), not "
                f"{self.images.dtype} {tuple(self.images.shape)}"
            )
        if not self.labels.ndim:
            raise BadData(f"{self.name}: labels must be an array of one or more axes")
        if len(self.images) != len(self.labels) or not len(self.images):
            raise BadData(
                f"{self.name}: needs one label per image and at least one image, not "
                f"{len(self.labels)} labels for {len(self.images)} images"
            )
        if self.labels.dtype.kind not in "iu":  # durations count as np.integer
            raise BadData(f"{self.name}: labels must be integers, not {self.labels.dtype}")

    def __len__(self) -> int:
        return len(self.images)

    def sha256(self) -> str:
        """The hash of the decoded content: shapes, pixels and labels."""
        return content_sha256(self.images, self.labels)

    @property
    def is_streamed(self) -> bool:
        """Whether batches are read from disk: on request, or because the domain is too large."""
        size = math.prod(self.images.shape) + math.prod(self.labels.shape)
        return self.streams or size > STREAMED_ABOVE

    def subsample(self, count: int | None) -> "Domain":
        """At most ``count`` images: always the same random ones, in their order; None: all."""
        if count is None or count >= len(self):
            return self
        return self.select(self.subsample_rows(count))

    def subsample_rows(self, count: int | None) -> np.ndarray:
        """The rows of the images that ``subsample`` returns."""
        return np.sort(permutation(0, len(self), "take")[:count])

    def select(self, rows: np.ndarray) -> "Domain":
        """A domain of the images of the given rows, in the order of these."""
        if self.is_streamed:
            images, labels = lazy_rows(self.images, rows), lazy_rows(self.labels, rows)
            return Domain(self.name, images, labels, streams=True)
        return Domain(self.name, self.images[rows], self.labels[rows])
