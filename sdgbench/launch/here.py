"""Runs a matrix in this process: only what is missing, and no failure stops the rest."""

from collections.abc import Sequence

from rich.console import Console

from sdgbench import progress
from sdgbench.device import Device
from sdgbench.launch.one import Order, Result, run_one
from sdgbench.launch.summary import conclude
from sdgbench.record import Store
from sdgbench.runner import StopSignal
from sdgbench.spec import RunSpec


def run_here(specs: Sequence[RunSpec], order: Order) -> int:
    """Run what is missing, print a summary, and return the exit code."""
    device = Device(order.device)
    Store(order.runs).check(writable=True)
    console = Console(highlight=False)
    results: list[Result] = []
    with StopSignal() as stop:
        for position, spec in enumerate(specs, 1):
            if stop():
                results.append(Result(spec, "not started"))
                continue
            reporter = progress.reporter(console, f"[{position}/{len(specs)}] {spec.label}")
            results.append(run_one(
                spec, order, device, reporter, stop,
                lambda error: console.print_exception(max_frames=8),
            ))  # fmt: skip
    return conclude(results, console, order.runs)
