"""The curve of a run, ``train.jsonl``: losses of each phase and scores of source validation."""

import hashlib
import json
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sdgbench import storage
from sdgbench.errors import Damaged, explain_os_errors
from sdgbench.records.curve import read_points
from sdgbench.training import distributed
from sdgbench.training.event_log import EventLog

POINTS_PER_PHASE = 200
READ_POINTS, READ_SECONDS = 16, 1.0  # how many losses, and how long, wait on a GPU to be read


class Diverged(RuntimeError):
    """The loss is no longer a number; going on would waste the user's time."""


@dataclass
class LossMean:
    """The mean loss since the last point. It stays on the device until it is read."""

    total: Tensor | float = 0.0
    count: Tensor | float = 0

    def add(self, loss: Tensor, skipped: Tensor | None) -> None:
        """Add a step's loss, unless the step was skipped (a number on the device, 0 or 1)."""
        if skipped is None:
            self.total += loss  # in place, once it is a tensor
            self.count += 1
        else:
            self.total = self.total + torch.where(skipped > 0, torch.zeros_like(loss), loss)
            self.count = self.count + (1 - skipped)


@dataclass
class Curve:
    """Appends points to the file. On a GPU several are read at once: each read waits for it."""

    path: Path
    lazy: bool = False
    log: EventLog | None = None  # gets the same points
    recent: float | None = None  # the loss of the last point that was read
    _points: list[tuple[dict[str, Any], LossMean]] = field(default_factory=list)
    _read_at: float = field(default_factory=time.monotonic)
    _length: int = 0  # bytes of the file
    _hash: "hashlib._Hash" = field(default_factory=hashlib.sha256)  # of the file, as it grows

    @property
    def sha256(self) -> str:
        """The hash of what was written."""
        return self._hash.hexdigest()

    def add(self, point: dict[str, Any], mean: LossMean) -> int:
        """Add a point whose loss may still be computed; returns the bytes that were written."""
        self._points.append((point, mean))
        waiting = len(self._points) < READ_POINTS
        if self.lazy and waiting and time.monotonic() - self._read_at < READ_SECONDS:
            return 0
        return self.flush()

    def flush(self) -> int:
        """Read and write all points so far; returns the number of bytes."""
        points, self._points, self._read_at = self._points, [], time.monotonic()
        written = 0
        values = _read([value for _, mean in points for value in (mean.total, mean.count)])
        for (point, _), total, count in zip(points, values[::2], values[1::2], strict=True):
            loss = total / count if count else None
            if loss is not None and not math.isfinite(loss):
                raise Diverged(f"the loss became {loss} at {point['name']} step {point['step']}")
            self.recent = loss
            written += self.append({**point, "loss": loss})
        return written

    def append(self, point: dict[str, Any]) -> int:
        """Write a point; returns the number of bytes. Only the first process writes."""
        if not distributed.is_rank_zero():
            return 0
        line = json.dumps(point).encode() + b"\n"
        with explain_os_errors("write", self.path):
            storage.append(self.path, line, self._length)
        self._hash.update(line)
        self._length += len(line)
        if self.log:
            self.log.add(point)
        return len(line)

    def sync(self) -> None:
        """Make sure that the points are on disk, before a checkpoint states their length."""
        if self.path.exists():
            with explain_os_errors("write", self.path):
                storage.sync(self.path)

    def check(self, length: int, sha256: str | None) -> None:
        """Take over what a checkpoint states of the file; Damaged where that is not so."""
        self._hash, self._length = hashlib.sha256(), length
        if not length:
            return
        if not self.path.is_file():
            raise Damaged(f"{self.path} is missing")
        self._hash = storage.hash_start(self.path, length)
        if sha256 and self.sha256 != sha256:
            raise Damaged(f"{self.path} is damaged: its sha256 differs")

    def cut(self, length: int) -> None:
        """Cut the file back to the length that a checkpoint states; the log starts from there."""
        if distributed.is_rank_zero() and (self.path.is_symlink() or self.path.exists()):
            with explain_os_errors("write", self.path):
                storage.cut(self.path, length)
        if self.log:
            self.log.restart(read_points(self.path.parent))


def _read(values: list[Tensor | float]) -> list[float]:
    """Numbers of the device, all in one copy."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    if not tensors:
        return [float(value) for value in values]
    numbers = iter(torch.stack([tensor.float() for tensor in tensors]).cpu().tolist())
    return [next(numbers) if isinstance(value, Tensor) else float(value) for value in values]
