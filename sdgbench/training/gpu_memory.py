"""The memory of a GPU: what there is, what work needs, and the high-water mark of a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

R = TypeVar("R")


class GpuMemory:
    """Asks torch's allocator, which answers without waiting for the device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._peak = 0  # bytes, before torch's own mark was last reset

    def total(self) -> int:
        """Bytes of the GPU in all."""
        return torch.cuda.mem_get_info(self.device)[1]

    def free(self) -> int:
        """Bytes that nobody uses; those that torch keeps for later are free."""
        kept = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return torch.cuda.mem_get_info(self.device)[0] + kept

    def release(self) -> None:
        """Return to the GPU what torch keeps for later."""
        torch.cuda.empty_cache()

    def peak(self) -> int:
        """The high-water mark in bytes."""
        return max(self._peak, torch.cuda.max_memory_allocated(self.device))

    def reset_peak(self) -> None:
        """Reset the high-water mark."""
        self._peak = 0
        torch.cuda.reset_peak_memory_stats(self.device)

    def measure(self, work: Callable[[], R]) -> tuple[R, int]:
        """Do some work; what it returned, and the bytes that it needed meanwhile."""
        before = torch.cuda.memory_allocated(self.device)
        with self.uncounted():
            result = work()
            peak = torch.cuda.max_memory_allocated(self.device)
        self._peak = max(self._peak, peak)
        return result, max(0, peak - before)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leave out of the high-water mark what is used here only because there is plenty."""
        self._peak = self.peak()
        torch.cuda.reset_peak_memory_stats(self.device)
        try:
            yield
        finally:
            torch.cuda.reset_peak_memory_stats(self.device)
