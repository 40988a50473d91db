"""Runs a matrix on a Slurm cluster: one array job of what is missing and not yet queued."""

import importlib.util
import io
import logging
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from sdgbench import registry
from sdgbench.errors import UserError, unknown
from sdgbench.launch.attempt import Result, RunOptions, result_before
from sdgbench.launch.slurm import queue
from sdgbench.launch.slurm.job import Job
from sdgbench.launch.slurm.resources import Resources
from sdgbench.launch.summary import conclude, exit_code
from sdgbench.records.failure import FAILURE_FILE
from sdgbench.records.store import Store
from sdgbench.spec.run_spec import RunSpec, label_runs
from sdgbench.training.device import KINDS

MAX_ARRAY = 1000  # elements of an array that Slurm accepts by default
FOLDER_POLL_SECONDS = 1.0
SLURM_POLL_SECONDS = 30.0


@dataclass
class Submission:
    """The runs of a matrix after its submission: with a result, queued before, submitted now."""

    results: list[Result] = field(default_factory=list)  # of runs that need no job
    queued: list[RunSpec] = field(default_factory=list)  # by an earlier command
    submitted: list[RunSpec] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    logs: Path | None = None


def run_on_slurm(
    specs: Sequence[RunSpec], options: RunOptions, resources: Resources, wait: bool = False
) -> int:
    """Submit what is missing and return an exit code: at once, or with ``wait`` after all runs."""
    _check(options)
    store = Store(options.runs)
    store.check(writable=True)
    console = Console(highlight=False)
    with queue.exclusive(options.runs):
        submission = _submit(specs, options, resources)
    pending = [*submission.queued, *submission.submitted]
    if not pending:
        return conclude(submission.results, console, options.runs)
    _report(submission, options.runs, console)
    if not wait:
        return exit_code({result.outcome for result in submission.results})
    results = {result.spec.id: result for result in submission.results}
    labels = dict(zip([spec.id for spec in specs], label_runs(specs), strict=True))
    try:
        with console.status(f"waiting for {len(pending)} runs"):
            for result in _wait(pending, store):
                results[result.spec.id] = result
                count = f"[{len(results)}/{len(specs)}]"
                label = labels[result.spec.id]
                console.print(f"{count} {label}: {result.outcome}", markup=False)
    except KeyboardInterrupt:
        console.print("No longer waiting; the jobs go on without this command.", style="bold")
        return 130
    return conclude([results[spec.id] for spec in specs], console, options.runs)


def _check(options: RunOptions) -> None:
    """Refuse early what cannot work; whether a node has the device, only the node knows."""
    if options.device.partition(":")[0] not in KINDS:
        raise unknown("device", options.device, KINDS)
    if importlib.util.find_spec("submitit") is None:
        raise UserError(
            "--launcher slurm needs submitit. Install it: pip install 'sdgbench[slurm]'"
        )
    for command in ("sbatch", "srun"):
        queue.require_command(command)


def _submit(specs: Sequence[RunSpec], options: RunOptions, resources: Resources) -> Submission:
    submission = Submission()
    store = Store(options.runs)
    active = queue.active_jobs()
    missing: list[RunSpec] = []
    for spec in specs:
        folder = store.folder(spec)
        if queue.job_of(folder) in active and not (folder / "record.json").exists():
            submission.queued.append(spec)
            continue
        if result := result_before(spec, options):
            submission.results.append(result)
        elif store.state(spec) == "running":  # without a job: a process outside of Slurm has it
            submission.queued.append(spec)
        else:
            missing.append(spec)
    if missing:
        stamp = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        submission.logs = (queue.slurm_dir(options.runs) / stamp).absolute()
    for start in range(0, len(missing), MAX_ARRAY):
        array = missing[start : start + MAX_ARRAY]
        jobs = _sbatch(array, options, resources, submission.logs)
        for spec, job in zip(array, jobs, strict=True):
            queue.record_job(store.folder(spec), job)
        submission.submitted += array
        submission.jobs.append(jobs[0].partition("_")[0])
    return submission


def _sbatch(
    specs: Iterable[RunSpec], options: RunOptions, resources: Resources, folder: Path | None
) -> list[str]:
    """Submit runs as one array and return the ids of their jobs."""
    from submitit import SlurmExecutor
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    logging.getLogger("submitit").setLevel(logging.ERROR)
    assert folder is not None
    store = Store(options.runs)
    # Existing results were looked up at submission: a job that is queued again must resume.
    job_options = replace(
        options, runs=options.runs.absolute(), data=options.data.absolute(), retry=True, redo=False
    )
    tasks = []
    for spec in specs:
        (store.folder(spec) / FAILURE_FILE).unlink(missing_ok=True)
        tasks.append(Job(asdict(spec), asdict(job_options), registry.plugins()))
    executor = SlurmExecutor(folder, max_num_timeout=resources.timeouts)
    executor.update_parameters(**resources.sbatch())
    try:
        with redirect_stderr(
            io.StringIO()
        ) as warnings:  # collected: submitit repeats them for each job
            jobs = [job.job_id for job in executor.submit_array(tasks)]
        print(warnings.getvalue(), end="", file=sys.stderr)
        return jobs
    except (FailedJobError, FailedSubmissionError) as error:
        raise UserError(f"Slurm's sbatch refused: {queue.last_line(str(error))}") from None


def _report(submission: Submission, runs: Path, console: Console) -> None:
    """Print what was submitted, what was not and why, and the commands to follow it."""
    counts = [f"{len(submission.queued)} already queued or running"] if submission.queued else []
    for outcome, number in Counter(result.outcome for result in submission.results).items():
        counts.append(f"{number} {outcome}")
    number = len(submission.submitted)
    plural, jobs = "s" * (number != 1), ", ".join(submission.jobs)
    head = f"Submitted {number} run{plural} as job {jobs}" if number else "Submitted nothing"
    console.print("; ".join([head, *counts]) + ".", markup=False, soft_wrap=True)
    labels = label_runs([result.spec for result in submission.results])
    for result, label in zip(submission.results, labels, strict=True):
        if result.remark:
            console.print(
                f"{result.outcome} {label}: {result.remark}",
                markup=False,
                soft_wrap=True,
            )
    if submission.logs:
        console.print(f"Logs: {submission.logs}", markup=False, soft_wrap=True)
    option = escape(f" --runs {runs}" if str(runs) != "runs" else "")
    console.print(
        f"Progress: sdgbench status{option}\nTo stop it: sdgbench cancel{option}",
        style="dim",
        soft_wrap=True,
    )


def _wait(specs: Sequence[RunSpec], store: Store) -> Iterator[Result]:
    """Yield each run's result as soon as its folder has it, or its job ended without one."""
    pending = list(specs)
    last_query = time.monotonic()
    while pending:
        active: dict[str, str] | None = None
        if time.monotonic() - last_query > SLURM_POLL_SECONDS:
            # Before the folders are read: they then contain all that an ended job has written.
            active, last_query = queue.active_jobs(), time.monotonic()
        for spec in list(pending):
            if result := _job_result(spec, store, active):
                pending.remove(spec)
                yield result
        if pending:
            time.sleep(FOLDER_POLL_SECONDS)


def _job_result(spec: RunSpec, store: Store, active: dict[str, str] | None) -> Result | None:
    """The result of a submitted run; None while it is pending, or if ``active`` is not known."""
    folder = store.folder(spec)
    if (folder / "record.json").exists():
        try:
            record = store.record(spec)
        except UserError as error:
            return Result(spec, "refused", remark=str(error))
        return Result(spec, "done", record, seconds=record.cost.seconds)
    job = queue.job_of(folder)
    if job is None and (folder / FAILURE_FILE).exists():
        return Result(spec, "failed", remark=store.failure(spec))
    if active is None or job in active or store.state(spec) == "running":
        return None
    return Result(spec, "stopped", remark="its job ended without a result; see its log")
