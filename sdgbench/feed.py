"""Batches: which images, in which order, how augmented. All of it follows from the seed."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdgbench.dataset import Domain, Recipe
from sdgbench.device import Device
from sdgbench.method import Read
from sdgbench.pool import Pool
from sdgbench.seeds import derive, permutation


class DeviceImages:
    """A domain as one uint8 array on the device; batches are gathered and converted there."""

    def __init__(self, domain: Domain, device: Device) -> None:
        images = np.ascontiguousarray(domain.images)
        # Torch cannot share a read-only (memory-mapped) array, so that one is copied.
        images = images if images.flags.writeable else images.copy()
        self.images = device.put(torch.from_numpy(images))
        self.labels = device.put(torch.from_numpy(domain.labels.astype(np.uint8)))
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


def to_unit(images: Tensor) -> Tensor:
    """Turn bytes into floats in [0, 1]."""
    return images.to(torch.float32).div_(255)


class Feed:
    """An endless stream of shuffled batches for one read of a phase.

    Its order depends on the seed and on ``key`` (phase name and position of the read) alone, so
    the first read of "train" is the same for all methods. An epoch drops the last partial batch;
    when the pool has grown, a new epoch begins.
    """

    def __init__(
        self, key: str, read: Read, source: DeviceImages, pool: Pool, recipe: Recipe, seed: int
    ) -> None:
        self.key, self.read, self.source, self.pool, self.seed = key, read, source, pool, seed
        self.batch = read.batch or recipe.batch
        self.augment = read.augment and recipe.augment == "crop-flip"
        self.epoch, self.offset, self.size = 0, 0, 0
        self._order = np.empty(0, dtype=np.int64)

    def next(self) -> tuple[Tensor, Tensor]:
        """Draw the next batch."""
        size = self._available()
        batch = min(self.batch, size)
        if size != self.size or self.offset + batch > size:
            self.epoch += 1
            self.offset, self.size = 0, size
            self._order = np.empty(0, dtype=np.int64)
        if not len(self._order):
            self._order = permutation(self.seed, size, "order", self.key, self.epoch)
        chosen = self._order[self.offset : self.offset + batch]
        images, labels = self._gather(chosen)
        if self.augment:
            place = ("augment", self.key, self.epoch, self.offset)
            images = crop_and_flip(images, derive(self.seed, *place))
        self.offset += batch
        return images, labels

    def _available(self) -> int:
        sizes = {"source": len(self.source), "pool": len(self.pool)}
        size = sum(sizes[part] for part in self.read.what.split("+"))
        if not size:
            raise RuntimeError(f"{self.key} reads the pool, which is still empty")
        return size

    def _gather(self, chosen: np.ndarray) -> tuple[Tensor, Tensor]:
        if self.read.what == "source":
            return self.source.gather(chosen)
        first = len(self.source) if self.read.what == "source+pool" else 0
        from_pool = chosen >= first
        put = self.source.device.put
        if from_pool.all():
            images, labels = self.pool.gather(chosen - first)
            return put(images), put(labels)
        images, labels = self.source.gather(np.where(from_pool, 0, chosen))
        if from_pool.any():
            extra_images, extra_labels = self.pool.gather(chosen[from_pool] - first)
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


def crop_and_flip(images: Tensor, seed: int, margin: int = 4) -> Tensor:
    """Reflect-pad by ``margin``, crop back at random, mirror half of the images."""
    count, _, height, width = images.shape
    generator = torch.Generator().manual_seed(seed)
    shift = torch.randint(-margin, margin + 1, (count, 2), generator=generator)
    mirrored = torch.rand(count, generator=generator) < 0.5
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
