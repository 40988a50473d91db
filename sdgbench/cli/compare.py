"""``sdgbench compare``: tables of finished runs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sdgbench.cli import options
from sdgbench.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from sdgbench.leaderboard import Board


@click.command(
    "compare", epilog="Example: sdgbench compare --runs runs --dataset digits-mini --format csv"
)
@click.option("--dataset", default="", metavar="NAMES", help="Only these datasets.")
@click.option("--method", default="", metavar="NAMES", help="Only these methods.")
@click.option("--preset", default="", metavar="NAME", help="Only this preset.")
@click.option("--choice", type=click.Choice(["last", "val"]), default="last", show_default=True,
              help="Weights: the last iterate, or the best on held-out source.")  # fmt: skip
@click.option("--format", "style", type=click.Choice(["table", "md", "csv", "json"]),
              default="table", show_default=True, help="How to print.")  # fmt: skip
@options.runs
def command(dataset: str, method: str, preset: str, choice: str, style: str, runs: Path) -> None:
    """Show finished runs: methods as rows, unseen domains as columns.

    Mean over seeds with the half-width of its 95% interval, in per cent. Only runs on the same
    ground (dataset version, content, recipe, preset, domains) share a table.
    """
    from rich.console import Console

    from sdgbench.leaderboard import boards
    from sdgbench.record import Store

    wanted = {
        "dataset": options.names(dataset, "--dataset") if dataset else None,
        "method": options.names(method, "--method") if method else None,
        "preset": [preset] if preset else None,
    }
    records, unreadable = [], []
    for found in Store(runs).records():
        if isinstance(found, UserError):
            unreadable.append(found)
        elif all(not names or found["spec"][key] in names for key, names in wanted.items()):
            records.append(found)
    if not records and unreadable:
        raise unreadable[0]
    for error in unreadable:
        click.echo(f"Skipped: {error}", err=True)
    if not records:
        raise UserError(
            f"No finished runs match in {runs}. Make one: sdgbench run --method erm "
            "--dataset digits-mini --preset quick"
        )
    found_boards = boards(records)
    if style == "table":
        console = Console(highlight=False)
        for board in found_boards:
            _print(console, board, choice)
    elif style == "md":
        click.echo("\n".join(_markdown(board, choice) for board in found_boards), nl=False)
    else:
        import pandas as pd

        frame = pd.concat([board.frame(choice) for board in found_boards])
        as_csv = frame.to_csv(index=False, lineterminator="\n")
        click.echo(
            as_csv if style == "csv" else frame.to_json(orient="records", indent=2), nl=False
        )


def _markdown(board: "Board", choice: str) -> str:
    lines = board.lines(choice)
    columns = list(lines[0].cells)
    text = [f"**{board.title}**", "", f"| method | n | {' | '.join(columns)} |"]
    text.append("|---" + "|--:" * (len(columns) + 1) + "|")
    for line in lines:
        cells = (str(line.cells[name]) for name in columns)
        text.append(f"| {line.method} | {line.n} | {' | '.join(cells)} |")
    if board.reduced:
        text += ["", f"Reduced scale: {board.reduced}."]
    text += [line for warning in board.all_warnings() for line in ("", f"{warning}.")]
    return "\n".join(text) + "\n"


def _print(console: "Console", board: "Board", choice: str) -> None:
    from rich.markup import escape
    from rich.table import Table

    lines = board.lines(choice)
    columns = ["n", *lines[0].cells]
    rows = [[line.method, str(line.n), *map(str, line.cells.values())] for line in lines]
    header = ["method", *columns]
    width = sum(max(len(cell) for cell in column) + 2 for column in zip(header, *rows, strict=True))
    if width > console.width and len(rows) < len(columns):
        # Too many domains for the terminal: stand the table on its side, methods as columns.
        header, *rows = [list(column) for column in zip(header, *rows, strict=True)]
        header[0] = ""
    console.print(board.title, style="bold", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for position, name in enumerate(header):
        table.add_column(escape(name), justify="right" if position else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    console.print(table)
    if board.reduced:
        console.print(f"[yellow]reduced scale[/]: {escape(board.reduced)}", soft_wrap=True)
    for warning in board.all_warnings():
        console.print(warning, style="yellow", markup=False, soft_wrap=True)
    weights = "last iterate" if choice == "last" else "best on held-out source"
    console.print(f"{weights}; source: held-out source; average and worst over "
                  f"{len(board.domains)} unseen domains; ±: 95% interval over n seeds\n",
                  style="dim", soft_wrap=True)  # fmt: skip
