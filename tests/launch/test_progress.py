import io
import json
import os
import socket
import threading
import time
from datetime import datetime
from types import SimpleNamespace

import pytest
from helpers import wait_for
from rich.console import Console

from sdgbench import storage
from sdgbench.errors import Interrupted, UserError
from sdgbench.launch import progress, whole_run
from sdgbench.reporter import PlannedStage


class Spy(progress.Silent):
    def __init__(self):
        self.calls = []

    def plan(self, stages, over=0):
        self.calls.append(("plan", len(stages)))

    def begin(self, *values):
        self.calls.append(("begin", *values))

    def update(self, *values):
        self.calls.append(("update", *values))

    def end(self):
        self.calls.append(("end",))

    def note(self, text):
        self.calls.append(("note", text))


def content(folder):
    return json.loads((folder / "progress.json").read_text())


def test_a_run_keeps_its_progress_in_a_file(tmp_path):
    spy = Spy()
    with progress.ProgressFile(tmp_path, spy, every=0.01) as filed:
        first = content(tmp_path)
        assert list(first) == [
            *("phase", "done", "total", "loss", "rate"),
            *("seconds_left", "time", "host", "pid"),  # and "stopped" only after a stop
            *("share", "run_seconds_left"),
        ]
        assert (first["phase"], first["host"], first["pid"]) == (
            "starting",
            socket.gethostname(),
            os.getpid(),
        )
        assert datetime.fromisoformat(first["time"]).tzinfo
        filed.plan([PlannedStage("train", 2.0), PlannedStage("evaluate", 2.0)])
        filed.begin("train", 20, 4)
        filed.stage.began -= 30  # half a minute ago
        filed.update(10, 0.5, 123.45)
        wait_for(lambda: content(tmp_path)["done"] == 10)
        now = content(tmp_path)
        assert (now["phase"], now["total"], now["loss"], now["rate"]) == ("train", 20, 0.5, 123.5)
        assert now["seconds_left"] >= 50  # 6 steps in 30 s, 10 to go
        assert now["share"] == 0.25
        assert now["run_seconds_left"] >= 0
        filed.end()
        filed.note("hello")
    assert spy.calls == [
        ("plan", 2),
        ("begin", "train", 20, 4),
        ("update", 10, 0.5, 123.45),
        ("end",),
        ("note", "hello"),
    ]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Interrupted("at train step 3/20"), "at train step 3/20"),
        (UserError("No space is left"), "No space is left"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_after_a_stop_the_file_says_where(error, reason, tmp_path):
    def work():
        with progress.ProgressFile(tmp_path, progress.Silent(), every=60) as filed:
            filed.begin("train", 20)
            filed.update(3, None, 0.0)
            raise error

    with pytest.raises(type(error)):
        work()
    left = content(tmp_path)
    assert (left["stopped"], left["phase"], left["done"]) == (reason, "train", 3)


def test_it_is_written_without_progress_but_not_at_each_update(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(storage, "write_json", lambda *a, **k: written.append(a))
    with progress.ProgressFile(tmp_path, progress.Silent(), every=0.01, heartbeat=0.05):
        wait_for(lambda: len(written) == 3)
    written.clear()
    with progress.ProgressFile(tmp_path, progress.Silent(), every=0.001, heartbeat=1e9) as filed:
        for step in range(2000):
            filed.update(step, None, 0.0)
        filed._over.wait(0.05)
    # One at the start, then at most one per interval, not one per update.
    assert 1 <= len(written) < 1000


def test_a_full_disk_does_not_stop_the_run(tmp_path, monkeypatch):
    def full(*_, **__):
        raise UserError("no space")

    monkeypatch.setattr(storage, "write_json", full)
    with progress.ProgressFile(tmp_path, progress.Silent(), every=0.001) as filed:
        filed.update(1, None, 0.0)
        time.sleep(0.01)


def test_threads_that_write_at_once_keep_the_umask(tmp_path):
    before = os.umask(0o022)
    os.umask(before)

    def write(name):
        for number in range(200):
            storage.write_json(tmp_path / f"{name}.json", number, durable=False)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = os.umask(before)
    assert after == before
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{name}.json" for name in "abcd"]


def test_lines_come_at_the_end_of_a_stage_and_now_and_then(monkeypatch):
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    console = Console(file=io.StringIO(), width=80)
    lines = progress.LineReporter(console, "[1/2] a run", interval=1e9)
    lines.begin("train", 20)
    lines.update(10, 0.5, 100.0)
    assert console.file.getvalue() == ""
    lines.interval = 0.0
    lines.update(11, None, 0.0)
    lines.update(20, 0.25, 100.0)
    lines.end()
    assert console.file.getvalue().splitlines() == [
        "[1/2] a run: train 11/20",
        "[1/2] a run: train 20/20, loss 0.2500, 100 images/s",
        "[1/2] a run: train 20/20, loss 0.2500, 100 images/s in 0.0 s",
    ]


def test_lines_tell_the_share_of_the_run_and_the_time_left(monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: clock.now, now=0.0)
    for module in (progress, whole_run):
        monkeypatch.setattr(module, "time", clock)
    console = Console(file=io.StringIO(), width=80)
    lines = progress.LineReporter(console, "a run", interval=0.0)
    lines.plan([PlannedStage("train", 3.0), PlannedStage("evaluate", 1.0)])
    lines.begin("train", 20)
    clock.now = 60.0
    lines.update(10, None, 0.0)
    lines.interval = 1e9
    clock.now = 120.0
    lines.update(20, None, 0.0)
    lines.end()
    assert console.file.getvalue().splitlines() == [
        "a run: train 10/20; 37% of the run, about 0:01:40 left",
        "a run: train 20/20 in 120.0 s; 75% of the run",
    ]
