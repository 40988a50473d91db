"""Shows the progress of a run: bars in a terminal, plain lines elsewhere, and a file."""

import math
import os
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from sdgbench import storage
from sdgbench.errors import UserError, printable
from sdgbench.launch.whole_run import WholeRun
from sdgbench.records.schema import utc_now
from sdgbench.reporter import PlannedStage, Reporter, Silent

Seconds = Annotated[int, msgspec.Meta(ge=-(10**10), le=10**10)]
PROGRESS_FILE = "progress.json"  # in a run's folder while it runs, and after a stop


class RunProgress(msgspec.Struct, frozen=True):
    """The content of ``progress.json``."""

    phase: str  # the label of the stage
    done: int
    total: int
    loss: float | None
    rate: float  # images per second
    seconds_left: Seconds | None  # of the stage
    time: str  # when it was written
    host: str
    pid: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    stopped: str | msgspec.UnsetType = msgspec.UNSET  # why, once the run has stopped
    share: float | None = None  # of the whole run that is done, by expected cost
    run_seconds_left: Seconds | None = None

    def __str__(self) -> str:
        return describe_progress(
            self.phase, self.done, self.total, self.loss, self.rate, self.share
        )


@dataclass
class Stage:
    """A part of a run, such as a phase of training, and how much of it is done."""

    label: str = "starting"
    total: int = 0
    done: int = 0
    loss: float | None = None
    rate: float = 0.0
    first: int = 0  # done before it began
    began: float = field(default_factory=lambda: time.monotonic())

    def seconds_left(self) -> float | None:
        """Seconds to the end of the stage at its mean pace so far; None before the first step."""
        if self.done <= self.first:
            return None
        pace = (time.monotonic() - self.began) / (self.done - self.first)
        return pace * (self.total - self.done)


def describe_progress(
    label: str,
    done: int,
    total: int,
    loss: float | None,
    rate: float,
    share: float | None = None,
) -> str:
    """Describe the progress of a stage in words, and the share of the whole run that is done."""
    parts = [f"{label} {done}/{total}" if total else label]
    if loss is not None:
        parts.append(f"loss {loss:.4f}")
    if rate:
        parts.append(f"{rate:.0f} images/s")
    if share is not None:
        parts.append(f"{percent(share)} of the run")
    return ", ".join(parts)


def percent(share: float) -> str:
    """A share in whole per cent; 100% only at the end."""
    return f"{math.floor(100 * share + 1e-9)}%"


def clock(seconds: float) -> str:
    """A time in hours, minutes and seconds."""
    return str(timedelta(seconds=round(seconds)))


class StageTracker(Silent):
    """A reporter that keeps the current stage and shows nothing; base class of those that do."""

    def __init__(self) -> None:
        self.stage, self.whole = Stage(), WholeRun()

    def plan(self, stages: Sequence[PlannedStage], over: int = 0) -> None:
        """Keep the plan of the whole run."""
        self.whole.plan(stages, over)

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Replace the current stage by a new one."""
        self.whole.begin(label, total, done)
        self.stage = Stage(label, total, done, first=done)

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """Keep the progress of the current stage."""
        self.stage.done, self.stage.loss, self.stage.rate = done, loss, rate
        self.whole.update(done, self.stage.total)


class LineReporter(StageTracker):
    """Prints a line at the end of each stage and every ``interval`` seconds before."""

    def __init__(self, console: Console, title: str, interval: float = 15.0) -> None:
        super().__init__()
        self.console, self.title, self.interval = console, title, interval
        self.last_printed = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Start a stage; its first line comes after ``interval`` seconds or at its end."""
        super().begin(label, total, done)
        self.last_printed = self.stage.began

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """Print the progress if the last line is old enough."""
        super().update(done, loss, rate)
        if time.monotonic() - self.last_printed >= self.interval:
            self.last_printed = time.monotonic()
            left = self.whole.seconds_left()
            about = f", about {clock(left)} left" if left is not None else ""
            self.note(f"{self._text()}{self._share()}{about}")

    def end(self) -> None:
        """Print the final progress of the stage and the seconds it took."""
        seconds = time.monotonic() - self.stage.began
        self.note(f"{self._text()} in {seconds:.1f} s{self._share()}")

    def note(self, text: str) -> None:
        """Print a message after the title."""
        text = printable(f"{self.title}: {text}")
        with suppress(OSError):  # a full disk or a closed terminal must not end the run
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _share(self) -> str:
        share = self.whole.share()
        return "" if share is None else f"; {percent(share)} of the run"

    def _text(self) -> str:
        stage = self.stage
        return describe_progress(stage.label, stage.done, stage.total, stage.loss, stage.rate)


class ProgressFile(StageTracker):
    """Passes reports on and keeps the latest in a file, for ``sdgbench status``.

    A thread writes the file, so that training waits for no disk. Every ``heartbeat`` seconds it
    writes without any progress, too, so that a long step differs from a dead machine.
    """

    def __init__(
        self, folder: Path, reporter: Reporter, every: float = 2.0, heartbeat: float = 30.0
    ) -> None:
        super().__init__()
        self.path, self.reporter = folder / PROGRESS_FILE, reporter
        self.every, self.heartbeat = every, heartbeat
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_written, daemon=True)

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

    def plan(self, stages: Sequence[PlannedStage], over: int = 0) -> None:
        """Keep the plan and pass it on."""
        super().plan(stages, over)
        self.reporter.plan(stages, over)

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Start a stage here and in the other reporter."""
        super().begin(label, total, done)
        self.reporter.begin(label, total, done)

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """Keep the progress and pass it on."""
        super().update(done, loss, rate)
        self.reporter.update(done, loss, rate)

    def end(self) -> None:
        """Pass the end of the stage on."""
        self.reporter.end()

    def note(self, text: str) -> None:
        """Pass the message on."""
        self.reporter.note(text)

    def _keep_written(self) -> None:
        """Write the file whenever the stage has changed, and every ``heartbeat`` seconds."""
        written, last_time = replace(self.stage), time.monotonic()
        while not self._over.wait(self.every):
            if self.stage != written or time.monotonic() - last_time > self.heartbeat:
                written, last_time = replace(self.stage), time.monotonic()
                self._write()

    def _write(self, stopped: str | msgspec.UnsetType = msgspec.UNSET) -> None:
        stage = replace(self.stage)
        left, run_left, share = stage.seconds_left(), self.whole.seconds_left(), self.whole.share()
        progress = RunProgress(
            phase=stage.label,
            done=stage.done,
            total=stage.total,
            loss=stage.loss,
            rate=round(stage.rate, 1),
            seconds_left=None if left is None else round(left),
            time=utc_now(),
            host=socket.gethostname(),
            pid=os.getpid(),
            stopped=stopped,
            share=None if share is None else round(share, 4),
            run_seconds_left=None if run_left is None else round(run_left),
        )
        with suppress(UserError):  # a full disk must not stop the run for this
            storage.write_json(self.path, progress, durable=False)


class BarReporter:
    """Draws a bar per stage, with loss, images per second and the time left."""

    def __init__(self, console: Console, title: str) -> None:
        self.title = title
        self.bars = Progress(
            TextColumn("  {task.description:<9.24}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:>6.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[text]:<24}"),
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
        if not self.bars.live.is_started:  # with the first report: no title without a bar
            self.bars.start()
            self.bars.console.print(self.title, style="bold", markup=False, highlight=False)

    def plan(self, stages: Sequence[PlannedStage], over: int = 0) -> None:
        """Ignore the plan: each stage has its own bar."""

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Add a bar for the stage."""
        self._start()
        self.task = self.bars.add_task(label, total=total, completed=done, text="")

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """Move the bar."""
        if self.task is not None:
            text = f"loss {loss:.3f} " if loss is not None else ""
            text += f"{rate:.0f} img/s" if rate else ""
            self.bars.update(self.task, completed=done, text=text)

    def end(self) -> None:
        """Keep the bar on the screen as it is."""
        self.task = None

    def note(self, text: str) -> None:
        """Print a message above the bars."""
        self._start()
        with suppress(OSError):
            self.bars.console.print(f"  {printable(text)}", markup=False, highlight=False)


def reporter(console: Console, title: str) -> BarReporter | LineReporter:
    """A reporter for a console: bars in a terminal, else lines."""
    return BarReporter(console, title) if console.is_terminal else LineReporter(console, title)
