"""``sdgbench compare``: tables of finished runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sdgbench.cli import options
from sdgbench.errors import UserError, unknown

if TYPE_CHECKING:
    from sdgbench.leaderboard import Board, Run, Table

VIEWS = ("domains", "severity", "corruptions", "classes", "efficiency", "cost", "transport")
FEW_SHOT = "few-shot"
STYLES = ("table", "md", "latex", "csv", "json", "html")
MOST_SKIPPED = 20  # lines about records that cannot be read
EXAMPLES = """\b
Examples:
  sdgbench compare
  sdgbench compare --dataset cifar10c --view corruptions
  sdgbench compare --methods mada,gud --sort worst --format csv
  sdgbench compare --runs runs --runs elsewhere/runs --output table.tex
  sdgbench compare --dataset digits --preset paper --paper
  sdgbench compare --ablation mada
"""


@click.command("compare", epilog=EXAMPLES)
@click.option("--dataset", "--datasets", default="", metavar="NAMES", help="Only these datasets.",
              shell_complete=options.completer("dataset"))  # fmt: skip
@click.option("--methods", "--method", default="", metavar="NAMES", help="Only these methods.",
              shell_complete=options.completer("method"))  # fmt: skip
@click.option("--preset", default="", metavar="NAME", help="Only this preset.")
@click.option("--view", type=click.Choice((*VIEWS, FEW_SHOT)), default="domains", show_default=True,
              metavar="NAME",
              help=f"What the columns are: {', '.join((*VIEWS, FEW_SHOT))}.")  # fmt: skip
@click.option("--sort", default="", metavar="COLUMN",
              help="Sort by a column, best first, or by method; else by the ranked average.",
)  # fmt: skip
@click.option("--baseline", default="erm", show_default=True, metavar="NAME",
              help="The method that gains, mCE and RmCE refer to.")  # fmt: skip
@click.option("--choice", type=click.Choice(["last", "val"]), default="last", show_default=True,
              help="Weights: the last iterate, or the best on held-out source.")  # fmt: skip
@click.option("--ablation", "ablated", default="", metavar="METHOD",
              help="Only this method, its ablations (METHOD-...) and its runs with changed "
                   "parameters, with gains over it and the paper's rows.",
              shell_complete=options.completer("method"))  # fmt: skip
@click.option("--paper", is_flag=True, help="Also show published numbers beside ours.")
@click.option("--format", "style", type=click.Choice(STYLES), default=None,
              help="How to print; default: table, or what the suffix of --output says.",
)  # fmt: skip
@click.option("--output", metavar="FILE", default=None, type=click.Path(path_type=Path),
              help="Write to this file.")  # fmt: skip
@click.option("--runs", metavar="DIR", multiple=True, default=("runs",), envvar="SDGBENCH_RUNS",
              show_default=True, type=click.Path(path_type=Path),
              help="Folder of runs; may be given several times (or set SDGBENCH_RUNS).",
)  # fmt: skip
def command(
    dataset: str, methods: str, preset: str, view: str, sort: str, baseline: str, choice: str,
    ablated: str, paper: bool, style: str | None, output: Path | None, runs: tuple[Path, ...],
) -> None:  # fmt: skip
    """Show finished runs: methods as rows, unseen domains as columns.

    Mean over seeds with the half-width of its 95% interval, in per cent, and the paired gain over
    ERM. Only runs on the same ground (dataset version, content, recipe, preset, domains) share a
    table.
    """
    from sdgbench.leaderboard import SUFFIXES, ablate, beside_paper, boards, paper_tables

    style = style or _style(output, SUFFIXES)
    found = _load(runs, choice, view == "classes")
    wanted = options.names(methods, "--methods") if methods else []
    found = _keep(found, "dataset", options.names(dataset, "--dataset") if dataset else [])
    found = _keep(found, "preset", options.names(preset, "--preset") if preset else [])
    shown = boards(found)
    if ablated:
        shown, baseline = ablate(shown, ablated), ablated
    _check_methods(shown, wanted, baseline)
    shown = [b for b in shown if not wanted or _names(b) & set(wanted)]
    if view == FEW_SHOT:
        if choice != "last":
            raise UserError("Adaptations start from the last iterate. Leave --choice away.")
        _print(_few_shot(shown, baseline, sort, wanted), style, output)
        return
    fitting = [board for board in shown if view in board.views()]
    if not fitting:
        raise UserError(f"Nothing here has the view {view}. There is: {', '.join(_views(shown))}.")
    tables: list[Table] = []
    unsortable: list[UserError] = []
    for board in fitting:
        try:
            tables.append(board.table(view, choice, baseline, sort, wanted))
        except UserError as error:
            if not sort:
                raise
            unsortable.append(error)
            tables.append(board.table(view, choice, baseline, "", wanted))
        if ablated and (variants := beside_paper(board, ablated, choice)):
            tables.append(variants)
        if paper:
            beside = paper_tables(board, choice, wanted)
            if not beside:
                click.echo(f"Nothing is published for {board.dataset}.", err=True)
            tables += [table for table in beside if table not in tables]  # one block for all
    if len(unsortable) == len(fitting):
        raise unsortable[0]
    _print(tables, style, output)


def _style(output: Path | None, suffixes: dict[str, str]) -> str:
    if output is None:
        return "table"
    if output.suffix.lower() not in suffixes:
        raise UserError(
            f'The suffix of "{output}" tells no format. Use {", ".join(suffixes)}, or --format.'
        )
    return suffixes[output.suffix.lower()]


def _load(folders: Sequence[Path], choice: str, classes: bool) -> "list[Run]":
    """Read all records; what cannot be read is named."""
    from sdgbench.leaderboard import load

    loaded = load(folders, dict.fromkeys(("last", choice)), classes)
    if not loaded.runs and loaded.problems:
        raise loaded.problems[0]
    if not loaded.runs:
        raise _nothing(" ".join(map(str, folders)))
    for error in loaded.problems[:MOST_SKIPPED]:
        click.echo(f"Skipped: {error}", err=True)
    if len(loaded.problems) > MOST_SKIPPED:
        click.echo(f"Skipped: {len(loaded.problems) - MOST_SKIPPED} more records.", err=True)
    for folder in loaded.empty:
        click.echo(f"There are no finished runs in {folder}.", err=True)
    return loaded.runs


def _nothing(where: str) -> UserError:
    return UserError(
        f"No finished runs match in {where}. Make one: sdgbench run --method erm "
        "--dataset digits-mini --preset quick"
    )


def _keep(found: "list[Run]", what: str, names: Sequence[str]) -> "list[Run]":
    """The runs of some datasets or presets."""
    known = {getattr(run.ground, what) for run in found}
    for name in names:
        if name not in known:
            raise unknown(f"finished run with the {what}", name, known)
    return [run for run in found if not names or getattr(run.ground, what) in names]


def _names(board: "Board") -> set[str]:
    return {name for row in board.rows for name in (row.method, row.name)}


def _check_methods(shown: "Sequence[Board]", wanted: Sequence[str], baseline: str) -> None:
    methods = {row.method for board in shown for row in board.rows}
    known = set().union(*map(_names, shown))
    for name in wanted:
        if name not in known:
            raise unknown("finished run of the method", name, methods)
    if baseline not in known and baseline != "erm":  # without erm, tables say what to run
        raise unknown("finished run of the baseline", baseline, methods)


def _few_shot(
    shown: "Sequence[Board]", baseline: str, sort: str, wanted: Sequence[str]
) -> "list[Table]":
    from sdgbench.leaderboard.few_shot import few_shot_tables

    tables, problems = few_shot_tables(shown, baseline, sort, wanted)
    for error in problems[:MOST_SKIPPED]:
        click.echo(f"Skipped: {error}", err=True)
    if not tables:
        raise UserError("None of these runs was adapted. Do it: sdgbench adapt --help")
    return tables


def _views(shown: "Sequence[Board]") -> list[str]:
    return [view for view in VIEWS if any(view in board.views() for board in shown)]


def _print(tables: "Sequence[Table]", style: str, output: Path | None) -> None:
    from sdgbench.leaderboard import render

    if output is not None:
        from sdgbench import storage

        data = render(tables, style).encode()
        storage.write_atomic(output, lambda file: file.write(data))
        click.echo(f"Wrote {output}.", err=True)
    elif style == "table":
        from rich.console import Console

        from sdgbench.leaderboard import terminal

        terminal.show(Console(highlight=False), tables)
    else:
        click.echo(render(tables, style), nl=False)
