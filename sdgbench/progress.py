"""What a person sees of a run: bars in a terminal, plain lines elsewhere."""

import time
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class Reporter(Protocol):
    """What the trainer and the evaluator tell."""

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """A stretch of work starts (or goes on at ``done``)."""

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """So far ``done``; the loss of late and images per second."""

    def end(self) -> None:
        """The stretch is over."""

    def note(self, text: str) -> None:
        """Something worth a line of its own."""


class Silent:
    """Says nothing."""

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Nothing."""

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


class Lines:
    """A line at the start and end of each stretch and every ``interval`` seconds between."""

    def __init__(self, console: Console, title: str, interval: float = 15.0) -> None:
        self.console, self.title, self.interval = console, title, interval
        self.label, self.total = "", 0
        self.last: tuple[int, float | None, float] = (0, None, 0.0)
        self.said = self.started = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Remember the stretch; its first line comes with the first news."""
        self.label, self.total = label, total
        self.said = self.started = time.monotonic()
        self.last = (done, None, 0.0)

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """Print if the last line is old enough."""
        self.last = (done, loss, rate)
        if time.monotonic() - self.said >= self.interval:
            self.said = time.monotonic()
            self._print()

    def end(self) -> None:
        """Print the final state."""
        self._print(f" in {time.monotonic() - self.started:.1f} s")

    def note(self, text: str) -> None:
        """Print a line."""
        self.console.print(f"{self.title}: {text}", markup=False, highlight=False, soft_wrap=True)

    def _print(self, after: str = "") -> None:
        done, loss, rate = self.last
        parts = [f"{self.label} {done}/{self.total}"]
        if loss is not None:
            parts.append(f"loss {loss:.4f}")
        if rate:
            parts.append(f"{rate:.0f} images/s")
        self.note(", ".join(parts) + after)


class Bars:
    """One bar per phase, with loss, images per second and the time left."""

    def __init__(self, console: Console, title: str) -> None:
        self.title = title
        self.bars = Progress(
            TextColumn("  {task.description:<9.24}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:>6.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[news]:<24}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=console,
            expand=True,
        )
        self.task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def _start(self) -> None:
        if not self.bars.live.is_started:  # with the first news: no title for nothing
            self.bars.start()
            self.bars.console.print(self.title, style="bold", markup=False, highlight=False)

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Add a bar."""
        self._start()
        self.task = self.bars.add_task(label, total=total, completed=done, news="")

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """Move the bar."""
        if self.task is not None:
            told = f"loss {loss:.3f} " if loss is not None else ""
            news = f"{told}{rate:.0f} img/s" if rate else told
            self.bars.update(self.task, completed=done, news=news)

    def end(self) -> None:
        """Leave the bar as it is: finished."""
        self.task = None

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self._start()
        self.bars.console.print(f"  {text}", markup=False, highlight=False)


def reporter(console: Console, title: str) -> Bars | Lines:
    """Bars where they can be drawn."""
    return Bars(console, title) if console.is_terminal else Lines(console, title)
