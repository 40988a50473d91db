"""Run methods on datasets: the one way of Python callers and of the command line."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgbench import registry
from sdgbench.api import arguments
from sdgbench.api.arguments import Folder, Names, Numbers
from sdgbench.errors import Interrupted, UserError
from sdgbench.training.event_log import check_log

if TYPE_CHECKING:
    from rich.console import Console

    from sdgbench.api.records import Records
    from sdgbench.launch.attempt import Result, RunOptions
    from sdgbench.launch.worker_process import WorkerProcess
    from sdgbench.spec.run_spec import RunSpec


class RunsFailed(Exception):
    """Some runs failed; ``failures`` says why, ``records`` holds those that did not.

    >>> raise sdgbench.RunsFailed(["erm on digits-mini: why"], records)
    Traceback (most recent call last):
    sdgbench.api.run.RunsFailed: 1 failed: erm on digits-mini: why
    """

    def __init__(self, failures: Sequence[str], records: "Records") -> None:
        super().__init__(f"{len(failures)} failed: " + "; ".join(failures))
        self.failures, self.records = tuple(failures), records


def run(
    methods: Names,
    datasets: Names,
    *,
    preset: str = "paper",
    seeds: Numbers = 0,
    params: Mapping[str, Any] | None = None,
    grid: Mapping[str, Iterable[Any]] | None = None,
    targets: Names = (),
    jobs: int | str = 1,
    device: str = "auto",
    threads: int | None = None,
    precision: str | None = None,
    runs: Folder = "runs",
    data: Folder = "data",
    progress: bool = True,
    retry: bool = False,
    redo: bool = False,
    leaderboards: bool = True,
    log: str = "",
) -> "Records":
    """Train methods on the source of each dataset and test them on its unseen domains.

    Names may be patterns such as "mada*", or "all".
    Finished runs are read, interrupted ones go on, only what is missing is run. ``params`` sets
    parameters of methods, options of datasets or "recipe.KEY"; ``grid`` runs all values of each
    of its keys. ``jobs`` is a number of processes, or "auto". A failing run stops no other one;
    RunsFailed is raised at the end, and its ``records`` are the finished ones. ``leaderboards``
    writes the tables and the page of all runs to RUNS/leaderboards. ``log="tensorboard"`` also
    writes the curve of each run as event files into its folder.

    >>> records = sdgbench.run("erm", "digits-mini", preset="smoke", seeds="0-1", progress=False)
    >>> records
    <Records of 2 runs: erm on digits-mini>
    """
    # Unknown names are refused before anything is imported.
    method_names = registry.expand("method", arguments.some_names(methods, "methods"))
    dataset_names = registry.expand("dataset", arguments.some_names(datasets, "datasets"))
    seed_list = arguments.some_numbers(seeds)
    assignments = arguments.assignments(params, "params")
    axes = arguments.axes(grid)
    only = arguments.any_names(targets, "targets")
    processes = arguments.processes(jobs)
    check_log(log)

    from rich.console import Console

    from sdgbench.launch.attempt import RunOptions
    from sdgbench.spec.resolution import matrix
    from sdgbench.training.device import Execution

    execution = Execution(precision, threads=threads).resolved(device)
    specs = matrix(
        method_names,
        dataset_names,
        seed_list,
        preset,
        assignments,
        axes,
        only,
        str(execution.precision),
    )
    options = RunOptions(
        Path(runs), Path(data), device, retry=retry, redo=redo, execution=execution, log=log
    )
    console = Console(highlight=False, quiet=not progress)
    results = execute(specs, options, processes, console)
    if leaderboards and any(result.outcome == "done" for result in results):
        from sdgbench.api.leaderboards import try_to_refresh

        console.print(try_to_refresh(options.runs), markup=False, soft_wrap=True)
    return as_records(results, options)


def execute(
    specs: "Sequence[RunSpec]",
    options: "RunOptions",
    processes: int | None,
    console: "Console",
    prestarted: "Sequence[WorkerProcess]" = (),
) -> "list[Result]":
    """Run what is missing on this machine; None: as many processes as it suggests."""
    if processes == 1 and options.timeout_seconds is None:
        from sdgbench.launch.local import run_here

        return run_here(specs, options, console)
    for spec in specs:
        registry.get("method", spec.method).check_importable()
        registry.get("dataset", spec.dataset).check_importable()
    from sdgbench.launch.worker_pool import run_in_processes

    return run_in_processes(specs, options, processes, console, prestarted)


def as_records(results: "Sequence[Result]", options: "RunOptions") -> "Records":
    """The records of a matrix; what did not finish is an exception or a remark."""
    from sdgbench.api.records import Records, StoredRecord
    from sdgbench.records.store import Store
    from sdgbench.spec.run_spec import label_runs

    store = Store(options.runs)
    remarks = [
        (result.outcome, f"{label}: {result.remark}")
        for result, label in zip(results, label_runs([r.spec for r in results]), strict=True)
    ]
    records = Records(
        (StoredRecord(r.record, store.folder(r.spec)) for r in results if r.record),
        [remark for outcome, remark in remarks if outcome == "skipped"],
    )
    stopped = [r for r in results if r.outcome in ("stopped", "not started")]
    failures = ("failed", "failed before", "refused")
    failed = [r for r in results if r.outcome in failures]
    if stopped:
        raise Interrupted("Stopped and saved. Call it again to go on.")
    if failed and all(r.outcome == "refused" for r in failed):
        raise UserError(" ".join(dict.fromkeys(r.remark for r in failed)))
    if failed:
        raise RunsFailed([text for outcome, text in remarks if outcome in failures], records)
    return records
