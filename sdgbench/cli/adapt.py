"""``sdgbench adapt``: few-shot adaptation of finished runs."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sdgbench.cli import options
from sdgbench.errors import UserError
from sdgbench.records.adaptations import ITERATIONS

if TYPE_CHECKING:
    from rich.console import Console

    from sdgbench.adapt.loop import Adapted, AdaptOptions
    from sdgbench.records.adaptations import Adaptation


@click.command(
    "adapt",
    epilog="""\b
Examples:
  sdgbench adapt --method erm --dataset digits-mini --preset quick --target street
  sdgbench adapt --method erm,mada --dataset digits --set source=usps --target mnist --seeds 0-4
  sdgbench adapt --run 3f2a --target svhn --shots 0,7,10 --draws 10
  sdgbench compare --view few-shot
The same command again does only what is missing.""",
)
@click.option(
    "--method",
    default="",
    metavar="NAMES",
    shell_complete=options.completer("method"),
    help="Method of the runs, or several with commas.",
)
@click.option(
    "--dataset",
    default="",
    metavar="NAMES",
    shell_complete=options.completer("dataset"),
    help="Dataset of the runs, or several with commas.",
)
@click.option(
    "--seeds",
    "--seed",
    default="0",
    show_default=True,
    metavar="LIST",
    help="Seeds of the runs, such as 0-4 or 0,3.",
)
@click.option(
    "--preset", default="paper", show_default=True, metavar="NAME", help="Preset of the runs."
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="What was set in the runs, such as source=usps.",
)
@click.option(
    "--run", "ids", default="", metavar="IDS", help="Runs by the start of their ids instead."
)
@click.option(
    "--target",
    "--targets",
    "targets",
    required=True,
    metavar="NAMES",
    help="Unseen domain to adapt to, or several with commas.",
)
@click.option(
    "--shots",
    default="0,7,10",
    show_default=True,
    metavar="LIST",
    help="Labelled images per class; 0: the untouched network.",
)
@click.option(
    "--draws",
    default=5,
    show_default=True,
    type=click.IntRange(min=1),
    help="How often images are drawn.",
)
@click.option(
    "--iterations",
    default=ITERATIONS,
    show_default=True,
    type=click.IntRange(min=1),
    help="Steps of fine-tuning. The paper does not state how many; with the default, "
    "networks fit the images that they are shown.",
)
@click.option(
    "--lr",
    default=1e-4,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Learning rate of Adam.",
)
@click.option(
    "--batch", default=16, show_default=True, type=click.IntRange(min=1), help="Images per step."
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="auto, cpu, cuda, cuda:N or mps.",
)
@options.runs
@options.data
@options.plugins
def command(
    method: str,
    dataset: str,
    seeds: str,
    preset: str,
    sets: tuple[str, ...],
    ids: str,
    targets: str,
    shots: str,
    draws: int,
    iterations: int,
    lr: float,
    batch: int,
    device: str,
    runs: Path,
    data: Path,
) -> int:
    """Fine-tune finished runs on a few labelled images of a target, and test them on it.

    The images are drawn from the target's training split. If it has none, they are drawn from its
    test split and held out of the evaluation. All methods of a seed get the same images. The runs
    themselves and the leaderboards do not change.
    """
    target_list = options.names(targets, "--target")
    shot_list = options.numbers(shots, "number of shots", "--shots 0, 0,7 or 0-4")
    seed_list = options.numbers(seeds)
    assignments = [options.assignment(text, "--set") for text in sets]
    starts = options.names(ids, "--run") if ids else []
    if starts and (method or dataset):
        raise UserError("Choose runs by --run, or by --method and --dataset, not by both.")
    if not starts and not (method and dataset):
        raise UserError(
            "Choose runs: --method and --dataset, or --run with their ids. To list them: "
            "sdgbench compare"
        )
    # Refuse typos before torch is imported.
    methods = options.registered("method", method, "--method") if method else []
    datasets = options.registered("dataset", dataset, "--dataset") if dataset else []

    from rich.console import Console

    from sdgbench.adapt import parents
    from sdgbench.adapt.loop import AdaptOptions, adapt_all
    from sdgbench.launch.summary import exit_code
    from sdgbench.records.store import Store
    from sdgbench.spec.resolution import matrix
    from sdgbench.training.device import Device

    store = Store(runs)
    specs = matrix(methods, datasets, seed_list, preset, assignments) if methods else []
    finders = [partial(parents.by_id, store, target_list, start) for start in starts]
    finders += [partial(parents.by_spec, store, data, target_list, spec) for spec in specs]
    adapt_options = AdaptOptions(target_list, shot_list, draws, iterations, lr, batch, runs, data)
    console = Console(highlight=False)
    adapted = adapt_all(finders, adapt_options, Device(device), console)
    if any(ending.label for ending in adapted):
        _summarise(adapted, adapt_options, console)
    else:
        for remark in dict.fromkeys(ending.remark for ending in adapted):
            click.echo(f"Error: {remark}", err=True)
    return exit_code([ending.outcome for ending in adapted])


def _summarise(adapted: "Sequence[Adapted]", options: "AdaptOptions", console: "Console") -> None:
    from rich.markup import escape
    from rich.table import Table

    from sdgbench.launch.summary import STYLES

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("run", overflow="fold")
    table.add_column("outcome", no_wrap=True)
    for shots in sorted(options.shots):
        table.add_column(f"{shots}-shot", justify="right", no_wrap=True)
    for ending in adapted:
        if ending.label:
            style = STYLES.get(ending.outcome, "default")
            cells = [_interval(ending.results, shots) for shots in sorted(options.shots)]
            table.add_row(escape(ending.label), f"[{style}]{ending.outcome}[/]", *cells)
    console.print()
    console.print(table)
    for ending in adapted:
        if ending.remark:
            style = STYLES.get(ending.outcome, "default")
            label = f" {escape(ending.label)}" if ending.label else ""
            console.print(
                f"[{style}]{ending.outcome}[/]{label}: {escape(ending.remark)}",
                soft_wrap=not console.is_terminal,
            )
    console.print(
        "per cent, mean over a run's draws ± half-width of its 95% interval; "
        f"{options.iterations} iterations. Over seeds, with the paper's: sdgbench compare --view "
        f"few-shot --runs {escape(str(options.runs))}",
        style="dim",
        soft_wrap=not console.is_terminal,
    )
    if any(ending.outcome in ("stopped", "not started") for ending in adapted):
        console.print("Stopped. Run the same command again to go on.", style="bold")


def _interval(results: Sequence["Adaptation"], shots: int) -> str:
    from sdgbench.leaderboard import statistics

    accuracies = [100 * result.accuracy for result in results if result.asked.shots == shots]
    if not accuracies:
        return "-"
    mean, half = statistics.mean_interval(accuracies)
    return f"{mean:.1f}" + (f" ±{half:.1f}" if half is not None else "")
