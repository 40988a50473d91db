"""``sdgbench status`` on folders in every state."""

import io
import json
import os
import socket
import subprocess
import threading
from datetime import UTC, datetime, timedelta

import pytest
from filelock import FileLock
from helpers import wait_for
from rich.console import Console

from sdgbench import storage
from sdgbench.launch.attempt import Result
from sdgbench.launch.live_table import LiveTable
from sdgbench.launch.matrix_file import MatrixFile, matrices
from sdgbench.launch.status import run_statuses
from sdgbench.spec.run_spec import RunSpec

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


def test_runs_of_a_grid_are_told_apart_by_what_differs(tmp_path):
    """Also the point that has the default, and a specification that is damaged."""
    for lr, changes in ((0.001, []), (0.01, ["lr"])):
        spec = {"method": "erm", "dataset": "d", "preset": "quick", "seed": 0}
        spec |= {"recipe": {"lr": lr, "steps": 5}, "recipe_changes": changes}
        storage.write_json(tmp_path / "runs" / "d" / "erm" / f"id-{lr}" / "spec.json", spec)
    storage.write_json(tmp_path / "runs/d/erm/bad/spec.json", {**spec, "recipe": "none"})
    assert sorted(states(tmp_path)) == [
        "erm on d (bad)",
        "erm on d (quick, seed 0, recipe.lr=0.001)",
        "erm on d (quick, seed 0, recipe.lr=0.01)",
    ]


def test_a_matrix_is_shown_while_its_command_runs(cli, tmp_path, dead):
    """Its runs that wait have no folder yet."""
    specs = [
        RunSpec("erm", {}, "digits-mini", 1, {}, (), "quick", {}, (), seed) for seed in range(3)
    ]
    table = LiveTable(Console(file=io.StringIO()), specs)
    (tmp_path / "runs").mkdir()
    left_behind = tmp_path / "runs" / ".matrix-00000000.json"
    with MatrixFile(tmp_path / "runs", table, every=0.01) as file:
        killed = {**json.loads(file.path.read_text()), "pid": dead}
        storage.write_json(left_behind, killed)
        (tmp_path / "runs" / ".matrix-damaged.json").write_text("{")
        table.start_run(1)
        table.end_run(1, Result(specs[0], "done"))
        shown = wait_for(lambda: [m for m in matrices(tmp_path / "runs") if m.waiting_count == 2])
        assert shown[0].share == pytest.approx(1 / 3, abs=1e-4)
        assert [run.label for run in shown[0].waiting] == [
            "erm on digits-mini (quick, seed 1)",
            "erm on digits-mini (quick, seed 2)",
        ]
        assert shown[0].waiting[0].key == f"digits-mini/erm/{specs[1].id}"
        assert "3 runs: 1 done, 2 waiting; 33% done" in " ".join(cli("status").out.split())
        assert len(json.loads(cli("status", "--json").out)["matrices"]) == 1
    assert matrices(tmp_path / "runs") == []
    assert left_behind.exists()
    with MatrixFile(tmp_path / "runs", table):
        assert not left_behind.exists()
    assert "No runs" in cli("status").out


def test_looking_writes_nothing(add, tmp_path):
    folder = add(0)
    with storage.locked(folder):
        pass
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    run_statuses(tmp_path / "runs")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_it_needs_no_torch(without_torch, add, tmp_path):
    add(0, record={})
    assert "1 run: 1 done" in without_torch("status", "--runs", tmp_path / "runs")
