"""Which runs are Slurm's: a mark in each run's folder, and what Slurm itself still knows.

The folder is the truth about results; Slurm is asked only whether a marked job is alive.
"""

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from sdgbench import storage
from sdgbench.errors import UserError
from sdgbench.record import now

MARK = "queued.json"
PATIENCE = 120.0  # seconds; whoever submits is done by then


def workshop(runs: Path) -> Path:
    """Where the jobs of a runs folder keep their files and logs."""
    return runs / ".slurm"


def exclusive(runs: Path) -> AbstractContextManager[None]:
    """Let only one process at a time change what is queued of a runs folder."""
    return storage.owned(workshop(runs), PATIENCE)


def mark(folder: Path, job: str) -> None:
    """Note which job has a run."""
    storage.write_json(folder / MARK, {"job": job, "launcher": "slurm", "time": now()})


def job_of(folder: Path) -> str | None:
    """The job that has a run, or had it when it died."""
    with suppress(UserError, TypeError, KeyError):
        return str(storage.read_json(folder / MARK)["job"])
    return None


def unmark(folder: Path, job: str) -> None:
    """Remove a job's mark, and no other's."""
    if job_of(folder) == job:
        (folder / MARK).unlink(missing_ok=True)


def marked(runs: Path) -> Iterator[tuple[Path, str]]:
    """All runs of a folder that have a mark, with their jobs."""
    for path in sorted(runs.glob(f"*/*/*/{MARK}")):
        if job := job_of(path.parent):
            yield path.parent, job


def living() -> dict[str, str]:
    """All jobs that Slurm has not ended yet, each element of an array by itself, with state."""
    printed = ask("squeue", "--noheader", "--array", "--format=%i %T")
    return dict(line.split(maxsplit=1) for line in printed.splitlines() if line.strip())


def cancel(jobs: Iterable[str]) -> None:
    """End jobs; a running one gets SIGTERM and Slurm's KillWait to save."""
    ask("scancel", *jobs)


def need(command: str) -> None:
    """Refuse a machine without a command of Slurm."""
    if shutil.which(command) is None:
        raise UserError(f"There is no {command} here. Run this where Slurm's commands are, such as "
                        "a cluster's login node.")  # fmt: skip


def ask(command: str, *arguments: str) -> str:
    """Run a command of Slurm and return what it prints."""
    need(command)
    done = subprocess.run([command, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"Slurm's {command} failed: {last_line(done.stderr)}")
    return done.stdout


def last_line(text: str) -> str:
    """The end of what a command complained, which says most."""
    return ([line for line in text.splitlines() if line.strip()] or ["it gave no reason"])[-1]
