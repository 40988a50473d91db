"""The status of every run of a folder, from its files alone: neither Slurm nor torch is needed."""

import os
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from sdgbench import storage
from sdgbench.errors import UserError, printable
from sdgbench.launch.liveness import age_of, is_fresh, is_running_here
from sdgbench.launch.progress import PROGRESS_FILE, RunProgress
from sdgbench.launch.slurm.queue import QUEUE_FILE, QueuedJob
from sdgbench.records.failure import FAILURE_FILE, Failure
from sdgbench.records.folders import run_folders
from sdgbench.records.searches import TRIAL
from sdgbench.records.store import RECORD, Store
from sdgbench.spec.labels import run_labels
from sdgbench.spec.precision import DEFAULT_PRECISION

State = Literal["running", "failed", "pending", "interrupted", "done"]
STATES: tuple[State, ...] = ("running", "failed", "pending", "interrupted", "done")
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

    @property
    def key(self) -> str:
        """The folder of the run below the runs folder."""
        return f"{self.dataset}/{self.method}/{self.id}"


class SpecFile(msgspec.Struct, frozen=True):
    """What a label needs of ``spec.json``."""

    method: str
    dataset: str
    preset: str
    seed: int
    params: dict[str, Any] = {}
    options: dict[str, Any] = {}
    recipe: dict[str, Any] = {}
    param_changes: list[str] = []
    option_changes: list[str] = []
    recipe_changes: list[str] = []
    precision: str = DEFAULT_PRECISION
    targets: list[str] = []
    tuned: str = ""


def run_statuses(
    root: Path,
    specs: "dict[str, SpecFile] | None" = None,
    problems: list[UserError] | None = None,
) -> list[RunStatus]:
    """The status of all runs of a folder: running ones first, then by name.

    ``specs`` keeps what never changes, by folder, for a caller that looks again and again.
    ``problems`` gets an error for each file that is damaged; its run is shown without it.
    """
    Store(root).check()
    known = {} if specs is None else specs
    damaged: list[UserError] = [] if problems is None else problems
    statuses = []
    for folder, names in _files_of_runs(root, damaged):
        files = RunFiles(folder, names, damaged)
        statuses.append(_run_status(files))
        if str(folder) not in known and (spec := files.read("spec.json", SpecFile)):
            known[str(folder)] = spec
    statuses = _with_labels(statuses, [known.get(str(root / status.key)) for status in statuses])
    return sorted(
        statuses,
        key=lambda status: (STATES.index(status.state), status.dataset, status.label, status.id),
    )


def counts(statuses: Iterable[RunStatus]) -> dict[State, int]:
    """The number of runs in each state, zeros included."""
    counted = Counter(status.state for status in statuses)
    return {state: counted[state] for state in STATES}


@dataclass(frozen=True)
class RunFiles:
    """The small files of a run's folder."""

    folder: Path
    names: set[str]
    problems: list[UserError]  # gets an error for each file that is damaged

    def read(self, name: str, kind: type[T]) -> T | None:
        """The content of a file; None if it is missing or damaged."""
        if name not in self.names:
            return None
        try:
            return storage.read_struct(self.folder / name, kind)
        except UserError as error:
            if os.path.lexists(self.folder / name):  # else it was deleted: a run has ended
                self.problems.append(error)
            return None


def _files_of_runs(root: Path, problems: list[UserError]) -> Iterator[tuple[Path, set[str]]]:
    """Folders of runs and the names of their files; a folder with a lock alone is no run."""
    run_files = {"spec.json", RECORD, QUEUE_FILE, FAILURE_FILE}
    for folder in map(Path, run_folders(root, problems=problems)):
        with suppress(OSError):  # deleted meanwhile, or no permission to read it
            names = set(os.listdir(folder))  # noqa: PTH208
            if names & run_files:
                yield folder, names


def _run_status(files: RunFiles) -> RunStatus:
    """The status of a run, still without its label."""
    folder, names = files.folder, files.names
    progress = files.read(PROGRESS_FILE, RunProgress)
    queued = None
    state: State
    if names & {RECORD, TRIAL}:
        state, detail = "done", ""
    elif progress and _is_alive(folder, progress):
        state, detail = "running", _describe_running(progress)
    elif progress is None and storage.is_locked(folder):  # such as on a full disk
        state, detail = "running", ""
    elif FAILURE_FILE in names:
        state = "failed"
        detail = str(files.read(FAILURE_FILE, Failure) or Failure())
    elif QUEUE_FILE in names:
        state = "pending"
        queued = files.read(QUEUE_FILE, QueuedJob)
        detail = f"{queued.launcher} job {queued.job}" if queued else "job unknown"
    else:
        state, detail = "interrupted", _describe_interrupted(progress, names)
    dataset, method = folder.parts[-3:-1]
    return RunStatus(
        dataset,
        method,
        folder.name,
        state,
        "",
        printable(detail),
        progress if state in ("running", "interrupted") else None,
        queued,
    )


def _with_labels(
    statuses: Sequence[RunStatus], specs: Sequence[SpecFile | None]
) -> list[RunStatus]:
    """Name the runs; those that still share a name, or have no specification, by their id."""
    known = [spec for spec in specs if spec]
    plain = [msgspec.structs.asdict(spec) for spec in known]
    names = iter(run_labels(plain, [spec.param_changes for spec in known]))
    labels = [
        next(names) if spec else f"{status.method} on {status.dataset} ({status.id})"
        for status, spec in zip(statuses, specs, strict=True)
    ]
    shared = Counter(labels)
    return [
        replace(
            status,
            dataset=printable(status.dataset),
            method=printable(status.method),
            id=printable(status.id),
            label=printable(f"{label} {status.id}" if shared[label] > 1 else label),
        )
        for status, label in zip(statuses, labels, strict=True)
    ]


def _is_alive(folder: Path, progress: RunProgress) -> bool:
    if progress.stopped is not msgspec.UNSET:
        return False
    running = is_running_here(progress.host, progress.pid)
    if running is None:  # locks of another machine cannot be seen from here, either
        return is_fresh(progress.time)
    # The file may be old, and its number another process's by now.
    return running and (is_fresh(progress.time) or storage.is_locked(folder))


def _describe_running(progress: RunProgress) -> str:
    parts = [str(progress)]
    left = progress.run_seconds_left
    left = progress.seconds_left if left is None else left
    if left is not None:
        parts.append(f"{timedelta(seconds=left)} left")
    if progress.host != socket.gethostname():
        parts.append(f"on {progress.host}")
    return ", ".join(parts)


def _describe_interrupted(progress: RunProgress | None, names: set[str]) -> str:
    parts = []
    if progress and progress.stopped is not msgspec.UNSET:
        parts.append(progress.stopped)
    elif progress:
        parts.append(f"{progress.phase} {progress.done}/{progress.total}")
        age = age_of(progress.time)
        if age < float("inf"):
            host = "" if progress.host == socket.gethostname() else f" on {progress.host}"
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
