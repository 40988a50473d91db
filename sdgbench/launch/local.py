"""Runs a matrix in this process: only what is missing, and no failure stops the rest."""

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from functools import partial

from rich.console import Console

from sdgbench.launch.attempt import Result, RunOptions, run_one
from sdgbench.launch.crash import print_crash
from sdgbench.launch.live_table import LiveTable
from sdgbench.launch.matrix_file import MatrixFile
from sdgbench.launch.stop_signal import StopSignal
from sdgbench.records.store import Store
from sdgbench.reporter import Reporter, Silent
from sdgbench.spec.run_spec import RunSpec
from sdgbench.training import distributed
from sdgbench.training.device import Device

SILENT: nullcontext[Reporter] = nullcontext(Silent())


def run_here(specs: Sequence[RunSpec], options: RunOptions, console: Console) -> list[Result]:
    """Run what is missing; how each run ended comes in the order of the specs.

    If several processes share each run (torchrun), only the first one prints.
    """
    results: list[Result] = []
    table = LiveTable(console, specs)
    with (
        distributed.joined(options.device) as device_name,
        StopSignal(announce=table.show_stopping) as stop_signal,
        ExitStack() as shown,
    ):
        if distributed.is_rank_zero():
            shown.enter_context(table)
        device = Device(device_name, options.execution)
        distributed.on_rank_zero(lambda: Store(options.runs).check(writable=True))
        if distributed.is_rank_zero():
            shown.enter_context(MatrixFile(options.runs, table))
        stop = distributed.AnyRank(stop_signal)
        for position, spec in enumerate(specs, 1):
            if stop():
                results.append(Result(spec, "not started"))
                continue
            reporter = table.reporting(position) if distributed.is_rank_zero() else SILENT
            on_crash = partial(print_crash, console, spec)
            results.append(run_one(spec, options, device, reporter, stop, on_crash))
            table.end_run(position, results[-1])
        return distributed.on_rank_zero(lambda: results)
