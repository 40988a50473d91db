"""What a person sees of a run: bars in a terminal, plain lines elsewhere, a file from afar."""

import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from sdgbench import record, storage
from sdgbench.errors import UserError

PROGRESS_FILE = "progress.json"  # in a run's folder while it runs, and after a stop


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


@dataclass
class Stretch:
    """A stretch of work and how far it is."""

    label: str = "starting"
    total: int = 0
    done: int = 0
    loss: float | None = None
    rate: float = 0.0
    first: int = 0  # done before it began
    began: float = field(default_factory=lambda: time.monotonic())

    def seconds_left(self) -> float | None:
        """Seconds to the end of the stretch at its mean pace so far, if it has one."""
        if self.done <= self.first:
            return None
        pace = (time.monotonic() - self.began) / (self.done - self.first)
        return pace * (self.total - self.done)


def tell(label: str, done: int, total: int, loss: float | None, rate: float) -> str:
    """Say in words how far a stretch is."""
    parts = [f"{label} {done}/{total}" if total else label]
    if loss is not None:
        parts.append(f"loss {loss:.4f}")
    if rate:
        parts.append(f"{rate:.0f} images/s")
    return ", ".join(parts)


class Following(Silent):
    """Knows the stretch that is under way."""

    def __init__(self) -> None:
        self.at = Stretch()

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Another stretch."""
        self.at = Stretch(label, total, done, first=done)

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """Further on."""
        self.at.done, self.at.loss, self.at.rate = done, loss, rate


class Lines(Following):
    """A line at the end of each stretch and every ``interval`` seconds before."""

    def __init__(self, console: Console, title: str, interval: float = 15.0) -> None:
        super().__init__()
        self.console, self.title, self.interval = console, title, interval
        self.said = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Remember the stretch; its first line comes with the first news."""
        super().begin(label, total, done)
        self.said = self.at.began

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """Print if the last line is old enough."""
        super().update(done, loss, rate)
        if time.monotonic() - self.said >= self.interval:
            self.said = time.monotonic()
            self.note(self._text())

    def end(self) -> None:
        """Print the final state."""
        self.note(f"{self._text()} in {time.monotonic() - self.at.began:.1f} s")

    def note(self, text: str) -> None:
        """Print a line."""
        self.console.print(f"{self.title}: {text}", markup=False, highlight=False, soft_wrap=True)

    def _text(self) -> str:
        return tell(self.at.label, self.at.done, self.at.total, self.at.loss, self.at.rate)


class Filed(Following):
    """Passes all news on and keeps the latest in a file, for whoever looks at the folder alone.

    A thread writes the file, so that training waits for no disk, and now and then also without
    news, so that others can tell a long step from a dead machine.
    """

    def __init__(
        self, folder: Path, reporter: Reporter, every: float = 2.0, heartbeat: float = 30.0
    ) -> None:
        super().__init__()
        self.path, self.reporter = folder / PROGRESS_FILE, reporter
        self.every, self.heartbeat = every, heartbeat
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Self:
        self._write()
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if error is None:
            self.path.unlink(missing_ok=True)
        else:
            self._write(stopped=str(error) or type(error).__name__)

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Another stretch."""
        super().begin(label, total, done)
        self.reporter.begin(label, total, done)

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """Further on."""
        super().update(done, loss, rate)
        self.reporter.update(done, loss, rate)

    def end(self) -> None:
        """Pass it on."""
        self.reporter.end()

    def note(self, text: str) -> None:
        """Pass it on."""
        self.reporter.note(text)

    def _keep(self) -> None:
        known, written = replace(self.at), time.monotonic()
        while not self._over.wait(self.every):
            if self.at != known or time.monotonic() - written > self.heartbeat:
                known, written = replace(self.at), time.monotonic()
                self._write()

    def _write(self, **more: str) -> None:
        at = replace(self.at)
        left = at.seconds_left()
        with suppress(UserError):  # a courtesy, not worth failing for
            storage.write_json(self.path, {
                "phase": at.label, "done": at.done, "total": at.total, "loss": at.loss,
                "rate": round(at.rate, 1), "seconds_left": None if left is None else round(left),
                "time": record.now(), "host": socket.gethostname(), "pid": os.getpid(), **more,
            }, durable=False)  # fmt: skip


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
