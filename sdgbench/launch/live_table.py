"""Shows the progress of a matrix of runs: one line per run and one for all of them.

In a terminal the lines are drawn again and again; elsewhere they are printed one after another.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sdgbench.errors import printable
from sdgbench.launch.attempt import Outcome, Result
from sdgbench.launch.progress import LineReporter, StageTracker, clock, percent
from sdgbench.launch.stop_signal import STOPPING, print_stopping
from sdgbench.reporter import Reporter
from sdgbench.spec.run_spec import RunSpec

FRAMES_PER_SECOND = 4
COUNTED_AS: dict[Outcome, str] = {
    "finished before": "done",
    "failed before": "failed",
    "refused": "failed",
    "not started": "waiting",
}


class Row(StageTracker):
    """The row of a run in the live table."""

    def __init__(self, console: Console, title: str, position: int, spec: RunSpec) -> None:
        super().__init__()
        self.console, self.title, self.position, self.spec = console, title, position, spec

    def note(self, text: str) -> None:
        """Print a message above the table."""
        text = printable(f"{self.title}: {text}")
        with suppress(OSError):  # a closed terminal must not end the runs
            self.console.print(text, markup=False, highlight=False)


class LiveTable:
    """The progress of all running runs, the number of runs in each state, and the time left."""

    def __init__(self, console: Console, specs: Sequence[RunSpec]) -> None:
        self.console, self.specs, self.total = console, specs, len(specs)
        self.rows: dict[int, Row | LineReporter] = {}  # by position, from 1
        self.ended: Counter[str] = Counter()
        self.stopping = False
        self._over: set[int] = set()  # positions of runs that need no more time
        self._durations: dict[tuple[str, str], list[float]] = {}  # by method and dataset
        self._began: dict[int, float] = {}  # by position
        self.began = time.monotonic()
        self.live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=FRAMES_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def show_stopping(self) -> None:
        """Say that the runs are being saved: in a terminal with the next frame, else at once."""
        self.stopping = True
        if not self.live.is_started:
            print_stopping()

    @contextmanager
    def reporting(self, position: int, spec: RunSpec) -> Iterator[Reporter]:
        """Show a run that this process executes."""
        yield self.start_run(position, spec)

    def start_run(self, position: int, spec: RunSpec) -> Row | LineReporter:
        """Add a run that is started, also for another time, and return its reporter."""
        title = f"[{position}/{self.total}] {spec.label}"
        self._began.setdefault(position, time.monotonic())
        self.rows[position] = (
            Row(self.console, title, position, spec)
            if self.live.is_started
            else LineReporter(self.console, title)
        )
        return self.rows[position]

    def end_run(self, position: int, result: Result) -> None:
        """Remove a run that ended and count its outcome."""
        row = self.rows.pop(position, None)
        self.ended[COUNTED_AS.get(result.outcome, result.outcome)] += 1
        self._over.add(position)
        if row and result.outcome == "done":
            seconds = time.monotonic() - self._began[position]
            key = (result.spec.method, result.spec.dataset)
            self._durations.setdefault(key, []).append(seconds)
        if isinstance(row, LineReporter) and self.total > 1:
            left = self.seconds_left() if self.rows or len(self._over) < self.total else None
            about = f", about {clock(left)} left" if left else ""
            row.note(f"{result.outcome}. {self.counts()}{about}")

    def counts(self) -> str:
        """The number of runs in each state, in words."""
        running = len(self.rows)
        waiting = self.total - running - self.ended.total() + self.ended["waiting"]
        by_state = {
            "done": self.ended["done"],
            "failed": self.ended["failed"],
            "skipped": self.ended["skipped"],
            "stopped": self.ended["stopped"],
            "running": running,
            "waiting": waiting,
        }
        parts = [f"{count} {state}" for state, count in by_state.items() if count]
        return f"{self.total} run{'s'[: self.total != 1]}: {', '.join(parts)}"

    def seconds_left(self) -> float | None:
        """Seconds to the end of all runs, if as many run at a time as now; None: not known yet.

        A run that waits is expected to take as long as those of its method and dataset did, or
        else as all others.
        """
        rows = dict(self.rows)
        now = time.monotonic()
        left = {position: row.whole.seconds_left() for position, row in rows.items()}
        expected = {
            position: now - self._began[position] + seconds
            for position, seconds in left.items()
            if seconds is not None
        }
        known = [second for seconds in self._durations.values() for second in seconds]
        usual = _mean(known) or _mean(list(expected.values()))
        if usual is None:
            return None
        total = 0.0
        for position, spec in enumerate(self.specs, 1):
            if position in rows:
                passed = now - self._began[position]
                seconds = left[position]
                total += max(0.0, usual - passed) if seconds is None else seconds
            elif position not in self._over:
                same = self._durations.get((spec.method, spec.dataset), [])
                total += _mean(same) or usual
        return total / max(1, len(rows))

    def render(self) -> Group:
        """The table and the line for all runs, no higher than the screen."""
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column("", justify="right", no_wrap=True)
        table.add_column("run", no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_column("phase", no_wrap=True)
        for title in ("done", "loss", "img/s", "left"):
            table.add_column(title, justify="right", no_wrap=True)
        rows = [row for _, row in sorted(dict(self.rows).items()) if isinstance(row, Row)]
        shown = max(1, self.console.height - 6)
        for row in rows[:shown]:
            stage, spec = row.stage, row.spec
            share, left = row.whole.share(), row.whole.seconds_left()
            steps = f"{stage.done}/{stage.total}" if stage.total else ""
            table.add_row(
                str(row.position),
                escape(spec.short_label),
                escape(f"{stage.label[:9]} {row.whole.position()}".strip()),
                steps if share is None else percent(share),
                f"{stage.loss:.3f}" if stage.loss is not None else "",
                f"{stage.rate:.0f}" if stage.rate else "",
                "" if left is None else clock(left),
            )
        lines = [Text(f"and {len(rows) - shown} more")] if len(rows) > shown else []
        lines.append(Text(self._summary(), style="dim"))
        if self.stopping:
            lines.append(Text(STOPPING, style="bold yellow"))
        return Group(table, *lines)

    def _summary(self) -> str:
        passed, left = time.monotonic() - self.began, self.seconds_left()
        parts = [self.counts(), f"{clock(passed)} so far"]
        if left is not None:
            parts.append(f"about {clock(left)} left ({percent(passed / (passed + left or 1))})")
        return "; ".join(parts)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
