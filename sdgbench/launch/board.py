"""What a person sees of a matrix in several processes: a live table in a terminal, else lines."""

import time
from collections import Counter
from datetime import timedelta
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sdgbench.launch.one import Outcome, Result
from sdgbench.progress import Following, Lines
from sdgbench.spec import RunSpec

INTERVAL = 0.25  # seconds between two pictures
WORDS: dict[Outcome, str] = {
    "finished before": "done", "failed before": "failed", "refused": "failed",
    "not started": "waiting",
}  # fmt: skip


class Row(Following):
    """A run's line in the live table."""

    def __init__(self, console: Console, title: str, position: int, spec: RunSpec) -> None:
        super().__init__()
        self.console, self.title, self.position, self.spec = console, title, position, spec

    def note(self, text: str) -> None:
        """Print a line above the table."""
        self.console.print(f"{self.title}: {text}", markup=False, highlight=False, soft_wrap=True)


class Board:
    """All runs of a matrix: how many there are of each kind, and how far those under way are."""

    def __init__(self, console: Console, total: int) -> None:
        self.console, self.total = console, total
        self.rows: dict[int, Row | Lines] = {}
        self.ended: Counter[str] = Counter()
        self.began = self.drawn = time.monotonic()
        self.live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def open(self, position: int, spec: RunSpec) -> Row | Lines:
        """A run begins, or begins again; returns who is to be told of it."""
        title = f"[{position}/{self.total}] {spec.label}"
        self.rows[position] = (
            Row(self.console, title, position, spec)
            if self.live.is_started
            else Lines(self.console, title)
        )
        return self.rows[position]

    def close(self, position: int, result: Result) -> None:
        """A run came to its end."""
        row = self.rows.pop(position, None)
        self.ended[WORDS.get(result.outcome, result.outcome)] += 1
        if isinstance(row, Lines):
            row.note(f"{result.outcome}. {self.counts()}")

    def counts(self) -> str:
        """How many runs there are of each kind."""
        running = len(self.rows)
        waiting = self.total - running - self.ended.total() + self.ended["waiting"]
        found = {
            "done": self.ended["done"], "failed": self.ended["failed"],
            "skipped": self.ended["skipped"], "stopped": self.ended["stopped"],
            "running": running, "waiting": waiting,
        }  # fmt: skip
        parts = [f"{count} {word}" for word, count in found.items() if count]
        return f"{self.total} runs: {', '.join(parts)}"

    def refresh(self) -> None:
        """Draw again, if the last picture is old enough."""
        if self.live.is_started and time.monotonic() - self.drawn >= INTERVAL:
            self.drawn = time.monotonic()
            self.live.update(self.picture(), refresh=True)

    def picture(self) -> Group:
        """The table, no higher than the screen."""
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column("", justify="right", no_wrap=True)
        table.add_column("run", no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_column("phase", no_wrap=True)
        for title in ("done", "loss", "img/s", "left"):
            table.add_column(title, justify="right", no_wrap=True)
        rows = [row for _, row in sorted(self.rows.items()) if isinstance(row, Row)]
        room = max(1, self.console.height - 4)
        for row in rows[:room]:
            at, spec, left = row.at, row.spec, row.at.seconds_left()
            table.add_row(
                str(row.position),
                escape(f"{spec.method} {spec.dataset} {spec.seed}"),
                escape(at.label[:9]),
                f"{at.done}/{at.total}" if at.total else "",
                f"{at.loss:.3f}" if at.loss is not None else "",
                f"{at.rate:.0f}" if at.rate else "",
                str(timedelta(seconds=round(left))) if left is not None else "",
            )
        hidden = [Text(f"and {len(rows) - room} more")] if len(rows) > room else []
        since = timedelta(seconds=round(time.monotonic() - self.began))
        return Group(table, *hidden, Text(f"{self.counts()}; {since}", style="dim"))
