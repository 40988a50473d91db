"""``sdgbench status`` on folders in every state."""

import json
import os
import socket
import subprocess
import threading
from datetime import UTC, datetime, timedelta

import pytest
from filelock import FileLock

from sdgbench import storage
from sdgbench.launch.status import run_statuses

PROGRESS = {
    "phase": "train",
    "done": 120,
    "total": 600,
    "loss": 0.41236,
    "rate": 351.4,
    "seconds_left": 72,
    "host": "elsewhere",
    "pid": 1,
}


def ago(seconds):
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="seconds")


@pytest.fixture
def dead():
    """The number of a process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.fixture
def add(tmp_path):
    """Make the folder of a run from its files."""

    def make(seed, method="erm", id=None, **files):
        folder = tmp_path / "runs" / "digits-mini" / method / (id or f"{seed:012}")
        spec = {"method": method, "dataset": "digits-mini", "preset": "quick", "seed": seed}
        for name, content in {"spec": spec, **files}.items():
            suffix = ".pt" if name == "checkpoint" else ".json"
            storage.write_json(folder / f"{name}{suffix}", content)
        return folder

    return make


def states(tmp_path):
    return {
        status.label: (status.state, status.detail) for status in run_statuses(tmp_path / "runs")
    }


def test_every_state_follows_from_the_files(add, tmp_path, dead):
    here = socket.gethostname()
    failure = {"error": "RuntimeError", "message": "seed 3 is unlucky"}
    queued = {"job": "17_4", "launcher": "slurm", "time": ago(60)}
    add(0, record={}, progress={**PROGRESS, "time": ago(1)}, queued=queued)
    add(1, progress={**PROGRESS, "time": ago(1), "host": here, "pid": os.getpid()}, queued=queued)
    add(2, progress={**PROGRESS, "time": ago(100)}, failed=failure)  # retried on another machine
    add(
        3,
        failed=failure,
        progress={**PROGRESS, "time": ago(1), "stopped": "seed 3 is unlucky"},
        queued=queued,
    )
    add(
        4,
        queued=queued,
        checkpoint={},
        progress={**PROGRESS, "time": ago(9), "stopped": "at train"},
    )
    add(5, progress={**PROGRESS, "time": ago(420)}, checkpoint={})
    add(6, progress={**PROGRESS, "time": ago(90), "host": here, "pid": dead}, checkpoint={})
    add(7, progress={**PROGRESS, "time": ago(1), "stopped": "at train step 137/600"}, checkpoint={})
    add(8)
    detail = "train 120/600, loss 0.4124, 351 images/s, 0:01:12 left"
    assert states(tmp_path) == {
        f"erm on digits-mini (quick, seed {seed})": expected
        for seed, expected in {
            1: ("running", detail),
            2: ("running", f"{detail}, on elsewhere"),
            3: ("failed", "RuntimeError: seed 3 is unlucky"),
            4: ("pending", "slurm job 17_4"),
            5: ("interrupted", "train 120/600, last seen 7 min ago on elsewhere"),
            6: ("interrupted", "train 120/600, last seen 2 min ago"),
            7: ("interrupted", "at train step 137/600"),
            8: ("interrupted", "no checkpoint yet"),
            0: ("done", ""),
        }.items()
    }
    assert [status.state for status in run_statuses(tmp_path / "runs")] == [
        "running",
        "running",
        "failed",
        "pending",
        *["interrupted"] * 4,
        "done",
    ]


def test_an_old_file_of_a_live_process_counts_while_it_holds_the_lock(add, tmp_path):
    """A long step of this machine; or the number of a dead one that another process got."""
    progress = {**PROGRESS, "time": ago(3600), "host": socket.gethostname(), "pid": os.getpid()}
    folder = add(0, progress=progress, checkpoint={})
    label = "erm on digits-mini (quick, seed 0)"
    assert states(tmp_path)[label][0] == "interrupted"
    with storage.locked(folder):
        assert states(tmp_path)[label][0] == "running"
        (folder / "progress.json").unlink()
        assert states(tmp_path)[label][0] == "running"
    assert states(tmp_path)[label][0] == "interrupted"


def test_looking_turns_no_run_away(add, monkeypatch):
    """Whoever looks may hold the lock for an instant; the owner to be waits that long."""
    monkeypatch.setattr(storage.locks, "LOCK_PROBE_SECONDS", 60.0)  # a slow machine's instant
    folder = add(0)
    glance = FileLock(folder / "lock", thread_local=False)
    glance.acquire()
    threading.Timer(0.1, glance.release).start()
    with storage.locked(folder):
        pass


def test_damaged_files_do_not_hide_the_rest(add, tmp_path):
    add(1, record={})
    folder = add(2, failed={}, id="damaged")
    for name in ("spec", "failed", "progress", "queued"):
        (folder / f"{name}.json").write_text('{"half')
    (add(3, progress={"phase": 3, "time": "noon"}) / "train.jsonl").touch()
    (tmp_path / "runs" / "a" / "b").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "b" / "file").touch()
    assert states(tmp_path) == {
        "erm on digits-mini (damaged)": ("failed", "unknown: "),
        "erm on digits-mini (quick, seed 3)": ("interrupted", "no checkpoint yet"),
        "erm on digits-mini (quick, seed 1)": ("done", ""),
    }


def test_the_table_and_its_json(add, cli, tmp_path):
    for seed in range(30):
        add(seed, record={})
    add(0, "mada", record={})
    for point in ("aaa", "bbb"):  # of a grid: one label
        add(1, "mada", id=point, failed={"error": "Diverged", "message": "[bold]loss[/] is nan"})
    shown = cli("status")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0] == "33 runs: 2 failed, 31 done"
    assert max(map(len, lines)) <= 80
    assert "aaa" in shown.out
    assert "[bold]loss[/]" in shown.out
    assert any(line.split() == ["done", "erm", "on", "digits-mini", "30", "runs"] for line in lines)
    assert any(line.split() == ["done", "mada", "on", "digits-mini", "1", "run"] for line in lines)
    everything = cli("status", "--all").out
    assert everything.count("erm on digits-mini (quick, seed") == 30
    listed = json.loads(cli("status", "--json").out)
    assert listed["counts"] == {
        "running": 0,
        "failed": 2,
        "pending": 0,
        "interrupted": 0,
        "done": 31,
    }
    assert len(listed["runs"]) == 33
    assert listed["runs"][0]["id"] == "aaa"
    assert listed["runs"][0]["detail"] == "Diverged: [bold]loss[/] is nan"


def test_no_runs(cli, tmp_path):
    gone = cli("status", "--runs", "nowhere")
    assert gone.code == 0
    assert (
        gone.out == "No runs: the folder nowhere does not exist. Make some: sdgbench run --help\n"
    )
    (tmp_path / "runs").mkdir()
    assert "the folder runs is empty" in cli("status").out
    assert json.loads(cli("status", "--json").out)["runs"] == []
    (tmp_path / "file").touch()
    bad = cli("status", "--runs", "file")
    assert bad.code == 2
    assert "There is a file where a folder is needed" in bad.err


def test_it_needs_no_torch(without_torch, add, tmp_path):
    add(0, record={})
    assert "1 run: 1 done" in without_torch("status", "--runs", tmp_path / "runs")
