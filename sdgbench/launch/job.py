"""One run as a job of Slurm: what submitit unpickles and calls on the node.

Nothing here imports torch before the call: until then submitit's own handlers answer signals, and
nothing is lost.
"""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdgbench import registry, storage
from sdgbench.errors import UserError
from sdgbench.launch import queue

LEAVING = 60.0  # seconds; Slurm's KillWait is 30 unless configured


class Unfinished(RuntimeError):
    """The run has no record; Slurm shall see its job as failed."""


@dataclass
class Job:
    """A run and its order, as plain values."""

    spec: dict[str, Any]
    order: dict[str, Any]
    plugins: list[Path]

    def __call__(self) -> str:
        """Run what is missing of the run. Stopped by the scheduler, save and be queued again."""
        from submitit import JobEnvironment

        name = JobEnvironment().job_id
        for file in self.plugins:
            registry.add_plugin(file)

        from sdgbench.device import Execution
        from sdgbench.launch.one import Order
        from sdgbench.record import Store
        from sdgbench.spec import RunSpec

        execution = Execution(**self.order["execution"])
        spec, order = RunSpec(**self.spec), Order(**{**self.order, "execution": execution})
        store = Store(order.runs)
        folder = store.folder(spec)
        if queue.job_of(folder) is None:  # whoever submitted died before it could
            queue.mark(folder, name)
        with suppress(UserError), storage.owned(folder, LEAVING):
            pass  # a job of this run that was cancelled may still be saving
        outcome, remark, number = _run(spec, order)
        if outcome == "stopped" and (number == signal.SIGUSR2 or _only_asked(name)):
            try:
                signal.raise_signal(signal.SIGUSR2)  # submitit's turn: queue again and exit
            except Exception:  # too many time-outs
                queue.unmark(folder, name)
                raise
        if outcome == "stopped":  # cancelled, or Slurm queues it again by itself
            return outcome
        if outcome == "refused" and not storage.is_owned(folder):
            store.fail(spec, UserError(remark))  # nobody is there to read it now
        queue.unmark(folder, name)
        if outcome in ("failed", "refused"):
            raise Unfinished(remark)
        return outcome

    def checkpoint(self) -> Any:
        """What submitit queues again: the same, for the state is in the run's folder."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _run(spec: Any, order: Any) -> tuple[str, str, int | None]:
    """How the run ended, a remark, and the signal that stopped it."""
    import torch
    from rich.console import Console

    from sdgbench import progress
    from sdgbench.device import Device
    from sdgbench.launch.one import run_one
    from sdgbench.runner import StopSignal

    if "SLURM_CPUS_PER_TASK" in os.environ:  # not all clusters bind a job to its cores
        torch.set_num_threads(int(os.environ["SLURM_CPUS_PER_TASK"]))
    console = Console(highlight=False)
    with StopSignal(signal.SIGUSR2) as stop:
        try:
            device = Device(order.device, order.execution)
        except UserError as error:
            return "refused", str(error), None
        result = run_one(
            spec, order, device, progress.reporter(console, spec.label), stop,
            lambda error: console.print_exception(max_frames=8),
        )  # fmt: skip
    return result.outcome, result.remark, stop.number


def _only_asked(name: str) -> bool:
    """After SIGTERM: was it a preemption's warning? A job that Slurm ends no longer runs."""
    try:
        return queue.living().get(name) == "RUNNING"
    except UserError:
        return False
