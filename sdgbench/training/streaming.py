"""Domains too large for memory: threads read the next batches while the device computes."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from sdgbench.data.domain import Domain
from sdgbench.training.device import Device
from sdgbench.training.feeds import DeviceImages, Images, to_unit

WORKERS = 2
PREFETCH_BATCHES = 4  # per reader, including the batch that is read now

T = TypeVar("T")


def open_images(domain: Domain, device: Device) -> Images:
    """A domain as one array on the device, or streamed where it is too large for that."""
    return StreamedImages(domain, device) if domain.is_streamed else DeviceImages(domain, device)


class StreamedImages:
    """A domain of which only prefetched batches are in memory.

    Results are those of ``DeviceImages``: prefetching changes only when a batch is read.
    """

    prefetch_batches = PREFETCH_BATCHES

    def __init__(self, domain: Domain, device: Device) -> None:
        self.images, self.labels, self.device = domain.images, domain.labels, device
        self._prefetcher: Prefetcher[list[Tensor]] = Prefetcher()

    def __len__(self) -> int:
        return len(self.images)

    def gather(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Images in [0, 1] and labels, in the given order."""
        images, labels = self._prefetcher.take(indices.tobytes(), self._batch(indices))
        return to_unit(self.device.to_device(images)), self.device.to_device(labels).long()

    def prefetch(self, reader: str, batches: Sequence[np.ndarray]) -> None:
        """Start to read the batches that a reader will gather next, in place of earlier ones."""
        self._prefetcher.submit(
            reader, {indices.tobytes(): self._batch(indices) for indices in batches}
        )

    def span(self, start: int, stop: int) -> Tensor:
        """Images ``start`` to ``stop`` in [0, 1]; the next ones are read in the meantime."""
        width = stop - start
        starts = range(start, min(len(self), start + PREFETCH_BATCHES * width), width)
        jobs = {(begin, begin + width): self._range(begin, begin + width) for begin in starts}
        self._prefetcher.submit("span", jobs)
        (images,) = self._prefetcher.take((start, stop), self._range(start, stop))
        return to_unit(self.device.to_device(images))

    def truth(self, start: int, stop: int) -> np.ndarray:
        """Labels ``start`` to ``stop``, for the scores."""
        return np.array(self.labels[start:stop])

    def close(self) -> None:
        """End the threads; prefetching again starts new ones."""
        self._prefetcher.close()

    def _batch(self, indices: np.ndarray) -> Callable[[], list[Tensor]]:
        return lambda: [self._read(self.images[indices]), self._read_labels(self.labels[indices])]

    def _range(self, start: int, stop: int) -> Callable[[], list[Tensor]]:
        return lambda: [self._read(self.images[start:stop])]

    def _read(self, rows: np.ndarray) -> Tensor:
        # The copy is what reads the disk. Its layout must be that of an array on the device:
        # another one leads to other kernels, and these to other roundings.
        return self.device.pin(torch.from_numpy(np.array(rows, dtype=np.uint8, order="C")))

    def _read_labels(self, rows: np.ndarray) -> Tensor:
        kind = np.uint8 if rows.dtype == np.uint8 else np.int32  # which torch can index with
        return self.device.pin(torch.from_numpy(np.array(rows, dtype=kind, order="C")))


class Prefetcher(Generic[T]):
    """Threads that run jobs before their results are needed."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._pending: dict[str, dict[Any, Future[T]]] = {}

    def submit(self, reader: str, jobs: Mapping[Any, Callable[[], T]]) -> None:
        """Run these jobs in turn, and cancel the reader's earlier ones that are not among them."""
        self._threads = self._threads or ThreadPoolExecutor(WORKERS, "sdgbench-stream")
        before = self._pending.pop(reader, {})
        self._pending[reader] = {
            key: before.pop(key) if key in before else self._threads.submit(job)
            for key, job in jobs.items()
        }
        for obsolete in before.values():
            obsolete.cancel()

    def take(self, key: Hashable, job: Callable[[], T]) -> T:
        """The result (or error) of a submitted job; a job that was not submitted is run at once."""
        for pending in self._pending.values():
            if key in pending:
                return pending.pop(key).result()
        return job()

    def close(self) -> None:
        """Cancel all jobs and wait for the threads to end."""
        self._pending.clear()
        if self._threads:
            self._threads.shutdown(cancel_futures=True)
            self._threads = None
