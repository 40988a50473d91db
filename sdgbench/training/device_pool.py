"""The pool's images on a GPU: batches are gathered there, and files are written meanwhile."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdgbench.training.device import Device

MEMORY_SHARE = 0.25  # of the GPU's memory that the pools of its runs may take
Append = Callable[[tuple[np.ndarray, np.ndarray]], None]


class DevicePool:
    """Labelled images on the device, and a thread that appends them to the files.

    The host waits for the device only in ``flush``, which checkpoints call.
    """

    def __init__(self, device: Device, append: Append) -> None:
        self.device, self._append = device, append
        self._images: list[Tensor] = []
        self._labels: list[Tensor] = []
        self._writer = ThreadPoolExecutor(1, "pool-writer")
        self._writing: list[Future[None]] = []

    def load(self, images: np.ndarray, labels: np.ndarray) -> None:
        """Start with images of the files."""
        self._images = [self.device.to_device(torch.from_numpy(np.array(images)))]
        self._labels = [self.device.to_device(torch.from_numpy(np.array(labels, np.int64)))]

    def add(self, images: Tensor, labels: Tensor) -> None:
        """Keep a batch here and have it written; returns at once."""
        self._images.append(images)
        self._labels.append(labels)
        copies = self._copy_to_host(images), self._copy_to_host(labels)
        copied = self.device.event()
        self._writing = [future for future in self._writing if not _is_written(future)]
        self._writing.append(self._writer.submit(self._write, copies, copied))

    def gather(self, indices: np.ndarray) -> tuple[Tensor, Tensor]:
        """Images and labels on the device, in the order of ``indices``."""
        if len(self._images) > 1:  # since the last gather, images were added
            self._images, self._labels = [torch.cat(self._images)], [torch.cat(self._labels)]
        rows = self.device.to_device(torch.from_numpy(indices))
        return self._images[0].index_select(0, rows), self._labels[0].index_select(0, rows)

    def flush(self) -> None:
        """Wait until everything is in the files; raises what went wrong there."""
        writing, self._writing = self._writing, []
        for future in writing:
            future.result()

    def close(self) -> None:
        """End the thread, after it has written everything."""
        self._writer.shutdown()

    def _copy_to_host(self, tensor: Tensor) -> Tensor:
        host = self.device.pin(torch.empty_like(tensor, device="cpu"))
        return host.copy_(tensor, non_blocking=True)

    def _write(self, copies: tuple[Tensor, Tensor], copied: Any) -> None:
        copied.synchronize()
        self._append((copies[0].numpy(), copies[1].numpy()))


def _is_written(future: "Future[None]") -> bool:
    """Whether a batch is in the files; raises what went wrong."""
    if future.done():
        future.result()
        return True
    return False


def fits(device: Device, image_bytes: int) -> bool:
    """Whether images of this size in all may stay on the device."""
    if device.memory is None:
        return False
    return image_bytes <= MEMORY_SHARE * device.memory.total() / device.sharing
