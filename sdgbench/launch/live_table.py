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
from rich.text import Text

from sdgbench.errors import printable
from sdgbench.launch.attempt import Outcome, Result
from sdgbench.launch.progress import LineReporter, StageTracker, clock, percent
from sdgbench.launch.stop_signal import STOPPING, print_stopping
from sdgbench.reporter import Reporter
from sdgbench.spec.run_spec import RunSpec, label_runs, label_runs_briefly

FRAMES_PER_SECOND = 4
GAP = 2  # blanks between the columns of the table
NAME, PHASE = 1, 2  # the columns of words
COUNTED_AS: dict[Outcome, str] = {
    "finished before": "done",
    "failed before": "failed",
    "refused": "failed",
    "not started": "waiting",
}


class Row(StageTracker):
    """The row of a run in the live table."""

    def __init__(self, console: Console, title: str, position: int, brief: str) -> None:
        super().__init__()
        self.console, self.title, self.position, self.brief = console, title, position, brief

    def note(self, text: str) -> None:
        """Print a message above the table."""
        text = printable(f"{self.title}: {text}")
        with suppress(OSError):  # a closed terminal must not end the runs
            self.console.print(text, markup=False, highlight=False)


class LiveTable:
    """The progress of all running runs, the number of runs in each state, and the time left."""

    def __init__(self, console: Console, specs: Sequence[RunSpec]) -> None:
        self.console, self.specs, self.total = console, specs, len(specs)
        self.labels, self.brief_labels = label_runs(specs), label_runs_briefly(specs)
        self.rows: dict[int, Row | LineReporter] = {}  # by position, from 1
        self.ended: Counter[str] = Counter()
        self.stopping = False
        self._over: set[int] = set()  # positions of runs that need no more time
        self._unfinished: set[int] = set()  # those of them that were stopped
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
    def reporting(self, position: int) -> Iterator[Reporter]:
        """Show a run that this process executes."""
        yield self.start_run(position)

    def start_run(self, position: int) -> Row | LineReporter:
        """Add a run that is started, also for another time, and return its reporter."""
        title = f"[{position}/{self.total}] {self.labels[position - 1]}"
        self._began.setdefault(position, time.monotonic())
        self.rows[position] = (
            Row(self.console, title, position, self.brief_labels[position - 1])
            if self.live.is_started
            else LineReporter(self.console, title)
        )
        return self.rows[position]

    def end_run(self, position: int, result: Result) -> None:
        """Remove a run that ended and count its outcome."""
        row = self.rows.pop(position, None)
        self.ended[COUNTED_AS.get(result.outcome, result.outcome)] += 1
        self._over.add(position)
        if result.outcome in ("stopped", "not started"):
            self._unfinished.add(position)
        if row and result.outcome == "done":
            seconds = time.monotonic() - self._began[position]
            key = (result.spec.method, result.spec.dataset)
            self._durations.setdefault(key, []).append(seconds)
        if isinstance(row, LineReporter) and self.total > 1:
            left = self.seconds_left() if self.rows or len(self._over) < self.total else None
            about = f", about {clock(left)} left" if left else ""
            row.note(f"{result.outcome}. {self.counts()}; {percent(self.share())} done{about}")

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
        usual = self._usual_seconds()
        if usual is None:
            return None
        total = 0.0
        for position, spec in enumerate(self.specs, 1):
            if position in rows:
                passed = now - self._began[position]
                seconds = rows[position].whole.seconds_left()
                total += max(0.0, usual - passed) if seconds is None else seconds
            elif position not in self._over:
                total += self._expected_seconds(spec) or usual
        return total / max(1, len(rows))

    def _expected_seconds(self, spec: RunSpec) -> float | None:
        """The mean time of the finished runs of a method and dataset, or else of the active ones.

        None if there are neither.
        """
        key = (spec.method, spec.dataset)
        return _mean(self._durations.get(key) or self._projected().get(key, []))

    def _usual_seconds(self) -> float | None:
        """The mean time of all finished runs, or else what the active ones will take."""
        known = self._durations or self._projected()
        return _mean([second for seconds in list(known.values()) for second in seconds])

    def _projected(self) -> dict[tuple[str, str], list[float]]:
        """What the active runs will have taken at their end, by method and dataset."""
        projected: dict[tuple[str, str], list[float]] = {}
        for position, row in dict(self.rows).items():
            if (left := row.whole.seconds_left()) is not None:
                spec = self.specs[position - 1]
                seconds = time.monotonic() - self._began[position] + left
                projected.setdefault((spec.method, spec.dataset), []).append(seconds)
        return projected

    def share(self) -> float:
        """The share of all runs that is done, by their expected time; at first each counts alike.

        What needs no run, such as a finished one, counts as done.
        """
        usual = self._usual_seconds() or 1.0
        whole = done = 0.0
        rows = dict(self.rows)
        for position, spec in enumerate(self.specs, 1):
            weight = self._expected_seconds(spec) or usual
            whole += weight
            if position in self._over - self._unfinished:
                done += weight
            elif position in rows:
                done += weight * (rows[position].whole.share() or 0.0)
        return done / whole if whole else 1.0

    def waiting(self) -> list[int]:
        """The positions of the runs that have not begun."""
        rows = dict(self.rows)
        return [n for n in range(1, self.total + 1) if n not in rows and n not in self._over]

    def render(self) -> Group:
        """The table and the line for all runs, no higher than the screen."""
        rows = [row for _, row in sorted(dict(self.rows).items()) if isinstance(row, Row)]
        shown = max(1, self.console.height - 6)
        titles = ("", "run", "phase", "done", "loss", "img/s", "left")
        cells = [titles, *(_cells(row) for row in rows[:shown])]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        # Only the names of the runs give way: the other columns are useless when cut.
        others = sum(widths) - widths[NAME] + GAP * (len(widths) - 1)
        widths[NAME] = max(1, min(widths[NAME], self.console.width - others))
        table = [
            Text(_line(line, widths), style="" if index else "bold", no_wrap=True)
            for index, line in enumerate(cells)
        ]
        lines = [Text(f"and {len(rows) - shown} more")] if len(rows) > shown else []
        summary = self.summary()
        parts = [summary] if len(summary) <= self.console.width else summary.split("; ")
        lines += [Text(part, style="dim") for part in parts]
        if self.stopping:
            lines.append(Text(STOPPING, style="bold yellow"))
        return Group(*table, *lines)

    def summary(self) -> str:
        """The state of all runs, the share that is done and the time left, in words."""
        times = f"{percent(self.share())} done in {clock(time.monotonic() - self.began)}"
        if not self.stopping and (left := self.seconds_left()) is not None:
            times += f", about {clock(left)} left"
        return f"{self.counts()}; {times}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """A line of the table: names and phases on the left of their columns, numbers on the right."""
    parts = []
    for index, (text, width) in enumerate(zip(cells, widths, strict=True)):
        if len(text) > width:
            text = text[: width - 1] + "…"
        parts.append(text.ljust(width) if index in (NAME, PHASE) else text.rjust(width))
    return (" " * GAP).join(parts).rstrip()


def _cells(row: Row) -> list[str]:
    stage, share, left = row.stage, row.whole.share(), row.whole.seconds_left()
    steps = f"{stage.done}/{stage.total}" if stage.total else ""
    return [
        str(row.position),
        row.brief,
        f"{stage.label[:9]} {row.whole.position()}".strip(),
        steps if share is None else percent(share),
        f"{stage.loss:.3f}" if stage.loss is not None else "",
        f"{stage.rate:.0f}" if stage.rate else "",
        "" if left is None else clock(left),
    ]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
