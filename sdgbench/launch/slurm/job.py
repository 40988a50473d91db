"""One run as a Slurm job: what submitit unpickles and calls on the node.

Nothing here imports torch before the call: until then submitit's own handlers answer signals, and
nothing is lost.
"""

import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sdgbench import registry, storage
from sdgbench.errors import UserError
from sdgbench.launch.slurm import queue

EXIT_SECONDS = 60.0  # for an earlier job of the run; Slurm's KillWait is 30 unless configured


class Unfinished(RuntimeError):
    """The run failed; raised so that Slurm shows its job as failed, too."""


@dataclass
class Job:
    """A run and its options, as plain values."""

    spec: dict[str, Any]
    options: dict[str, Any]
    plugins: list[Path]

    def __call__(self) -> str:
        """Execute the run; if the scheduler stops it, save its state and queue it again."""
        from submitit import JobEnvironment

        job_id = JobEnvironment().job_id
        for file in self.plugins:
            registry.add_plugin(file)

        from sdgbench.launch.attempt import RunOptions
        from sdgbench.records.store import Store
        from sdgbench.spec.run_spec import RunSpec
        from sdgbench.training.device import Execution

        execution = Execution(**self.options["execution"])
        options = RunOptions(**{**self.options, "execution": execution})
        spec, store = RunSpec(**self.spec), Store(options.runs)
        folder = store.folder(spec)
        if queue.job_of(folder) is None:  # the submitting process died before it could record it
            queue.record_job(folder, job_id)
        with suppress(UserError), storage.locked(folder, EXIT_SECONDS):
            pass  # a job of this run that was cancelled may still be saving
        outcome, remark, number = _run(spec, options)
        if outcome == "stopped" and (number == signal.SIGUSR2 or _is_preempted(job_id)):
            try:
                signal.raise_signal(signal.SIGUSR2)  # submitit's handler queues it again and exits
            except Exception:  # too many time-outs
                queue.forget_job(folder, job_id)
                raise
        if outcome == "stopped":  # cancelled, or Slurm queues it again by itself
            return outcome
        if outcome == "refused" and not storage.is_locked(folder):
            store.fail(spec, UserError(remark))  # nobody sees what a job prints
        queue.forget_job(folder, job_id)
        if outcome in ("failed", "refused"):
            raise Unfinished(remark)
        return outcome

    def checkpoint(self) -> Any:
        """What submitit queues again: this job, because the run's state is in its folder."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _run(spec: Any, options: Any) -> tuple[str, str, int | None]:
    """Execute the run; return its outcome, a remark, and the signal that stopped it."""
    from rich.console import Console

    from sdgbench.launch import progress
    from sdgbench.launch.attempt import run_one
    from sdgbench.launch.crash import print_crash
    from sdgbench.launch.stop_signal import StopSignal
    from sdgbench.training.device import Device

    console = Console(highlight=False)
    with StopSignal(signal.SIGUSR2) as stop:
        try:
            device = Device(options.device, options.execution)
        except UserError as error:
            return "refused", str(error), None
        result = run_one(
            spec,
            options,
            device,
            progress.reporter(console, spec.label),
            stop,
            partial(print_crash, console, spec),
        )
    return result.outcome, result.remark, stop.number


def _is_preempted(job_id: str) -> bool:
    """Whether a SIGTERM was a preemption's warning: Slurm calls a cancelled job not RUNNING."""
    try:
        return queue.active_jobs().get(job_id) == "RUNNING"
    except UserError:
        return False
