"""Adapts runs one after another: only what is missing, and no failure stops the rest."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sdgbench import progress, stats, storage
from sdgbench.adapt.results import FOLDER, Asked, Result
from sdgbench.adapt.samples import Target
from sdgbench.adapt.tune import Parent, adapt, finished, surroundings
from sdgbench.device import Device
from sdgbench.errors import Interrupted, UserError
from sdgbench.launch.one import Outcome
from sdgbench.launch.summary import STYLES, exit_code
from sdgbench.progress import Reporter
from sdgbench.runner import StopSignal


@dataclass(frozen=True)
class Order:
    """What a command asks of each run."""

    targets: Sequence[str]
    shots: Sequence[int]
    draws: int
    iterations: int
    lr: float
    batch: int
    runs: Path
    data: Path


@dataclass
class Adapted:
    """How one run on one target ended."""

    label: str
    outcome: Outcome
    remark: str = ""
    seconds: float = 0.0
    results: list[Result] = field(default_factory=list)


def plan(parent: Parent, target: Target, order: Order) -> Iterator[Asked]:
    """All adaptations of one run to one target, draw by draw."""
    held_out = target.held_out(order.shots)
    for draw in range(order.draws):
        for shots in sorted(order.shots):
            if not shots and not held_out and draw:
                continue  # the untouched network on the same images: once is enough
            iterations, lr, batch = (
                (order.iterations, order.lr, order.batch) if shots else (0, 0, 0)
            )
            yield Asked(
                parent.record["id"], target.name, target.drawn_from, held_out, shots, draw,
                iterations, float(lr), batch,
            )  # fmt: skip


def adapt_all(finders: Sequence[Callable[[], Parent]], order: Order, device: Device) -> int:
    """Adapt each run to each target, print a summary, and return the exit code."""
    console = Console(highlight=False)
    done: list[Adapted] = []
    with StopSignal() as stop:
        for find in finders:
            try:
                parent = find()
            except UserError as error:
                done.append(Adapted("", "refused", str(error)))
                continue
            for name in order.targets:
                done.append(_guarded(parent, name, order, device, console, stop))
    if any(result.label for result in done):
        _summarise(done, order, console)
    else:
        for remark in dict.fromkeys(result.remark for result in done):
            print(f"Error: {remark}", file=sys.stderr)
    return exit_code([result.outcome for result in done])


def _guarded(
    parent: Parent, name: str, order: Order, device: Device, console: Console, stop: StopSignal
) -> Adapted:
    """Whatever happens becomes a result."""
    found = Adapted(f"{parent.spec.label} → {name}", "not started")
    if stop():
        return found
    began = time.perf_counter()
    try:
        with (
            storage.owned(parent.folder / FOLDER),
            progress.reporter(console, found.label) as reporter,
        ):
            storage.sweep_temporaries(parent.folder / FOLDER)
            found.outcome = "finished before"
            for result, new in _adapt_to(parent, name, order, device, reporter, stop):
                found.results.append(result)
                found.outcome = "done" if new else found.outcome
    except Interrupted as error:
        found.outcome, found.remark = "stopped", str(error)
    except UserError as error:
        found.outcome, found.remark = "refused", str(error)
    except Exception as error:
        console.print_exception(max_frames=8)
        found.outcome, found.remark = "failed", f"{type(error).__name__}: {error}"
    found.seconds = time.perf_counter() - began
    return found


def _adapt_to(
    parent: Parent, name: str, order: Order, device: Device, reporter: Reporter, stop: StopSignal
) -> Iterator[tuple[Result, bool]]:
    """The results for one target, and whether each is new."""
    spec = parent.spec
    target = Target(spec.dataset_class(order.data, spec.build_options(), spec.build_recipe()), name)
    if target.drawn_from == "test":
        reporter.note(f"{name} has no training split here: {target.held_out(order.shots)} images "
                      "per class of each draw are held out of its test images")  # fmt: skip
    planned = [(asked, finished(asked, parent)) for asked in plan(parent, target, order)]
    missing = [asked for asked, found in planned if found is None]
    yield from ((found, False) for _, found in planned if found is not None)
    if not missing:
        return
    around = surroundings(spec, device)
    total, done = sum(asked.iterations for asked in missing), 0
    reporter.begin(f"adapt {name}", max(total, 1))
    began = shown = time.perf_counter()

    def on_step(step: int, loss: float) -> None:
        nonlocal shown
        if time.perf_counter() - shown > 0.25:
            shown = time.perf_counter()
            reporter.update(done + step, loss, (done + step) * order.batch / (shown - began))

    for asked in missing:
        if stop():
            raise Interrupted(f"before draw {asked.draw} of {name}")
        yield adapt(parent, asked, target, device, around, on_step, stop), True
        done += asked.iterations
    reporter.update(max(total, 1), None, 0.0)
    reporter.end()


def _summarise(done: Sequence[Adapted], order: Order, console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("run", overflow="fold")
    table.add_column("outcome", no_wrap=True)
    for shots in sorted(order.shots):
        table.add_column(f"{shots}-shot", justify="right", no_wrap=True)
    for one in done:
        if one.label:
            style = STYLES.get(one.outcome, "default")
            cells = [_interval(one.results, shots) for shots in sorted(order.shots)]
            table.add_row(escape(one.label), f"[{style}]{one.outcome}[/]", *cells)
    console.print()
    console.print(table)
    for one in done:
        if one.remark:
            style = STYLES.get(one.outcome, "default")
            of = f" {escape(one.label)}" if one.label else ""
            console.print(f"[{style}]{one.outcome}[/]{of}: {escape(one.remark)}", soft_wrap=True)
    console.print(
        "per cent, mean over a run's draws ± half-width of its 95% interval; "
        f"{order.iterations} iterations. Over seeds, with the paper's: sdgbench compare --view "
        f"few-shot --runs {escape(str(order.runs))}",
        style="dim", soft_wrap=True,
    )  # fmt: skip
    if any(one.outcome in ("stopped", "not started") for one in done):
        console.print("Stopped. Run the same command again to go on.", style="bold")


def _interval(results: Sequence[Result], shots: int) -> str:
    found = [100 * one["results"]["accuracy"] for one in results if one["asked"]["shots"] == shots]
    if not found:
        return "-"
    mean, half = stats.mean_interval(found)
    return f"{mean:.1f}" + (f" ±{half:.1f}" if half is not None else "")
