"""The results of a matrix as a table, and the exit code of the command."""

import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sdgbench.errors import printable
from sdgbench.launch.attempt import Outcome, Result
from sdgbench.spec.run_spec import label_runs

STYLES = {
    "done": "green",
    "failed": "bold red",
    "failed before": "red",
    "refused": "red",
    "skipped": "yellow",
    "stopped": "yellow",
}


def conclude(results: Sequence[Result], console: Console, runs: Path) -> int:
    """Print a summary of the results and return the exit code."""
    if all(result.outcome == "refused" for result in results):
        for remark in dict.fromkeys(result.remark for result in results):
            if not console.quiet:
                print(f"Error: {printable(remark)}", file=sys.stderr)
    else:
        _summarise(results, console, runs)
    return exit_code({result.outcome for result in results})


def _summarise(results: Sequence[Result], console: Console, runs: Path) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    labels = label_runs([result.spec for result in results])
    table.add_column("run", overflow="fold")  # the only one that gives way
    table.add_column("outcome", no_wrap=True)
    for title in ("source", "unseen", "time"):
        table.add_column(title, justify="right", no_wrap=True)
    for result, label in zip(results, labels, strict=True):
        last = result.record.last if result.record else None
        source = last.source_val if last else None
        table.add_row(
            escape(label) + _where(result),
            f"[{STYLES.get(result.outcome, 'default')}]{result.outcome}[/]",
            f"{100 * source:.1f}" if source is not None else "",
            f"{100 * last.average:.1f}" if last else "",
            f"{result.seconds:.0f} s" if result.outcome == "done" else "",
        )
    console.print()
    console.print(table)
    for result, label in zip(results, labels, strict=True):
        if result.remark and result.outcome != "stopped":
            style = STYLES.get(result.outcome, "default")
            console.print(
                f"[{style}]{result.outcome}[/] {escape(label)}: {escape(printable(result.remark))}",
                soft_wrap=not console.is_terminal,
            )
    reduced = {r.record.flags.reduced_scale for r in results if r.record}
    for text in sorted(filter(None, reduced)):
        console.print(
            f"[yellow]reduced scale[/]: {escape(printable(text))}",
            soft_wrap=not console.is_terminal,
        )
    if any(result.record for result in results):
        console.print(
            f"source, unseen: per cent on held-out source and on the mean unseen domain, "
            f"last iterate. All domains: sdgbench compare --runs {escape(str(runs))}",
            style="dim",
            soft_wrap=not console.is_terminal,
        )
    if any(result.outcome in ("stopped", "not started") for result in results):
        console.print("Stopped and saved. Run the same command again to go on.", style="bold")


def _where(result: Result) -> str:
    """Where a run was stopped, on a line below its name."""
    if result.outcome != "stopped" or not result.remark:
        return ""
    return f"\n  [dim]{escape(printable(result.remark))}[/]"


def exit_code(outcomes: Collection[Outcome]) -> int:
    """The exit code: 1 if a run failed, 2 if one was refused, 130 after a stop, else 0."""
    if "failed" in outcomes or "failed before" in outcomes:
        return 1
    if "refused" in outcomes:
        return 2
    return 130 if {"stopped", "not started"} & set(outcomes) else 0
