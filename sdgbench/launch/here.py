"""Runs a matrix in this process: only what is missing, and no failure stops the rest."""

from collections.abc import Sequence
from contextlib import nullcontext

from rich.console import Console

from sdgbench import parallel, progress
from sdgbench.device import Device
from sdgbench.launch.one import Order, Result, run_one
from sdgbench.launch.summary import conclude
from sdgbench.record import Store
from sdgbench.runner import StopSignal
from sdgbench.spec import RunSpec

SILENT: nullcontext[progress.Reporter] = nullcontext(progress.Silent())


def run_here(specs: Sequence[RunSpec], order: Order) -> int:
    """Run what is missing, print a summary, and return the exit code.

    Of several processes of one run, only the first one prints.
    """
    console = Console(highlight=False)
    results: list[Result] = []
    with parallel.joined(order.device) as own, StopSignal() as asked:
        device = Device(own, order.execution)
        parallel.from_first(lambda: Store(order.runs).check(writable=True))
        stop = parallel.Agreed(asked)
        for position, spec in enumerate(specs, 1):
            if stop():
                results.append(Result(spec, "not started"))
                continue
            title = f"[{position}/{len(specs)}] {spec.label}"
            reporter = progress.reporter(console, title) if parallel.is_first() else SILENT
            results.append(run_one(
                spec, order, device, reporter, stop,
                lambda error: console.print_exception(max_frames=8),
            ))  # fmt: skip
        return parallel.from_first(lambda: conclude(results, console, order.runs))
