"""``sdgbench status``: the state and progress of all runs."""

import json
import socket
from collections import Counter
from pathlib import Path

import click

from sdgbench.cli import options
from sdgbench.errors import UserError

STYLES = {
    "running": "cyan",
    "failed": "bold red",
    "pending": "blue",
    "interrupted": "yellow",
    "done": "green",
}


@click.command(
    "status",
    epilog="""\b
Examples:
  sdgbench status                      the runs of ./runs
  sdgbench status --runs /shared/runs  on any machine that sees the folder
  watch sdgbench status                repeated every two seconds""",
)
@click.option("--all", "everything", is_flag=True, help="List the finished runs one by one.")
@click.option("--json", "as_json", is_flag=True, help="Print all runs as JSON.")
@options.runs
def command(everything: bool, as_json: bool, runs: Path) -> int:
    """Show the state and progress of all runs: running, failed, pending, interrupted, done.

    Reads the runs folder alone, so it works on every machine that sees it. Exit code 1 when a
    file there is damaged; it is named, and the rest is shown.
    """
    import msgspec
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from sdgbench.launch.columns import two_widths
    from sdgbench.launch.matrix_file import matrices
    from sdgbench.launch.status import counts, run_statuses
    from sdgbench.leaderboard.selection import skipped

    damaged: list[UserError] = []
    statuses, under_way = run_statuses(runs, problems=damaged), matrices(runs)
    for line in skipped(damaged):
        click.echo(line, err=True)
    code = 1 if damaged else 0
    counted = counts(statuses)
    if as_json:
        content = msgspec.to_builtins({"counts": counted, "matrices": under_way, "runs": statuses})
        click.echo(json.dumps(content, indent=2, ensure_ascii=False))
        return code
    console = Console(highlight=False)
    if not statuses and not under_way:
        state = "is empty" if runs.exists() else "does not exist"
        console.print(
            f"No runs: the folder {escape(str(runs))} {state}. Make some: sdgbench run --help",
            soft_wrap=True,
        )
        return code
    parts = [f"[{STYLES[state]}]{count} {state}[/]" for state, count in counted.items() if count]
    console.print(f"{len(statuses)} run{'s'[: len(statuses) > 1]}: {', '.join(parts)}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("state", no_wrap=True)
    labels, details = [status.label for status in statuses], [s.detail for s in statuses]
    widths = two_widths(console.width - max(map(len, STYLES)) - 4, labels, details)
    table.add_column("run", overflow="fold", max_width=widths[0])
    table.add_column("", overflow="fold", max_width=widths[1])
    done: Counter[str] = Counter()
    for status in statuses:
        if status.state == "done" and not everything:
            done[f"{status.method} on {status.dataset}"] += 1
        else:
            state = f"[{STYLES[status.state]}]{status.state}[/]"
            table.add_row(state, escape(status.label), escape(status.detail))
    for name, count in sorted(done.items()):
        table.add_row(f"[{STYLES['done']}]done[/]", escape(name), f"{count} run{'s'[: count > 1]}")
    console.print(table)
    for matrix in under_way:
        where = f" on {matrix.host}" if matrix.host != socket.gethostname() else ""
        console.print(f"Matrix of process {matrix.pid}{where}: {matrix.summary}", markup=False)
    if counted["interrupted"]:
        console.print(
            "To resume interrupted runs, repeat the command that started them.", style="dim"
        )
    if counted["failed"]:
        console.print(
            "Failed runs are tried again with --retry, or once their method's file was edited.",
            style="dim",
        )
    return code
