"""Checks on several datasets in parallel, one process per dataset."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from sdgbench import registry
from sdgbench.conformance.checks import CHECKS
from sdgbench.conformance.estimate import expected_seconds, total_seconds
from sdgbench.conformance.harness import MethodHarness
from sdgbench.conformance.outcome import Check, Result, not_checked, run_checks
from sdgbench.launch.cpu_count import available_cpus

ONCE = [check for check in CHECKS if check.once]
PER_DATASET = [check for check in CHECKS if not check.once]


def check_all(
    harnesses: Sequence[MethodHarness],
    begin: Callable[[Check], object],
    announce: Callable[[float | None], object] = lambda seconds: None,
) -> Iterator[list[Result]]:
    """Run all checks; yields the results of each on all datasets, after calling ``begin``.

    Before the first one, ``announce`` is called with the seconds that all will take.
    """
    roots: dict[str, str] = {}
    with ExitStack() as stack:
        in_process = len(harnesses) == 1 or available_cpus() == 1
        processes = [
            stack.enter_context(_CheckProcess(harness))
            for harness in ([] if in_process else harnesses)
        ]
        announce(
            total_seconds(
                [process.expected_seconds() for process in processes]
                or [expected_seconds(harness) for harness in harnesses]
            )
        )
        once = run_checks(ONCE, harnesses[0], roots)
        for check in ONCE:
            begin(check)
            yield [next(once)]
        streams = [process.results(roots) for process in processes] or [
            run_checks(PER_DATASET, harness, dict(roots)) for harness in harnesses
        ]
        for check in PER_DATASET:
            begin(check)
            yield [next(stream) for stream in streams]


class _CheckProcess:
    """A process that runs the checks on one dataset."""

    def __init__(self, harness: MethodHarness) -> None:
        self.harness = harness
        spawn = get_context("spawn")  # threads of torch do not survive a fork
        self.connection, child = spawn.Pipe()
        self.process = spawn.Process(target=_work, args=(child, harness, registry.plugins()))
        self.process.start()
        child.close()  # so that the end of the process closes the pipe

    def __enter__(self) -> "_CheckProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.join()

    def expected_seconds(self) -> float | None:
        """The estimate of the process; None if it has none, or died."""
        try:
            seconds: float | None = self.connection.recv()
        except (EOFError, OSError):
            return None
        return seconds

    def results(self, roots: dict[str, str]) -> Iterator[Result]:
        """Send the failures so far, and yield each result as it arrives."""
        with suppress(OSError):  # the process died, which the first result will show
            self.connection.send(roots)
        for index, check in enumerate(PER_DATASET):
            try:
                yield self.connection.recv()
            except (EOFError, OSError):
                self.process.join()
                name = self.harness.dataset_name
                message = f"The process of this check died (exit code {self.process.exitcode})."
                yield Result(check, name, "failed", message)
                for later in PER_DATASET[index + 1 :]:
                    yield not_checked(later, name, check.name)
                return


def _work(parent: Connection, harness: MethodHarness, plugins: Sequence[Path]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
    import torch

    from sdgbench.training.device import keep_freed_memory

    torch.set_num_threads(1)
    keep_freed_memory()
    for file in plugins:
        registry.add_plugin(file)
    parent.send(expected_seconds(harness))
    for result in run_checks(PER_DATASET, harness, parent.recv()):
        parent.send(result)
