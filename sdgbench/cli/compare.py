"""``sdgbench compare``: tables of finished runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from sdgbench.api.tables import VIEW_NAMES, compare_tables, style_of
from sdgbench.cli import options
from sdgbench.errors import UserError
from sdgbench.leaderboard import FORMATS, Table, render
from sdgbench.leaderboard.formats import RULES, latex
from sdgbench.leaderboard.presentation import with_columns, with_deviations
from sdgbench.registry import BASELINE

EXAMPLES = """\b
Examples:
  sdgbench compare
  sdgbench compare --dataset cifar10c --view corruptions
  sdgbench compare --methods 'mada*,gud' --sort worst --format csv
  sdgbench compare --runs runs --runs elsewhere/runs --output table.tex
  sdgbench compare --dataset digits --preset paper --paper
  sdgbench compare --ablation mada
  sdgbench compare --format latex --columns usps,average --std
"""


@click.command("compare", epilog=EXAMPLES)
@click.option(
    "--dataset",
    "--datasets",
    default="",
    metavar="NAMES",
    help="Only these datasets.",
    shell_complete=options.completer("dataset"),
)
@click.option(
    "--methods",
    "--method",
    default="",
    metavar="NAMES",
    help="Only these methods; patterns such as 'mada*' are understood.",
    shell_complete=options.completer("method"),
)
@click.option("--preset", default="", metavar="NAME", help="Only this preset.")
@click.option(
    "--view",
    type=click.Choice(VIEW_NAMES),
    default="domains",
    show_default=True,
    metavar="NAME",
    help=f"What the columns are: {', '.join(VIEW_NAMES)}.",
)
@click.option(
    "--sort",
    default="",
    metavar="COLUMN",
    help="Sort by a column, best first, or by method; else by the ranked average.",
)
@click.option(
    "--baseline",
    default=BASELINE,
    show_default=True,
    metavar="NAME",
    help="The method that gains, mCE and RmCE refer to.",
)
@click.option(
    "--choice",
    type=click.Choice(["last", "val"]),
    default="last",
    show_default=True,
    help="Weights: the last iterate, or the best on held-out source.",
)
@click.option(
    "--ablation",
    "ablated",
    default="",
    metavar="METHOD",
    help="Only this method, its ablations (METHOD-...) and its runs with changed "
    "parameters, with gains over it and the paper's rows.",
    shell_complete=options.completer("method"),
)
@click.option("--paper", is_flag=True, help="Also show published numbers next to ours.")
@click.option(
    "--format",
    "style",
    type=click.Choice(list(FORMATS)),
    default=None,
    help="How to print; default: table, or the format of --output's suffix.",
)
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    default=None,
    type=click.Path(path_type=Path),
    help="Write to this file.",
)
@click.option(
    "--columns",
    default="",
    metavar="NAMES",
    help="Only these columns, in this order.",
)
@click.option(
    "--std",
    is_flag=True,
    help="Show the standard deviation over seeds after ±, not the 95% interval.",
)
@click.option(
    "--style",
    "rules",
    type=click.Choice(list(RULES)),
    default="booktabs",
    show_default=True,
    help="Rules of a LaTeX table.",
)
@click.option(
    "--notes",
    is_flag=True,
    help="Print notes below a LaTeX table; else they are comments in its source.",
)
@click.option(
    "--legend/--no-legend",
    default=True,
    show_default=True,
    help="On a terminal, say how to read the tables, once after the last one.",
)
@options.grouping
@options.several_runs
@options.plugins
def command(
    dataset: str,
    methods: str,
    preset: str,
    view: str,
    sort: str,
    baseline: str,
    choice: str,
    ablated: str,
    paper: bool,
    style: str | None,
    output: Path | None,
    columns: str,
    std: bool,
    rules: str,
    notes: bool,
    legend: bool,
    merge_versions: bool,
    strict: bool,
    without: str,
    runs: tuple[Path, ...],
) -> int:
    """Show finished runs: methods as rows, unseen domains as columns.

    Mean over seeds with the half-width of its 95% interval, in per cent, and the paired gain over
    ERM. Only runs on the same protocol (dataset version, content, recipe, preset, domains) share a
    table.
    """
    style = style or (style_of(output) if output else "table")
    choices = dict.fromkeys(("last", choice))
    selection = options.select(
        runs, dataset, preset, choices, view == "classes", merge_versions, strict, without
    )
    damaged: list[UserError] = []
    tables = compare_tables(
        selection.boards,
        view=view,
        methods=options.names_or_all(methods, "--methods"),
        sort=sort,
        baseline=baseline,
        choice=choice,
        ablated=ablated,
        paper=paper,
        tell=lambda text: click.echo(text, err=True),
        damaged=damaged,
    )
    if columns:
        tables = with_columns(tables, options.names(columns, "--columns"))
    if std:
        tables = with_deviations(tables)
    _print(tables, Printing(style, rules, notes, legend), output)
    return 1 if damaged else selection.exit_code


@dataclass(frozen=True)
class Printing:
    """How tables are printed."""

    style: str  # one of FORMATS
    rules: str  # of LaTeX
    notes: bool  # below LaTeX
    legend: bool  # on a terminal

    def text(self, tables: Sequence[Table]) -> str:
        """The tables as text."""
        if self.style == "latex":
            return latex(tables, self.rules, self.notes)
        return render(tables, self.style)


def _print(tables: Sequence[Table], printing: Printing, output: Path | None) -> None:
    if output is not None:
        from sdgbench import storage

        data = printing.text(tables).encode()
        storage.write_atomic(output, lambda file: file.write(data))
        click.echo(f"Wrote {output}.", err=True)
    elif printing.style == "table":
        from rich.console import Console

        from sdgbench.leaderboard import terminal

        terminal.show(Console(highlight=False), tables, printing.legend)
    else:
        click.echo(printing.text(tables), nl=False)
