"""Domains that stay where they are: threads read what comes next while the device computes."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from sdgbench.dataset import Domain
from sdgbench.device import Device
from sdgbench.feed import DeviceImages, Images, to_unit

WORKERS = 2
AHEAD = 4  # batches per reader, the one that is drawn included

T = TypeVar("T")


def open_images(domain: Domain, device: Device) -> Images:
    """A domain as one array on the device, or streamed where it is too large for that."""
    return StreamedImages(domain, device) if domain.is_streamed else DeviceImages(domain, device)


class StreamedImages:
    """A domain of which only announced batches are in memory.

    Results are those of ``DeviceImages``, whatever was announced: an announcement changes only
    when a batch is read.
    """

    ahead = AHEAD

    def __init__(self, domain: Domain, device: Device) -> None:
        self.images, self.labels, self.device = domain.images, domain.labels, device
        self._ahead: Ahead[list[Tensor]] = Ahead()

    def __len__(self) -> int:
        return len(self.images)

    def gather(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Images in [0, 1] and labels, in the given order."""
        images, labels = self._ahead.take(indices.tobytes(), self._batch(indices))
        return to_unit(self.device.put(images)), self.device.put(labels).long()

    def prefetch(self, reader: str, batches: Sequence[np.ndarray]) -> None:
        """What a reader will gather next; what it announced before and left out is given up."""
        self._ahead.announce(
            reader, {indices.tobytes(): self._batch(indices) for indices in batches}
        )

    def span(self, start: int, stop: int) -> Tensor:
        """A contiguous stretch of images; those that follow are read meanwhile."""
        width = stop - start
        starts = range(start, min(len(self), start + AHEAD * width), width)
        jobs = {(begin, begin + width): self._stretch(begin, begin + width) for begin in starts}
        self._ahead.announce("span", jobs)
        (images,) = self._ahead.take((start, stop), self._stretch(start, stop))
        return to_unit(self.device.put(images))

    def truth(self, start: int, stop: int) -> np.ndarray:
        """The labels of such a stretch, for the scores."""
        return np.array(self.labels[start:stop], dtype=np.uint8)

    def close(self) -> None:
        """End the threads; a later announcement would start new ones."""
        self._ahead.close()

    def _batch(self, indices: np.ndarray) -> Callable[[], list[Tensor]]:
        return lambda: [self._read(array[indices]) for array in (self.images, self.labels)]

    def _stretch(self, start: int, stop: int) -> Callable[[], list[Tensor]]:
        return lambda: [self._read(self.images[start:stop])]

    def _read(self, rows: np.ndarray) -> Tensor:
        # The copy is what reads the disk. Its layout must be that of an array on the device:
        # another one leads to other kernels, and these to other roundings.
        return self.device.stage(torch.from_numpy(np.array(rows, dtype=np.uint8, order="C")))


class Ahead(Generic[T]):
    """Jobs that threads do before their results are asked for."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._pending: dict[str, dict[Any, Future[T]]] = {}

    def announce(self, reader: str, jobs: Mapping[Any, Callable[[], T]]) -> None:
        """Do these in turn, and forget what the reader announced before and no longer wants."""
        self._threads = self._threads or ThreadPoolExecutor(WORKERS, "sdgbench-stream")
        before = self._pending.pop(reader, {})
        self._pending[reader] = {
            key: before.pop(key) if key in before else self._threads.submit(job)
            for key, job in jobs.items()
        }
        for unwanted in before.values():
            unwanted.cancel()

    def take(self, key: Hashable, job: Callable[[], T]) -> T:
        """The result of an announced job, or its error; any other job is done at once."""
        for pending in self._pending.values():
            if key in pending:
                return pending.pop(key).result()
        return job()

    def close(self) -> None:
        """Drop what was not asked for and wait for the threads to end."""
        self._pending.clear()
        if self._threads:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None
