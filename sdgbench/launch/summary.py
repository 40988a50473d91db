"""What a matrix came to, as a table and an exit code."""

import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sdgbench.launch.one import Outcome, Result

STYLES = {"done": "green", "failed": "bold red", "failed before": "red", "refused": "red",
          "skipped": "yellow", "stopped": "yellow"}  # fmt: skip


def conclude(results: Sequence[Result], console: Console, runs: Path) -> int:
    """Print a summary and return the exit code."""
    if all(result.outcome == "refused" for result in results):
        for remark in dict.fromkeys(result.remark for result in results):
            print(f"Error: {remark}", file=sys.stderr)
    else:
        _summarise(results, console, runs)
    return exit_code({result.outcome for result in results})


def _summarise(results: Sequence[Result], console: Console, runs: Path) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("run", overflow="fold")
    table.add_column("outcome", no_wrap=True)
    for title in ("source", "unseen", "time"):
        table.add_column(title, justify="right", no_wrap=True)
    for result in results:
        best = result.record["results"]["last"] if result.record else {}
        source = best.get("source_val")
        table.add_row(
            escape(result.spec.label),
            f"[{STYLES.get(result.outcome, 'default')}]{result.outcome}[/]",
            f"{100 * source:.1f}" if source is not None else "",
            f"{100 * best['average']:.1f}" if best else "",
            f"{result.seconds:.0f} s" if result.outcome == "done" else "",
        )
    console.print()
    console.print(table)
    for result in results:
        if result.remark:
            style = STYLES.get(result.outcome, "default")
            console.print(f"[{style}]{result.outcome}[/] {escape(result.spec.label)}: "
                          f"{escape(result.remark)}", soft_wrap=True)  # fmt: skip
    reduced = {r.record["flags"]["reduced_scale"] for r in results if r.record} - {None}
    for text in sorted(reduced):
        console.print(f"[yellow]reduced scale[/]: {escape(text)}", soft_wrap=True)
    if any(result.record for result in results):
        console.print(f"source, unseen: per cent on held-out source and on the mean unseen domain, "
                      f"last iterate. All domains: sdgbench compare --runs {escape(str(runs))}",
                      style="dim", soft_wrap=True)  # fmt: skip
    if any(result.outcome in ("stopped", "not started") for result in results):
        console.print("Stopped and saved. Run the same command again to go on.", style="bold")


def exit_code(outcomes: Collection[Outcome]) -> int:
    """What the shell is told."""
    if "failed" in outcomes or "failed before" in outcomes:
        return 1
    if "refused" in outcomes:
        return 2
    return 130 if {"stopped", "not started"} & set(outcomes) else 0
