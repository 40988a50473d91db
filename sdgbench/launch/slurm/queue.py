"""Which Slurm job has a run: ``queued.json`` in the run's folder, and Slurm's own queue.

Results are read from the folder alone; Slurm is asked only whether a recorded job still exists.
"""

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import msgspec

from sdgbench import storage
from sdgbench.errors import UserError
from sdgbench.records.folders import run_folders
from sdgbench.records.schema import utc_now

QUEUE_FILE = "queued.json"
LOCK_SECONDS = 120.0  # to wait for another command that submits or cancels


class QueuedJob(msgspec.Struct, frozen=True):
    """The content of ``queued.json``."""

    job: str
    launcher: str = "slurm"
    time: str = ""  # when it was recorded


def slurm_dir(runs: Path) -> Path:
    """Where the jobs of a runs folder keep their files and logs."""
    return runs / ".slurm"


def exclusive(runs: Path) -> AbstractContextManager[None]:
    """Let only one process at a time submit or cancel jobs of a runs folder."""
    return storage.locked(slurm_dir(runs), LOCK_SECONDS)


def record_job(folder: Path, job: str) -> None:
    """Record in a run's folder which job has the run."""
    storage.write_json(folder / QUEUE_FILE, QueuedJob(job, time=utc_now()))


def job_of(folder: Path) -> str | None:
    """The job that is recorded in a run's folder, which Slurm may have ended since."""
    with suppress(UserError):
        return storage.read_struct(folder / QUEUE_FILE, QueuedJob).job
    return None


def forget_job(folder: Path, job: str) -> None:
    """Delete the record of a job, but not that of another job."""
    if job_of(folder) == job:
        (folder / QUEUE_FILE).unlink(missing_ok=True)


def recorded_jobs(runs: Path) -> Iterator[tuple[Path, str]]:
    """All run folders with a recorded job, and the job."""
    for folder in map(Path, run_folders(runs, containing=QUEUE_FILE)):
        if job := job_of(folder):
            yield folder, job


def active_jobs() -> dict[str, str]:
    """All jobs that Slurm has not ended, each element of an array by itself, with their states."""
    printed = run_command("squeue", "--noheader", "--array", "--format=%i %T")
    return dict(line.split(maxsplit=1) for line in printed.splitlines() if line.strip())


def cancel(jobs: Iterable[str]) -> None:
    """End jobs; a running one gets SIGTERM and has Slurm's KillWait to save its state."""
    run_command("scancel", *jobs)


def require_command(command: str) -> None:
    """Raise a UserError on a machine without this command of Slurm."""
    if shutil.which(command) is None:
        raise UserError(
            f"There is no {command} here. Run this on a machine with Slurm's commands, such as "
            "a cluster's login node."
        )


def run_command(command: str, *arguments: str) -> str:
    """Run a command of Slurm and return what it prints."""
    require_command(command)
    done = subprocess.run([command, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"Slurm's {command} failed: {last_line(done.stderr)}")
    return done.stdout


def last_line(text: str) -> str:
    """The last line of an error output, which states the reason."""
    return ([line for line in text.splitlines() if line.strip()] or ["it gave no reason"])[-1]
