"""``sdgbench status``: how far all runs are."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from sdgbench.cli import options

STYLES = {"running": "cyan", "failed": "bold red", "pending": "blue", "interrupted": "yellow",
          "done": "green"}  # fmt: skip


@click.command(
    "status",
    epilog="""\b
Examples:
  sdgbench status                      what runs, failed, waits or stopped in ./runs
  sdgbench status --runs /shared/runs  on any machine that sees the folder
  watch sdgbench status                again and again""",
)
@click.option("--all", "everything", is_flag=True, help="Name the finished runs one by one.")
@click.option("--json", "as_json", is_flag=True, help="Print all runs as JSON.")
@options.runs
def command(everything: bool, as_json: bool, runs: Path) -> None:
    """Tell how far all runs are: running, failed, pending, interrupted, done.

    Reads the runs folder alone, so it works on every machine that sees it.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from sdgbench.launch.status import counts, standings

    found = standings(runs)
    counted = counts(found)
    if as_json:
        listed = [asdict(one) for one in found]
        click.echo(json.dumps({"counts": counted, "runs": listed}, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    if not found:
        why = "is empty" if runs.exists() else "does not exist"
        console.print(f"No runs: the folder {escape(str(runs))} {why}. "
                      "Make some: sdgbench run --help", soft_wrap=True)  # fmt: skip
        return
    parts = [f"[{STYLES[state]}]{count} {state}[/]" for state, count in counted.items() if count]
    console.print(f"{len(found)} run{'s'[: len(found) > 1]}: {', '.join(parts)}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("state", no_wrap=True)
    table.add_column("run", overflow="fold")
    table.add_column("", overflow="fold")
    done: Counter[str] = Counter()
    for one in found:
        if one.state == "done" and not everything:
            done[f"{one.method} on {one.dataset}"] += 1
        else:
            table.add_row(f"[{STYLES[one.state]}]{one.state}[/]", escape(one.label),
                          escape(one.detail))  # fmt: skip
    for name, count in sorted(done.items()):
        table.add_row(f"[{STYLES['done']}]done[/]", escape(name),
                      f"{count} run{'s'[: count > 1]}")  # fmt: skip
    console.print(table)
    if counted["interrupted"]:
        console.print("Interrupted runs go on with the command that started them.", style="dim")
    if counted["failed"]:
        console.print("Failed runs run again with that command and --retry.", style="dim")
