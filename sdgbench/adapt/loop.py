"""Adapts runs one after another: only what is missing, and no failure stops the rest."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console

from sdgbench import storage
from sdgbench.adapt.samples import Target
from sdgbench.adapt.tune import Parent, adapt, environment_of, finished
from sdgbench.errors import Interrupted, UserError
from sdgbench.launch import progress
from sdgbench.launch.attempt import Outcome
from sdgbench.launch.crash import print_crash
from sdgbench.launch.stop_signal import StopSignal
from sdgbench.records.adaptations import FOLDER, Adaptation, Asked
from sdgbench.reporter import Reporter
from sdgbench.training.device import Device


@dataclass(frozen=True)
class AdaptOptions:
    """The options of ``sdgbench adapt``, which are the same for all runs."""

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
    """How the adaptation of one run to one target ended."""

    label: str
    outcome: Outcome
    remark: str = ""
    seconds: float = 0.0
    results: list[Adaptation] = field(default_factory=list)


def plan(parent: Parent, target: Target, options: AdaptOptions) -> Iterator[Asked]:
    """All adaptations of one run to one target, draw by draw."""
    held_out = target.held_out(options.shots)
    for draw in range(options.draws):
        for shots in sorted(options.shots):
            if not shots and not held_out and draw:
                continue  # the untouched network on the same images: once is enough
            iterations, lr, batch = (
                (options.iterations, options.lr, options.batch) if shots else (0, 0, 0)
            )
            yield Asked(
                parent.record.id,
                target.name,
                target.drawn_from,
                held_out,
                shots,
                draw,
                iterations,
                float(lr),
                batch,
            )


def adapt_all(
    finders: Sequence[Callable[[], Parent]],
    options: AdaptOptions,
    device: Device,
    console: Console,
) -> list[Adapted]:
    """Adapt each run to each target; each finder returns a run, or raises if there is none."""
    endings: list[Adapted] = []
    warn = partial(console.print, markup=False, soft_wrap=True)
    with StopSignal() as stop, device.settings(warn):
        for find in finders:
            try:
                parent = find()
            except UserError as error:
                endings.append(Adapted("", "refused", str(error)))
                continue
            for name in options.targets:
                endings.append(_guarded(parent, name, options, device, console, stop))
    return endings


def _guarded(
    parent: Parent,
    name: str,
    options: AdaptOptions,
    device: Device,
    console: Console,
    stop: StopSignal,
) -> Adapted:
    """Adapt a run to a target; whatever happens becomes an outcome."""
    adapted = Adapted(f"{parent.spec.label} → {name}", "not started")
    if stop():
        return adapted
    began = time.perf_counter()
    try:
        with (
            storage.locked(parent.folder / FOLDER),
            progress.reporter(console, adapted.label) as reporter,
        ):
            storage.sweep_temporaries(parent.folder / FOLDER)
            adapted.outcome = "finished before"
            for result, new in _adapt_to(parent, name, options, device, reporter, stop):
                adapted.results.append(result)
                adapted.outcome = "done" if new else adapted.outcome
    except Interrupted as error:
        adapted.outcome, adapted.remark = "stopped", str(error)
    except UserError as error:
        adapted.outcome, adapted.remark = "refused", str(error)
    except Exception as error:
        print_crash(console, parent.spec, error)
        adapted.outcome, adapted.remark = "failed", f"{type(error).__name__}: {error}"
    adapted.seconds = time.perf_counter() - began
    return adapted


def _adapt_to(
    parent: Parent,
    name: str,
    options: AdaptOptions,
    device: Device,
    reporter: Reporter,
    stop: StopSignal,
) -> Iterator[tuple[Adaptation, bool]]:
    """The results for one target, and whether each is new."""
    spec = parent.spec
    dataset = spec.dataset_class(options.data, spec.build_options(), spec.build_recipe())
    target = Target(dataset, name)
    if target.drawn_from == "test":
        reporter.note(
            f"{name} has no training split here: {target.held_out(options.shots)} images "
            "per class of each draw are held out of its test images"
        )
    planned = [(asked, finished(asked, parent)) for asked in plan(parent, target, options)]
    missing = [asked for asked, result in planned if result is None]
    yield from ((result, False) for _, result in planned if result is not None)
    if not missing:
        return
    environment = environment_of(spec, device)
    total, done = sum(asked.iterations for asked in missing), 0
    reporter.begin(f"adapt {name}", max(total, 1))
    began = shown = time.perf_counter()

    def on_step(step: int, loss: float | None) -> None:
        nonlocal shown
        if time.perf_counter() - shown > 0.25:
            shown = time.perf_counter()
            reporter.update(done + step, loss, (done + step) * options.batch / (shown - began))

    for asked in missing:
        if stop():
            raise Interrupted(f"before draw {asked.draw} of {name}")
        yield adapt(parent, asked, target, device, environment, on_step, stop), True
        done += asked.iterations
    reporter.update(max(total, 1), None, 0.0)
    reporter.end()
