"""Several processes that share a device: one of them can have it alone, to measure a latency.

All locks are the kernel's (flock), so a process that dies holds none.
"""

import fcntl
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

WAIT_SECONDS = 60.0  # for the others to pause; then a latency is measured next to them
POLL_SECONDS = 0.01


class DeviceShare:
    """This process's part in a device that several processes use.

    A process holds ``work`` shared while it computes. To have the device alone, it takes ``turn``,
    sets a flag that the others look at between two steps, and waits until it has ``work`` alone.
    """

    def __init__(self, folder: Path, device: str, processes: int) -> None:
        self.processes = processes  # that share the device, this one included
        name = device.replace(":", "-")
        self._work, self._turn, flag = (
            _opened(folder / f"{name}.{part}") for part in ("work", "turn", "flag")
        )
        with flag:
            os.ftruncate(flag.fileno(), 1)
            self._asked = mmap.mmap(flag.fileno(), 1)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Use the device, next to others."""
        fcntl.flock(self._work, fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self._work, fcntl.LOCK_UN)

    def pause_if_asked(self, finish: Callable[[], object]) -> None:
        """Between two steps: if another process wants the device alone, wait until it has done.

        ``finish`` waits for the work that is still queued.
        """
        if not self._asked[0]:
            return
        finish()
        fcntl.flock(self._work, fcntl.LOCK_UN)
        fcntl.flock(self._turn, fcntl.LOCK_SH)
        self._asked[0] = 0  # whoever set it has ended, or died without clearing it
        fcntl.flock(self._turn, fcntl.LOCK_UN)
        fcntl.flock(self._work, fcntl.LOCK_SH)

    @contextmanager
    def alone(self, seconds: float = WAIT_SECONDS) -> Iterator[bool]:
        """Have the device alone. Yields False if the others did not pause in time."""
        fcntl.flock(self._work, fcntl.LOCK_UN)  # else two that want it wait for each other
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        try:
            self._asked[0] = 1
            yield self._lock_work(time.monotonic() + seconds)
        finally:
            self._asked[0] = 0
            fcntl.flock(self._turn, fcntl.LOCK_UN)
            fcntl.flock(self._work, fcntl.LOCK_SH)

    def _lock_work(self, deadline: float) -> bool:
        while True:
            try:
                fcntl.flock(self._work, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return False
                time.sleep(POLL_SECONDS)


def _opened(path: Path) -> IO[bytes]:
    return path.open("a+b")
