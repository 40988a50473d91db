"""Batches: which images, in which order, how augmented; determined by the seed alone."""

from collections.abc import Sequence
from copy import copy
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sdgbench.data.domain import Domain, label_type
from sdgbench.method import Read
from sdgbench.recipe import Recipe
from sdgbench.spec import augmentations
from sdgbench.spec.seeds import permutation
from sdgbench.training.augment import augment
from sdgbench.training.device import Device
from sdgbench.training.distributed import BatchShard
from sdgbench.training.pool import Pool


class ScoredImages(Protocol):
    """A domain as evaluation reads it."""

    device: Device

    def __len__(self) -> int: ...

    def span(self, start: int, stop: int) -> Tensor:
        """Images ``start`` to ``stop`` in [0, 1], for evaluation."""

    def truth(self, start: int, stop: int) -> np.ndarray:
        """Labels ``start`` to ``stop``, for the scores."""


class Images(ScoredImages, Protocol):
    """A domain as training and evaluation read it."""

    prefetch_batches: int  # number of upcoming batches that ``prefetch`` should be given

    def gather(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Images in [0, 1] and labels, in the given order."""

    def prefetch(self, reader: str, batches: Sequence[np.ndarray]) -> None:
        """Start to read the batches that a reader will gather next, in place of earlier ones."""

    def close(self) -> None:
        """Release threads and files; reading again opens them again."""


class DeviceImages:
    """A domain as one uint8 array on the device; batches are gathered and converted there."""

    prefetch_batches = 0  # everything is in memory

    def __init__(self, domain: Domain, device: Device) -> None:
        images = np.ascontiguousarray(domain.images)
        # Torch cannot share a read-only (memory-mapped) array, so that one is copied.
        images = images if images.flags.writeable else images.copy()
        self.images = device.to_device(torch.from_numpy(images))
        labels = np.array(domain.labels)
        labels = labels.astype(label_type(int(labels.max()) + 1))
        self._truth = labels  # on the host, where scores are computed
        self.labels = device.to_device(torch.from_numpy(labels))
        if self.labels.dim() == 1:  # label maps would take eight times the memory
            self.labels = self.labels.long()
        # The same memory for NumPy, which gathers rows in less time than torch.
        on_cpu = device.kind == "cpu"
        self._arrays = (self.images.numpy(), self.labels.numpy()) if on_cpu else None
        self.device, self._count = device, len(images)

    def __len__(self) -> int:
        return self._count

    def gather(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Images in [0, 1] and labels, in the given order."""
        if self._arrays:
            images = torch.from_numpy(self._arrays[0].take(indices, 0))
            labels = torch.from_numpy(self._arrays[1].take(indices, 0))
        else:
            rows = self.device.to_device(torch.from_numpy(indices))
            images, labels = self.images.index_select(0, rows), self.labels.index_select(0, rows)
        return to_unit(images), labels if labels.dtype == torch.int64 else labels.long()

    def span(self, start: int, stop: int) -> Tensor:
        """Images ``start`` to ``stop`` in [0, 1], for evaluation."""
        return to_unit(self.images[start:stop])

    def truth(self, start: int, stop: int) -> np.ndarray:
        """Labels ``start`` to ``stop``, for the scores."""
        return self._truth[start:stop]

    def prefetch(self, reader: str, batches: Sequence[np.ndarray]) -> None:
        """Do nothing: all images are in memory."""

    def close(self) -> None:
        """Do nothing: there are no threads and no files."""


_MAX_BYTE = torch.tensor(255.0)  # torch would turn a number into such a tensor at each call


def to_unit(images: Tensor) -> Tensor:
    """Turn bytes into floats in [0, 1]."""
    return images.float().div_(_MAX_BYTE)


class Feed:
    """An endless stream of batches for one read of a phase, shuffled unless it asks for order.

    Its order depends on the seed and on ``key`` (phase name and position of the read) alone, so
    the first read of "train" is the same for all methods. An epoch drops the last partial batch;
    when the pool has grown, a new epoch begins. A read with a number of ``images`` starts over
    with its phase and takes exactly that number from what is available at that moment; which ones
    does not depend on the batch size.
    """

    def __init__(
        self, key: str, read: Read, source: Images, pool: Pool, recipe: Recipe, seed: int
    ) -> None:
        self.key, self.read, self.source, self.pool, self.seed = key, read, source, pool, seed
        self.batch = read.batch or recipe.batch
        self.augment = augmentations.parse(recipe.augment) if read.augment else ()
        self._from_pool = "pool" in read.what.split("+")
        self._in_source = len(source) if "source" in read.what.split("+") else 0
        self.epoch, self.offset, self.size = 0, 0, 0
        self.together = 1  # batches of a counted read that the next one takes as one
        self._order = np.empty(0, dtype=np.int64)
        self._last_batch = np.empty(0, dtype=np.int64)

    def begin(self) -> None:
        """Called when a phase begins: a counted read starts over, with what is available now."""
        if self.read.images is not None:
            self.epoch, self.offset, self.size = self.epoch + 1, 0, self._available()
            self._order = np.empty(0, dtype=np.int64)

    def next(self, shard: BatchShard | None = None) -> tuple[Tensor, Tensor]:
        """The next batch, or this process's shard of it."""
        if self.source.prefetch_batches:
            self.source.prefetch(self.key, self._upcoming(self.source.prefetch_batches, shard))
        indices = self._last_batch = self._next_indices()
        images, labels = self._gather(shard.take(indices) if shard else indices)
        if self.augment:
            images, labels = augment(
                self.augment,
                (images, labels),
                self.seed,
                (self.key, self.epoch),
                self.offset,
                shard,
                self.source.device.to_device,
            )
        self.offset += len(indices)
        return images, labels

    def next_size(self) -> int:
        """The number of images of the next batch."""
        return len(self._next_indices())  # the same ones until the position moves

    def _upcoming(self, count: int, shard: BatchShard | None = None) -> list[np.ndarray]:
        """The source indices of the next batches; this feed's position does not move."""
        lookahead, batches = copy(self), []
        for _ in range(count):
            indices = lookahead._next_indices()
            lookahead.offset += len(indices)
            in_source = lookahead._source_rows(shard.take(indices) if shard else indices)
            if len(in_source):
                batches.append(in_source)
        return batches

    def _next_indices(self) -> np.ndarray:
        return self._endless_indices() if self.read.images is None else self._counted_indices()

    def _endless_indices(self) -> np.ndarray:
        size = self._available()
        batch = min(self.batch, size)
        if size != self.size or self.offset + batch > size:
            self.epoch += 1
            self.offset, self.size = 0, size
            self._order = np.empty(0, dtype=np.int64)
        if not len(self._order):
            self._order = self._ordered(size, self.epoch)
        return self._order[self.offset : self.offset + batch]

    def _counted_indices(self) -> np.ndarray:
        images = self.read.images or 0
        if not len(self._order):  # as many passes as it takes
            passes = range(-(-images // self.size))
            orders = [self._ordered(self.size, self.epoch, number) for number in passes]
            self._order = np.concatenate(orders)[:images]
        return self._order[self.offset : self.offset + self.together * self.batch]

    def _ordered(self, size: int, *stream: int) -> np.ndarray:
        if not self.read.shuffle:
            return np.arange(size)
        return permutation(self.seed, size, "order", self.key, *stream)

    def _available(self) -> int:
        size = self._in_source
        if self._from_pool:
            in_pool = len(self.pool)
            if self.read.only is not None:
                in_pool = sum(min(stop, in_pool) - start for start, stop in self.read.only)
            size += in_pool
        if not size:
            raise RuntimeError(f"{self.key} reads the pool, which is still empty")
        return size

    def _source_rows(self, indices: np.ndarray) -> np.ndarray:
        """The rows of the source that a batch gathers; row 0 in place of images of the pool."""
        if self.read.what == "source":
            return indices
        from_pool = indices >= self._in_source
        return indices[:0] if from_pool.all() else np.where(from_pool, 0, indices)

    @property
    def source_indices(self) -> np.ndarray:
        """For each image of the last batch the source image it goes back to; -1: not known."""
        if self.read.what == "source":
            return self._last_batch
        from_pool = self._last_batch >= self._in_source
        result = self._last_batch.copy()
        in_pool = self._pool_indices(self._last_batch[from_pool] - self._in_source)
        result[from_pool] = self.pool.source_indices[in_pool]
        return result

    def _gather_from_pool(self, positions: np.ndarray) -> tuple[Tensor, Tensor]:
        return self.pool.gather(self._pool_indices(positions))

    def _pool_indices(self, positions: np.ndarray) -> np.ndarray:
        """Turn positions among the ranges that are read into indices of the pool."""
        if self.read.only is not None:
            starts = np.array([start for start, _ in self.read.only], dtype=np.int64)
            ends = np.cumsum([stop - start for start, stop in self.read.only], dtype=np.int64)
            number = np.searchsorted(ends, positions, side="right")  # of the range
            positions = starts[number] + positions - np.concatenate([[0], ends])[number]
        return positions

    def _gather(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        if self.read.what == "source":
            return self.source.gather(indices)
        first = self._in_source
        from_pool = indices >= first
        to_device = self.source.device.to_device
        if from_pool.all():
            images, labels = self._gather_from_pool(indices - first)
            return to_device(images), to_device(labels)
        images, labels = self.source.gather(self._source_rows(indices))
        if from_pool.any():
            pool_images, pool_labels = self._gather_from_pool(indices[from_pool] - first)
            rows = to_device(torch.from_numpy(np.flatnonzero(from_pool)))
            images[rows], labels[rows] = to_device(pool_images), to_device(pool_labels)
        return images, labels

    def state_dict(self) -> dict[str, Any]:
        """The position in the stream, as checkpoints keep it."""
        return {"epoch": self.epoch, "offset": self.offset, "size": self.size}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position that ``state_dict`` returned."""
        self.epoch, self.offset, self.size = state["epoch"], state["offset"], state["size"]
        self._order = np.empty(0, dtype=np.int64)
