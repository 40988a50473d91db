"""Batches: which images, in which order, how augmented. All of it follows from the seed."""

from collections.abc import Sequence
from copy import copy
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sdgbench.dataset import Domain, Recipe
from sdgbench.device import Device
from sdgbench.method import Read
from sdgbench.parallel import Part
from sdgbench.pool import Pool
from sdgbench.seeds import derive, permutation


class Images(Protocol):
    """A domain as training and evaluation read it."""

    device: Device
    ahead: int  # how many batches it wants to know before they are drawn

    def __len__(self) -> int: ...

    def gather(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Images in [0, 1] and labels, in the given order."""

    def span(self, start: int, stop: int) -> Tensor:
        """A contiguous stretch of images, for evaluation."""

    def truth(self, start: int, stop: int) -> np.ndarray:
        """The labels of such a stretch, for the scores."""

    def prefetch(self, reader: str, batches: Sequence[np.ndarray]) -> None:
        """What a reader will gather next; what it announced before and left out is given up."""

    def close(self) -> None:
        """Nothing more will be read for now."""


class DeviceImages:
    """A domain as one uint8 array on the device; batches are gathered and converted there."""

    ahead = 0

    def __init__(self, domain: Domain, device: Device) -> None:
        images = np.ascontiguousarray(domain.images)
        # Torch cannot share a read-only (memory-mapped) array, so that one is copied.
        images = images if images.flags.writeable else images.copy()
        self.images = device.put(torch.from_numpy(images))
        self.labels = device.put(torch.from_numpy(np.array(domain.labels, dtype=np.uint8)))
        self.device = device

    def __len__(self) -> int:
        return len(self.images)

    def gather(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Images in [0, 1] and labels, in the given order."""
        chosen = self.device.put(torch.from_numpy(indices))
        labels = self.labels.index_select(0, chosen).long()
        return to_unit(self.images.index_select(0, chosen)), labels

    def span(self, start: int, stop: int) -> Tensor:
        """A contiguous stretch of images, for evaluation."""
        return to_unit(self.images[start:stop])

    def truth(self, start: int, stop: int) -> np.ndarray:
        """The labels of such a stretch, for the scores."""
        return self.labels[start:stop].cpu().numpy()

    def prefetch(self, reader: str, batches: Sequence[np.ndarray]) -> None:
        """There is nothing to do: all of it is here."""

    def close(self) -> None:
        """There is nothing to end."""


def to_unit(images: Tensor) -> Tensor:
    """Turn bytes into floats in [0, 1]."""
    return images.to(torch.float32).div_(255)


class Feed:
    """An endless stream of shuffled batches for one read of a phase.

    Its order depends on the seed and on ``key`` (phase name and position of the read) alone, so
    the first read of "train" is the same for all methods. An epoch drops the last partial batch;
    when the pool has grown, a new epoch begins. A read of ``images`` begins anew with its phase,
    takes exactly so many of what there was at that moment, and which ones does not depend on the
    batch size.
    """

    def __init__(
        self, key: str, read: Read, source: Images, pool: Pool, recipe: Recipe, seed: int
    ) -> None:
        self.key, self.read, self.source, self.pool, self.seed = key, read, source, pool, seed
        self.batch = read.batch or recipe.batch
        self.augment = read.augment and recipe.augment == "crop-flip"
        self.epoch, self.offset, self.size = 0, 0, 0
        self._order = np.empty(0, dtype=np.int64)
        self._drawn = np.empty(0, dtype=np.int64)  # the last batch

    def begin(self) -> None:
        """A phase begins: a counted read starts over, with what there is now."""
        if self.read.images is not None:
            self.epoch, self.offset, self.size = self.epoch + 1, 0, self._available()
            self._order = np.empty(0, dtype=np.int64)

    def next(self, part: Part | None = None) -> tuple[Tensor, Tensor]:
        """Draw the next batch, or this process's part of it."""
        if self.source.ahead:
            self.source.prefetch(self.key, self._upcoming(self.source.ahead, part))
        chosen = self._drawn = self._choose()
        images, labels = self._gather(part.of(chosen) if part else chosen)
        if self.augment:
            place = ("augment", self.key, self.epoch, self.offset)
            images = crop_and_flip(images, derive(self.seed, *place), part)
        self.offset += len(chosen)
        return images, labels

    def size_of_next(self) -> int:
        """How many images the next batch has."""
        return len(copy(self)._choose())

    def _upcoming(self, count: int, part: Part | None = None) -> list[np.ndarray]:
        """What the next draws will gather; a copy goes there, for this place must not move."""
        scout, batches = copy(self), []
        for _ in range(count):
            chosen = scout._choose()
            scout.offset += len(chosen)
            in_source = scout._in_source(part.of(chosen) if part else chosen)
            if len(in_source):
                batches.append(in_source)
        return batches

    def _choose(self) -> np.ndarray:
        return self._endless() if self.read.images is None else self._counted()

    def _endless(self) -> np.ndarray:
        size = self._available()
        batch = min(self.batch, size)
        if size != self.size or self.offset + batch > size:
            self.epoch += 1
            self.offset, self.size = 0, size
            self._order = np.empty(0, dtype=np.int64)
        if not len(self._order):
            self._order = permutation(self.seed, size, "order", self.key, self.epoch)
        return self._order[self.offset : self.offset + batch]

    def _counted(self) -> np.ndarray:
        images = self.read.images or 0
        if not len(self._order):  # as many passes as it takes
            passes = range(-(-images // self.size))
            orders = [
                permutation(self.seed, self.size, "order", self.key, self.epoch, lap)
                for lap in passes
            ]
            self._order = np.concatenate(orders)[:images]
        return self._order[self.offset : self.offset + self.batch]

    def _available(self) -> int:
        in_pool = len(self.pool)
        if self.read.only is not None:
            in_pool = sum(min(stop, in_pool) - start for start, stop in self.read.only)
        sizes = {"source": len(self.source), "pool": in_pool}
        size = sum(sizes[part] for part in self.read.what.split("+"))
        if not size:
            raise RuntimeError(f"{self.key} reads the pool, which is still empty")
        return size

    def _in_source(self, chosen: np.ndarray) -> np.ndarray:
        """Which source images a batch takes; the first one stands in for those of the pool."""
        if self.read.what == "source":
            return chosen
        first = len(self.source) if self.read.what == "source+pool" else 0
        from_pool = chosen >= first
        return chosen[:0] if from_pool.all() else np.where(from_pool, 0, chosen)

    @property
    def origins(self) -> np.ndarray:
        """Which source images the last batch was made of; -1: not known."""
        if self.read.what == "source":
            return self._drawn
        first = len(self.source) if self.read.what == "source+pool" else 0
        from_pool = self._drawn >= first
        found = self._drawn.copy()
        found[from_pool] = self.pool.origins[self._places(self._drawn[from_pool] - first)]
        return found

    def _in_pool(self, positions: np.ndarray) -> tuple[Tensor, Tensor]:
        """Read by position among the stretches that are read."""
        return self.pool.gather(self._places(positions))

    def _places(self, positions: np.ndarray) -> np.ndarray:
        """Where in the pool these are."""
        if self.read.only is not None:
            starts = np.array([start for start, _ in self.read.only], dtype=np.int64)
            ends = np.cumsum([stop - start for start, stop in self.read.only], dtype=np.int64)
            which = np.searchsorted(ends, positions, side="right")
            positions = starts[which] + positions - np.concatenate([[0], ends])[which]
        return positions

    def _gather(self, chosen: np.ndarray) -> tuple[Tensor, Tensor]:
        if self.read.what == "source":
            return self.source.gather(chosen)
        first = len(self.source) if self.read.what == "source+pool" else 0
        from_pool = chosen >= first
        put = self.source.device.put
        if from_pool.all():
            images, labels = self._in_pool(chosen - first)
            return put(images), put(labels)
        images, labels = self.source.gather(self._in_source(chosen))
        if from_pool.any():
            extra_images, extra_labels = self._in_pool(chosen[from_pool] - first)
            rows = put(torch.from_numpy(np.flatnonzero(from_pool)))
            images[rows], labels[rows] = put(extra_images), put(extra_labels)
        return images, labels

    def state_dict(self) -> dict[str, Any]:
        """The position, which is all there is."""
        return {"epoch": self.epoch, "offset": self.offset, "size": self.size}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        self.epoch, self.offset, self.size = state["epoch"], state["offset"], state["size"]
        self._order = np.empty(0, dtype=np.int64)


def crop_and_flip(images: Tensor, seed: int, part: Part | None = None, margin: int = 4) -> Tensor:
    """Reflect-pad by ``margin``, crop back at random, mirror half of the images."""
    count, _, height, width = images.shape
    total = part.total if part else count
    generator = torch.Generator().manual_seed(seed)
    shift = torch.randint(-margin, margin + 1, (total, 2), generator=generator)
    mirrored = torch.rand(total, generator=generator) < 0.5
    if part:
        shift, mirrored = part.of(shift), part.of(mirrored)
    rows = _reflect(torch.arange(height) + shift[:, :1], height)
    columns = _reflect(torch.arange(width) + shift[:, 1:], width)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    picture = torch.arange(count)[:, None, None, None]
    channel = torch.arange(images.shape[1])[None, :, None, None]
    where = [picture, channel, rows[:, None, :, None], columns[:, None, None, :]]
    return images[tuple(index.to(images.device) for index in where)]


def _reflect(index: Tensor, size: int) -> Tensor:
    index = index.abs()
    return torch.where(index >= size, 2 * (size - 1) - index, index)
