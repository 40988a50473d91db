"""The progress of a whole matrix as a file of the runs folder, for ``status`` and ``watch``.

A run that has not begun has no folder: only this file knows of it.
"""

import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from sdgbench import storage
from sdgbench.errors import UserError
from sdgbench.launch.liveness import is_fresh, is_running_here
from sdgbench.records.schema import utc_now

if TYPE_CHECKING:  # it imports torch, which those who read the file do not need
    from sdgbench.launch.live_table import LiveTable

PATTERN = ".matrix-*.json"
MOST_WAITING = 100  # names in the file


class WaitingRun(msgspec.Struct, frozen=True):
    """A run that has not begun."""

    key: str  # dataset/method/id
    label: str


class MatrixProgress(msgspec.Struct, frozen=True):
    """The content of the file."""

    host: str
    pid: int
    time: str  # when it was written
    summary: str  # the line for all runs
    counts: str  # of runs in each state
    seconds: int  # since the command began
    total: int
    share: float  # that is done, by expected time
    seconds_left: int | None
    waiting: list[WaitingRun]  # the next ones
    waiting_count: int

    @property
    def is_alive(self) -> bool:
        """Whether the command still runs."""
        return is_running_here(self.host, self.pid) is not False and is_fresh(self.time)


class MatrixFile:
    """Keeps the file while a command runs its matrix; a thread writes it, and no run waits."""

    def __init__(self, root: Path, table: "LiveTable", every: float = 2.0) -> None:
        self.root, self.table, self.every = root, table, every
        self.path = root / PATTERN.replace("*", secrets.token_hex(4))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_written, daemon=True)

    def __enter__(self) -> Self:
        for path, progress in _files(self.root):  # of commands that were killed
            if is_running_here(progress.host, progress.pid) is False:
                with suppress(OSError):
                    path.unlink()
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        with suppress(OSError):
            self.path.unlink()

    def _keep_written(self) -> None:
        while not self._over.wait(self.every):
            self._write()

    def _write(self) -> None:
        table = self.table
        waiting, left = table.waiting(), table.seconds_left()
        first = [(table.specs[n - 1], table.labels[n - 1]) for n in waiting[:MOST_WAITING]]
        progress = MatrixProgress(
            host=socket.gethostname(),
            pid=os.getpid(),
            time=utc_now(),
            summary=table.summary(),
            counts=table.counts(),
            seconds=round(time.monotonic() - table.began),
            total=table.total,
            share=round(table.share(), 4),
            seconds_left=None if left is None else round(left),
            waiting=[WaitingRun(f"{s.dataset}/{s.method}/{s.id}", label) for s, label in first],
            waiting_count=len(waiting),
        )
        with suppress(UserError):  # a full disk must not stop the runs for this
            storage.write_json(self.path, progress, durable=False)


def matrices(root: Path) -> list[MatrixProgress]:
    """The matrices that are run in a folder now, in a stable order."""
    return [progress for _, progress in _files(root) if progress.is_alive]


def _files(root: Path) -> list[tuple[Path, MatrixProgress]]:
    files = []
    for path in sorted(root.glob(PATTERN)):
        with suppress(UserError):  # damaged, or deleted meanwhile
            files.append((path, storage.read_struct(path, MatrixProgress)))
    return files
