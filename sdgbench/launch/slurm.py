"""Runs a matrix on a Slurm cluster: one array job of what is missing and not yet queued."""

import importlib.util
import io
import logging
import secrets
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from sdgbench import registry
from sdgbench.device import KINDS
from sdgbench.errors import UserError, unknown
from sdgbench.launch import queue
from sdgbench.launch.job import Job
from sdgbench.launch.one import Order, Result, without_running
from sdgbench.launch.resources import Resources
from sdgbench.launch.summary import conclude
from sdgbench.record import Store
from sdgbench.spec import RunSpec

ARRAY = 1000  # elements; by default Slurm takes an array of no more
LOOK = 1.0  # seconds between looks at the runs folder
ASK = 30.0  # seconds between questions to Slurm


@dataclass
class Submission:
    """What became of a matrix when it was submitted."""

    settled: list[Result] = field(default_factory=list)
    queued: list[RunSpec] = field(default_factory=list)  # by an earlier command
    submitted: list[RunSpec] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    logs: Path | None = None


def run_on_slurm(
    specs: Sequence[RunSpec], order: Order, resources: Resources, wait: bool = False
) -> int:
    """Submit what is missing; return an exit code at once, or the matrix's own after a wait."""
    _check(order)
    store = Store(order.runs)
    store.check(writable=True)
    console = Console(highlight=False)
    with queue.exclusive(order.runs):
        submission = _submit(specs, order, resources)
    pending = [*submission.queued, *submission.submitted]
    if not pending:
        return conclude(submission.settled, console, order.runs)
    _tell(submission, order.runs, console)
    if not wait:
        return 1 if any(one.outcome == "failed before" for one in submission.settled) else 0
    results = {result.spec.id: result for result in submission.settled}
    try:
        with console.status(f"waiting for {len(pending)} runs"):
            for result in _wait(pending, store):
                results[result.spec.id] = result
                count = f"[{len(results)}/{len(specs)}]"
                console.print(f"{count} {result.spec.label}: {result.outcome}", markup=False)
    except KeyboardInterrupt:
        console.print("No longer waiting; the jobs go on without this command.", style="bold")
        return 130
    return conclude([results[spec.id] for spec in specs], console, order.runs)


def _check(order: Order) -> None:
    if order.device.partition(":")[0] not in KINDS:  # whether a node has it, only the node knows
        raise unknown("device", order.device, KINDS)
    if importlib.util.find_spec("submitit") is None:
        raise UserError(
            "--launcher slurm needs submitit. Install it: pip install 'sdgbench[slurm]'"
        )
    for command in ("sbatch", "srun"):
        queue.need(command)


def _submit(specs: Sequence[RunSpec], order: Order, resources: Resources) -> Submission:
    found = Submission()
    store = Store(order.runs)
    alive = queue.living()
    missing: list[RunSpec] = []
    for spec in specs:
        folder = store.folder(spec)
        if queue.job_of(folder) in alive and not (folder / "record.json").exists():
            found.queued.append(spec)
        elif result := without_running(spec, order):
            found.settled.append(result)
        elif store.state(spec) == "running":  # without a job: somebody runs it by hand
            found.queued.append(spec)
        else:
            missing.append(spec)
    if missing:
        stamp = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        found.logs = (queue.workshop(order.runs) / stamp).absolute()
    for start in range(0, len(missing), ARRAY):
        part = missing[start : start + ARRAY]
        jobs = _sbatch(part, order, resources, found.logs)
        for spec, job in zip(part, jobs, strict=True):
            queue.mark(store.folder(spec), job)
        found.submitted += part
        found.jobs.append(jobs[0].partition("_")[0])
    return found


def _sbatch(
    specs: Iterable[RunSpec], order: Order, resources: Resources, folder: Path | None
) -> list[str]:
    """Submit runs as one array and return the jobs' names."""
    from submitit import SlurmExecutor
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    logging.getLogger("submitit").setLevel(logging.ERROR)
    assert folder is not None
    store = Store(order.runs)
    # What was asked to be done again is settled here: queued again, a job must not redo it.
    there = replace(order, runs=order.runs.absolute(), data=order.data.absolute(), retry=True,
                    redo=False)  # fmt: skip
    tasks = []
    for spec in specs:
        (store.folder(spec) / "failed.json").unlink(missing_ok=True)
        tasks.append(Job(asdict(spec), asdict(there), registry.plugins()))
    executor = SlurmExecutor(folder, max_num_timeout=resources.timeouts)
    executor.update_parameters(**resources.sbatch())
    try:
        with redirect_stderr(io.StringIO()) as warnings:  # which submitit repeats as they come
            jobs = [job.job_id for job in executor.submit_array(tasks)]
        print(warnings.getvalue(), end="", file=sys.stderr)
        return jobs
    except (FailedJobError, FailedSubmissionError) as error:
        raise UserError(f"Slurm's sbatch refused: {queue.last_line(str(error))}") from None


def _tell(submission: Submission, runs: Path, console: Console) -> None:
    jobs = ", ".join(submission.jobs)
    counts = [f"{len(submission.queued)} already queued or running"] if submission.queued else []
    for outcome in dict.fromkeys(result.outcome for result in submission.settled):
        number = sum(result.outcome == outcome for result in submission.settled)
        counts.append(f"{number} {outcome}")
    number = len(submission.submitted)
    head = f"Submitted {number} run{'s' * (number != 1)} as job {jobs}" if number else (
        "Submitted nothing")  # fmt: skip
    console.print("; ".join([head, *counts]) + ".", markup=False, soft_wrap=True)
    for result in submission.settled:
        if result.remark:
            console.print(f"{result.outcome} {result.spec.label}: {result.remark}", markup=False,
                          soft_wrap=True)  # fmt: skip
    if submission.logs:
        console.print(f"Logs: {submission.logs}", markup=False, soft_wrap=True)
    place = escape(f" --runs {runs}" if str(runs) != "runs" else "")
    console.print(f"How far it is: sdgbench status{place}\nTo stop it: sdgbench cancel{place}",
                  style="dim", soft_wrap=True)  # fmt: skip


def _wait(specs: Sequence[RunSpec], store: Store) -> Iterator[Result]:
    """Give each run's result as soon as its folder shows it, or its job is gone without one."""
    pending = list(specs)
    asked = time.monotonic()
    while pending:
        alive: dict[str, str] | None = None
        if time.monotonic() - asked > ASK:
            # Before the look at the folders: what a job that is gone has written, they show.
            alive, asked = queue.living(), time.monotonic()
        for spec in list(pending):
            if result := _ended(spec, store, alive):
                pending.remove(spec)
                yield result
        if pending:
            time.sleep(LOOK)


def _ended(spec: RunSpec, store: Store, alive: dict[str, str] | None) -> Result | None:
    folder = store.folder(spec)
    if (folder / "record.json").exists():
        record = store.record(spec)
        cost = record["cost"]
        seconds = cost["train_seconds"] + sum(cost["other_seconds"].values())
        return Result(spec, "done", record, seconds=seconds)
    job = queue.job_of(folder)
    if job is None and (folder / "failed.json").exists():
        return Result(spec, "failed", remark=store.failure(spec))
    if alive is None or job in alive or store.state(spec) == "running":
        return None
    return Result(spec, "stopped", remark="its job is gone and left no result; see its log")
