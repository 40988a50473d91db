"""The status of every run of a folder, from its files alone: neither Slurm nor torch is needed."""

import os
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from sdgbench import storage
from sdgbench.errors import UserError, printable
from sdgbench.launch.progress import PROGRESS_FILE, RunProgress
from sdgbench.launch.slurm.queue import QUEUE_FILE, QueuedJob
from sdgbench.records.failure import FAILURE_FILE, Failure
from sdgbench.records.folders import run_folders
from sdgbench.records.searches import TRIAL
from sdgbench.records.store import RECORD, Store
from sdgbench.spec.run_spec import run_label

State = Literal["running", "failed", "pending", "interrupted", "done"]
STATES: tuple[State, ...] = ("running", "failed", "pending", "interrupted", "done")
FRESH_SECONDS = 120.0  # a live run's progress file is never older, unless its machine is stuck
T = TypeVar("T")


@dataclass(frozen=True)
class RunStatus:
    """The status of one run."""

    dataset: str
    method: str
    id: str
    state: State
    label: str
    detail: str = ""  # in words: its progress, its failure, its job
    progress: RunProgress | None = None  # while it runs, and after an interruption
    queued: QueuedJob | None = None  # while it waits for the scheduler


def run_statuses(root: Path) -> list[RunStatus]:
    """The status of all runs of a folder: running ones first, then by name."""
    Store(root).check()
    here, now = socket.gethostname(), datetime.now(UTC)
    statuses = [_run_status(folder, names, here, now) for folder, names in _files_of_runs(root)]
    labels = Counter(status.label for status in statuses)  # the points of a grid share theirs
    statuses = [
        replace(status, label=f"{status.label} {status.id}") if labels[status.label] > 1 else status
        for status in statuses
    ]
    return sorted(
        statuses,
        key=lambda status: (STATES.index(status.state), status.dataset, status.label, status.id),
    )


def counts(statuses: Iterable[RunStatus]) -> dict[State, int]:
    """The number of runs in each state, zeros included."""
    counted = Counter(status.state for status in statuses)
    return {state: counted[state] for state in STATES}


def _files_of_runs(root: Path) -> Iterator[tuple[Path, set[str]]]:
    """Folders of runs and the names of their files; a folder with a lock alone is no run."""
    run_files = {"spec.json", RECORD, QUEUE_FILE, FAILURE_FILE}
    for folder in map(Path, run_folders(root)):
        with suppress(OSError):  # deleted meanwhile, or no permission to read it
            names = set(os.listdir(folder))  # noqa: PTH208
            if names & run_files:
                yield folder, names


def _run_status(folder: Path, names: set[str], here: str, now: datetime) -> RunStatus:
    progress = _read(folder, PROGRESS_FILE, names, RunProgress)
    queued = None
    state: State
    if names & {RECORD, TRIAL}:
        state, detail = "done", ""
    elif progress and _is_alive(folder, progress, here, now):
        state, detail = "running", _describe_running(progress, here)
    elif progress is None and storage.is_locked(folder):  # such as on a full disk
        state, detail = "running", ""
    elif FAILURE_FILE in names:
        state = "failed"
        detail = str(_read(folder, FAILURE_FILE, names, Failure) or Failure())
    elif QUEUE_FILE in names:
        state = "pending"
        queued = _read(folder, QUEUE_FILE, names, QueuedJob)
        detail = f"{queued.launcher} job {queued.job}" if queued else "job unknown"
    else:
        state, detail = "interrupted", _describe_interrupted(progress, names, here, now)
    dataset, method = folder.parts[-3:-1]
    return RunStatus(
        printable(dataset),
        printable(method),
        printable(folder.name),
        state,
        printable(_label(folder, names)),
        printable(detail),
        progress if state in ("running", "interrupted") else None,
        queued,
    )


def _read(folder: Path, name: str, names: set[str], kind: type[T]) -> T | None:
    """The content of a file; None if it is missing or damaged."""
    if name in names:
        with suppress(UserError):
            return storage.read_struct(folder / name, kind)
    return None


def _label(folder: Path, names: set[str]) -> str:
    spec = _read(folder, "spec.json", names, dict[str, Any]) or {}
    try:
        return run_label(spec, spec.get("param_changes", ()))
    except KeyError:
        dataset, method, run_id = folder.parts[-3:]
        return f"{method} on {dataset} ({run_id})"


def _is_alive(folder: Path, progress: RunProgress, here: str, now: datetime) -> bool:
    if progress.stopped is not msgspec.UNSET:
        return False
    fresh = abs(_age(progress, now)) <= FRESH_SECONDS  # clocks differ, but not by hours
    if progress.host != here:
        return fresh  # locks and processes of another machine cannot be seen from here
    try:
        os.kill(progress.pid, 0)
    except PermissionError:
        pass  # another user's process, and alive
    except (OSError, OverflowError):
        return False
    return fresh or storage.is_locked(folder)  # an old file, and perhaps another process's number


def _age(progress: RunProgress, now: datetime) -> float:
    """Seconds since the file was written; infinite if it does not contain a time."""
    try:
        return (now - datetime.fromisoformat(progress.time)).total_seconds()
    except (TypeError, ValueError):
        return float("inf")


def _describe_running(progress: RunProgress, here: str) -> str:
    parts = [str(progress)]
    left = progress.run_seconds_left
    left = progress.seconds_left if left is None else left
    if left is not None:
        parts.append(f"{timedelta(seconds=left)} left")
    if progress.host != here:
        parts.append(f"on {progress.host}")
    return ", ".join(parts)


def _describe_interrupted(
    progress: RunProgress | None, names: set[str], here: str, now: datetime
) -> str:
    parts = []
    if progress and progress.stopped is not msgspec.UNSET:
        parts.append(progress.stopped)
    elif progress:
        parts.append(f"{progress.phase} {progress.done}/{progress.total}")
        age = _age(progress, now)
        if age < float("inf"):
            host = "" if progress.host == here else f" on {progress.host}"
            parts.append(f"last seen {_ago(age)} ago{host}")
    if "checkpoint.pt" not in names:
        parts.append("no checkpoint yet")
    return ", ".join(parts)


def _ago(seconds: float) -> str:
    if seconds < 60:
        return f"{max(0, seconds):.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"
