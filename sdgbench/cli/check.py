"""``sdgbench check``: whether a method follows the rules."""

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sdgbench import registry
from sdgbench.cli import options, text
from sdgbench.errors import UserError, unknown

if TYPE_CHECKING:
    from rich.console import Console

    from sdgbench.conformance import Result

STYLES = {"ok": "green", "failed": "bold red", "skipped": "yellow"}


@click.command(
    "check",
    epilog="""\b
Examples:
  sdgbench check my_idea.py
  sdgbench check erm --dataset digits-mini
  sdgbench check my_idea.py --all-datasets
  sdgbench check my_idea.py --simulate-gpu
  sdgbench check my_data.py
  sdgbench check folder --set root=DIR --set source=photo""",
)
@click.argument("what", metavar="FILE_OR_NAME", shell_complete=options.completer("method"))
@click.option(
    "--dataset",
    default="",
    metavar="NAMES",
    show_default="one per task, network and image size",
    shell_complete=options.completer("dataset"),
    help="Check a method on these datasets and their synthetic twins.",
)
@click.option(
    "--all-datasets",
    is_flag=True,
    help="Check a method on all embedded datasets, with a real run on each (minutes).",
)
@click.option(
    "--simulate-gpu",
    is_flag=True,
    help="Only train on a simulated GPU: show what would fail there, and where steps wait for it.",
)
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="An option of a dataset to check."
)
@options.data
@options.plugins
def command(
    what: str,
    dataset: str,
    all_datasets: bool,
    simulate_gpu: bool,
    sets: tuple[str, ...],
    data: Path,
) -> int:
    """Check that a method or a dataset follows the rules: all of a FILE.py, or one by its name.

    Rules for methods are checked on small synthetic twins of the datasets, which need no data: of
    one embedded dataset per task, network and image size. The last check is a real run at the
    smoke preset, on one dataset per task. Under a minute on two cores for every built-in method.
    Of a dataset, all images and labels are opened, and a batch goes through its network. Exit
    code 1: a rule is broken.
    """
    methods, own_datasets = _registered(what)
    if dataset and not methods:
        raise UserError(f"{what} has no method to check on {dataset}. Omit --dataset.")
    if dataset and all_datasets:
        raise UserError("Use --dataset or --all-datasets, not both.")
    if sets and not own_datasets:
        raise UserError(f"{what} has no dataset, and --set is for a dataset's options. Omit --set.")
    chosen = dict(options.assignment(text, "--set") for text in sets)
    names = options.registered("dataset", dataset, "--dataset") if dataset else []
    from rich.console import Console

    console = Console(highlight=False)
    with console.status("starting"):
        import torch

        # Steps this small gain nothing from threads, which on a busy machine wait for each other
        # for minutes.
        torch.set_num_threads(1)
        from sdgbench.conformance import embedded_datasets, representative_datasets

        if names or all_datasets or simulate_gpu:
            datasets = dict.fromkeys(names or embedded_datasets(), True)
        else:
            datasets = representative_datasets()
    if simulate_gpu:
        results = [_simulate(console, name, list(datasets)) for name in methods]
        return 0 if all(results) else 1
    passed = [_check_dataset(console, name, chosen, data) for name in own_datasets]
    passed += [_check(console, name, datasets, data, bool(names)) for name in methods]
    return 0 if all(passed) else 1


def _registered(what: str) -> tuple[list[str], list[str]]:
    """The methods and the datasets that a file registers, or that have this name."""
    kinds: tuple[registry.Kind, ...] = ("method", "dataset")
    if not what.endswith(".py") and os.sep not in what:
        known = {kind: registry.entries(kind) for kind in kinds}
        if not any(what in entries for entries in known.values()):
            every = [*known["method"], *known["dataset"]]
            raise unknown("method or dataset", what, every, "All: sdgbench list")
        methods, datasets = ([what] if what in known[kind] else [] for kind in kinds)
        return methods, datasets
    file = Path(what).expanduser().resolve()
    if not file.is_file():
        raise UserError(f"There is no file {what}. To write one: sdgbench new method NAME")
    if not any(_of_file(kind, file) for kind in kinds):
        registry.add_plugin(file)
    methods, datasets = (_of_file(kind, file) for kind in kinds)
    if not methods and not datasets:
        raise UserError(
            f'{what} registers no method. Write @register_method("my-name") above its class.'
        )
    return methods, datasets


def _of_file(kind: registry.Kind, file: Path) -> list[str]:
    entries = registry.entries(kind).values()
    return [entry.name for entry in entries if entry.file.resolve() == file]


def _check_dataset(console: "Console", name: str, chosen: dict[str, str], data: Path) -> bool:
    """Open everything of a dataset and print what is wrong; return whether nothing is."""
    from sdgbench.api.catalogue import new_dataset
    from sdgbench.conformance import Failed, Skipped, check_dataset, explain
    from sdgbench.launch import progress

    entry = registry.get("dataset", name)
    console.print(f"dataset {name}", style="bold", markup=False)
    try:
        dataset = new_dataset(name, "smoke", chosen, data)
        with progress.reporter(console, f"opening {name}") as reporter:
            images = check_dataset(dataset, reporter)
    except Skipped as reason:
        console.print("skipped", style=STYLES["skipped"])
        console.print(_indented(str(reason), console.width), soft_wrap=True, markup=False)
        return True
    except Exception as error:  # the contributor's code may raise anything
        console.print("FAILED", style=STYLES["failed"])
        known = isinstance(error, Failed)
        message = str(error) if known else explain(error, entry.file, "dataset")
        for line in message.splitlines():
            console.print(_indented(line, console.width), soft_wrap=True, markup=False)
        return False
    source, *targets = (f"{name} {count:,}" for name, count in images.items())
    console.print(f"Images: {source} to train on; unseen: {', '.join(targets)}", markup=False)
    console.print(f"All of its {len(images)} domains fit its task and recipe.", style="bold green")
    return True


def _check(
    console: "Console", method: str, datasets: Mapping[str, bool], data: Path, named: bool
) -> bool:
    """Print each check as it ends; return whether all passed.

    ``datasets`` says of each whether it is opened itself. If the user did not name them, those
    that the method skips are left out.
    """
    from tempfile import TemporaryDirectory

    from sdgbench.conformance import MethodHarness, check_all, skipped_datasets

    skipped = {} if named else skipped_datasets(method, list(datasets))
    kept = {name: opened for name, opened in datasets.items() if name not in skipped}
    if not kept:  # each check will give the reason
        kept, skipped = dict(datasets), {}
    began, outcomes = time.monotonic(), []
    with (
        TemporaryDirectory(prefix="sdgbench-check-") as folder,
        console.status("starting") as status,
    ):

        def announce(seconds: float | None) -> None:
            about = "" if seconds is None else f": about {5 * math.ceil(seconds / 5)} s"
            console.print(f"{method} on {', '.join(kept)}{about}", style="bold", markup=False)

        harnesses = [
            MethodHarness(method, name, Path(folder, name), data if opened else None)
            for name, opened in kept.items()
        ]
        for results in check_all(
            harnesses, lambda check: status.update(f"{check.name} ..."), announce
        ):
            _print(console, results)
            outcomes += [result.outcome for result in results]
    for name, reason in skipped.items():
        console.print(_indented(f"Not on {name}: {reason}.", console.width), markup=False)
    failed = outcomes.count("failed")
    verdict = f"{failed} of {len(outcomes)} checks failed" if failed else "All checks passed"
    console.print(
        f"{verdict} in {time.monotonic() - began:.0f} s.",
        style="bold red" if failed else "bold green",
    )
    return not failed


def _simulate(console: "Console", method: str, datasets: Sequence[str]) -> bool:
    """Print what training on a simulated GPU showed; return whether all is well."""
    from sdgbench.conformance.simulation import PRECISIONS, Case, simulate

    skips = registry.get("method", method).details.get("skips", {})
    named = {name: registry.get("dataset", name).load() for name in datasets}
    cases = [
        Case(method, name, precision)
        for name, cls in named.items()
        if cls.task.kind not in skips  # type: ignore[attr-defined]
        for precision in PRECISIONS
    ]
    cases += [replace(case, graphs=True) for case in cases[:1]]
    good = True
    with console.status("training on a simulated GPU ..."):
        for result in simulate(cases):
            faults = [result.error] if result.error else result.waits_in_steps
            outcome = "failed" if result.error else "waits" if faults else "ok"
            style = STYLES["failed" if result.error else "skipped" if faults else "ok"]
            what = f"{result.case.dataset}, {result.case.precision}"
            if result.case.graphs:
                captured, other = result.graphs
                what += f", as CUDA graphs: {captured or 'no step'}"
                faults = [result.error or other]
            console.print(f"{outcome:<8}", what, style=style, soft_wrap=True)
            for line in (line for fault in faults for line in fault.splitlines()):
                console.print(_indented(line, console.width), soft_wrap=True, markup=False)
            good = good and not result.error
    return good


def _print(console: "Console", results: "Sequence[Result]") -> None:
    """Print one line for a check, and below it each distinct message with its datasets."""
    from rich.text import Text

    outcomes = {result.outcome for result in results}
    outcome = "failed" if "failed" in outcomes else "ok" if "ok" in outcomes else "skipped"
    check = results[0].check
    messages: dict[str, list[str]] = {}
    for result in results:
        if result.message:
            messages.setdefault(result.message, []).append(result.dataset)
    description = check.rule
    if outcome == "skipped" and len(messages) == 1:  # the reason explains more than the rule
        description, messages = next(iter(messages)), {}
    word = "FAILED" if outcome == "failed" else outcome
    line = Text.assemble((f"{word:<8}", STYLES[outcome]), f"{check.name:<14}{description}")
    console.print(line, soft_wrap=True)
    for message, datasets in messages.items():
        where = "" if len(datasets) == len(results) else f"On {', '.join(datasets)}: "
        for part in f"{where}{message}".splitlines():
            console.print(_indented(part, console.width), soft_wrap=True, markup=False)


def _indented(line: str, width: int) -> str:
    indent = 8 + len(line) - len(line.lstrip())
    return text.wrap(line.strip(), width, " " * indent, " " * indent)
