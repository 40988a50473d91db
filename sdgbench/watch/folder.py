"""What the page shows of a runs folder, as plain values."""

import hashlib
import math
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sdgbench.errors import UserError
from sdgbench.launch.matrix_file import MatrixProgress, matrices
from sdgbench.launch.progress import clock
from sdgbench.launch.status import RunStatus, SpecFile, counts, run_statuses
from sdgbench.leaderboard import VIEWS, Leaderboard, leaderboards, load
from sdgbench.leaderboard.selection import skipped
from sdgbench.leaderboard.views import Views
from sdgbench.records.curve import CURVE_FILE, read_new_points
from sdgbench.records.searches import TRIAL
from sdgbench.records.store import RECORD
from sdgbench.report import page
from sdgbench.report.content import rounded
from sdgbench.report.main_table import main_table

FRESH_SECONDS = 1.0  # several open pages share one look at the folder
MOST_RUNS = 200  # that are listed, those that are not finished first
MOST_FINISHED = 30
NO_SAMPLES = {"missing": "This page was made without sample images. With them: sdgbench report"}


@dataclass
class _Boards:
    version: str  # of the records
    boards: list[Leaderboard]
    problems: list[UserError]
    tables: dict[str, Any]
    report: str | None = None  # made when somebody asks for it


@dataclass
class RunsFolder:
    """A runs folder that is looked at again and again; what did not change is read once."""

    root: Path
    views: Views = field(default_factory=lambda: VIEWS)
    usual: Sequence[str] = ()  # methods that have their colours first
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _specs: dict[str, SpecFile] = field(default_factory=dict)
    _state: dict[str, Any] = field(default_factory=dict)
    _keys: set[str] = field(default_factory=set)
    _looked: float = -math.inf
    _boards: _Boards | None = None

    def state(self) -> dict[str, Any]:
        """The runs and matrices with their progress, and the version of the finished tables."""
        with self._lock:
            if time.monotonic() - self._looked > FRESH_SECONDS:
                self._state = self._look()
                self._looked = time.monotonic()
            return self._state

    def curve(self, key: str, offset: int, check: str) -> dict[str, Any]:
        """What the curve of a run has got since a position, by the names of its phases."""
        self.state()
        if key not in self._keys:  # only folders of runs are opened, whatever was asked for
            raise UserError(f'There is no run "{key}" in {self.root}.')
        new = read_new_points(self.root / key, offset, check)
        series: dict[str, list[list[float]]] = {}
        for point in new.points:
            with suppress(KeyError, TypeError, ValueError, OverflowError):
                name, values = _values(point)
                series.setdefault(name, []).append(values)
        return {
            "series": series,
            "offset": new.offset,
            "check": new.check,
            "from_start": new.from_start,
            "is_more": new.is_more,
        }

    def tables(self) -> dict[str, Any]:
        """The main table of each leaderboard of the finished runs."""
        return self._read_boards().tables

    def report(self) -> str:
        """The page of ``sdgbench report``, without sample images."""
        known = self._read_boards()
        if known.report is None:
            known.report = page.render(
                known.boards,
                lambda board: NO_SAMPLES,
                len(known.problems),
                views=self.views,
                usual=self.usual,
            )
        return known.report

    def _look(self) -> dict[str, Any]:
        statuses, under_way = run_statuses(self.root, self._specs), matrices(self.root)
        self._keys = {status.key for status in statuses}
        times = {s.key: _time_of(self.root / s.key / RECORD) for s in statuses}
        trials = {key: _time_of(self.root / key / TRIAL) for key, when in times.items() if not when}
        ended = times | trials
        finished = [status for status in statuses if status.state == "done"]
        finished.sort(key=lambda status: ended[status.key], reverse=True)
        open_runs = [status for status in statuses if status.state != "done"]
        waiting = [run for matrix in under_way for run in matrix.waiting]
        rows = [
            *(_row(status, self.root) for status in open_runs if status.state == "running"),
            *(
                {"key": run.key, "label": run.label, "state": "waiting", "bytes": 0}
                for run in waiting
                if run.key not in self._keys
            ),
            *(_row(status, self.root) for status in open_runs if status.state != "running"),
        ][:MOST_RUNS]
        rows += [
            {**_row(status, self.root), "finished": ended[status.key] / 1e9}
            for status in finished[:MOST_FINISHED]
        ]
        return {
            "folder": str(self.root),
            "exists": self.root.exists(),
            "counts": {**counts(statuses), "waiting": sum(m.waiting_count for m in under_way)},
            "matrices": [_matrix(matrix) for matrix in under_way],
            "runs": rows,
            "tables": _version(times),
        }

    def _read_boards(self) -> _Boards:
        version = self.state()["tables"]
        with self._lock:
            if self._boards is None or self._boards.version != version:
                loaded = load([self.root])
                boards = leaderboards(loaded.runs)
                shown = {
                    "version": version,
                    "boards": [main_table(board, self.views) for board in boards],
                    "problems": skipped(loaded.problems),
                }
                self._boards = _Boards(version, boards, list(loaded.problems), shown)
            return self._boards


def _row(status: RunStatus, root: Path) -> dict[str, Any]:
    row: dict[str, Any] = {
        "key": status.key,
        "label": status.label,
        "state": status.state,
        "detail": status.detail,
        "bytes": _size_of(root / status.key / CURVE_FILE),
    }
    if progress := status.progress:
        row |= {
            "phase": progress.phase,
            "done": progress.done,
            "total": progress.total,
            "share": rounded(progress.share),
            "left": progress.run_seconds_left,
            "loss": rounded(progress.loss),
            "rate": rounded(progress.rate),
        }
    return row


def _matrix(matrix: MatrixProgress) -> dict[str, Any]:
    return {
        "pid": matrix.pid,
        "host": matrix.host,
        "text": f"{matrix.counts}; {clock(matrix.seconds)} so far",
        "share": matrix.share,
        "left": matrix.seconds_left,
    }


def _values(point: dict[str, Any]) -> tuple[str, list[float]]:
    """The name of a point's series, and its phase, step and value; a score is in per cent."""
    name = str(point["name"])[:60]
    is_score = name == "validation"
    step = int(point["train_step" if is_score else "step"])
    value = 100 * float(point["score"]) if is_score else float(point["loss"])
    if not math.isfinite(value):
        raise ValueError("not a number")
    return name, [int(point["phase"]), step, float(f"{value:.6g}")]


def _time_of(path: Path) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _version(times: dict[str, int]) -> str:
    """Changes when a record is written or deleted."""
    written = sorted(item for item in times.items() if item[1])
    return hashlib.sha256(repr(written).encode()).hexdigest()[:12]
