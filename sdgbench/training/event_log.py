"""Writes the points of a run's curve as event files of TensorBoard, in the run's folder."""

import importlib.util
import math
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sdgbench.errors import UserError, unknown

LOGS = ("tensorboard",)  # the values of --log
FOLDER = "tensorboard"


def check_log(name: str) -> None:
    """Refuse a kind of log that is not known, or whose package is not installed."""
    if not name:
        return
    if name not in LOGS:
        raise unknown("kind of log", name, LOGS)
    if importlib.util.find_spec("tensorboard") is None:
        raise UserError(
            "--log tensorboard needs the package tensorboard. Install it: "
            "pip install 'sdgbench[tensorboard]'"
        )


class EventLog:
    """One event file, made again from the whole curve whenever a run starts or resumes.

    A resumed run cuts its curve back to its checkpoint. An event file cannot be cut, and a second
    one would hold some points twice.
    """

    def __init__(self, folder: Path, name: str, note: Callable[[str], object]) -> None:
        check_log(LOGS[0])
        # TensorBoard names a run by its folder: this tells the points of a grid apart.
        self.folder = folder / FOLDER / re.sub(r"[^\w.,=+-]+", "_", name)[:100]
        self.root, self.note = folder / FOLDER, note
        self._writer: Any = None
        self._began = 0.0
        self._seconds: dict[int, float] = {}  # by phase
        self._steps: dict[tuple[str, int], int] = {}  # the last of each phase, by name and phase

    def restart(self, points: Iterable[Mapping[str, Any]]) -> None:
        """Replace what was logged by these points; more may follow."""
        self.close()
        self._seconds, self._steps = {}, {}
        points = list(points)
        for point in points:
            with suppress(TypeError, ValueError, KeyError):
                self._keep_seconds(point)
        self._began = time.time() - sum(self._seconds.values())
        self._seconds = {}
        try:
            self._writer = self._open()
            for point in points:
                with suppress(KeyError, TypeError, ValueError):  # a damaged line
                    self._write(point)
            self._writer.flush()
        except OSError as error:
            self._give_up(error)

    def add(self, point: Mapping[str, Any]) -> None:
        """Log a new point of the curve."""
        if self._writer is None:
            return
        try:
            self._write(point)
            self._writer.flush()
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
            self._writer = None

    def _open(self) -> Any:
        # TensorBoard's own writer uses a thread, which a full disk leaves hanging.
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        if self.root.is_symlink():
            raise OSError(0, "it is a link")
        shutil.rmtree(self.root, ignore_errors=True)
        self.folder.mkdir(parents=True)
        stamp = f"{time.time():017.6f}.{socket.gethostname()}.{os.getpid()}"
        writer = RecordWriter((self.folder / f"events.out.tfevents.{stamp}").open("xb"))
        first = Event(wall_time=self._began, file_version="brain.Event:2")
        writer.write(first.SerializeToString())
        return writer

    def _write(self, point: Mapping[str, Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._keep_seconds(point)
        name, phase, step = str(point["name"]), int(point["phase"]), int(point["step"])
        if name == "validation":
            values, step = {"validation/score": point["score"]}, int(point["train_step"])
        else:
            self._steps[name, phase] = step
            earlier = [n for (other, p), n in self._steps.items() if other == name and p < phase]
            values, step = (
                {f"loss/{name}": point["loss"], f"lr/{name}": point["lr"]},
                step + sum(earlier),
            )
        known = [
            Summary.Value(tag=tag, simple_value=value)
            for tag, value in values.items()
            if value is not None and math.isfinite(value)
        ]
        wall_time = self._began + sum(self._seconds.values())
        event = Event(wall_time=wall_time, step=step, summary=Summary(value=known))
        self._writer.write(event.SerializeToString())

    def _keep_seconds(self, point: Mapping[str, Any]) -> None:
        if "seconds" in point:
            self._seconds[int(point["phase"])] = float(point["seconds"])

    def _give_up(self, error: OSError) -> None:
        self.close()
        self.note(f"no more events for TensorBoard ({error.strerror}); the run goes on")
