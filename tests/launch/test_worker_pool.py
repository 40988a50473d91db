"""A matrix in several processes: the same results, and nothing stops the rest."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import wait_for

from sdgbench.launch import stop_signal, worker_pool, worker_process
from sdgbench.training.device import Device, Execution

PLUGIN = '''
import os, signal, time
import numpy as np, torch
from sdgbench.datasets.digits_mini import DigitsMini
from sdgbench.method import Method, Phase, Read
from sdgbench.registry import register_dataset, register_method

class Plain(Method):
    def train_step(self, x, y):
        return self.optimise(self.task.loss(self.network(x), y))

@register_method("phased")
class Phased(Plain):
    """Trains, generates images with random noise, trains on both."""

    def plan(self):
        return [Phase("train", 20), Phase("generate", 3), Phase("train", 20, (Read("source+pool"),))]

    def generate_step(self, x, y):
        self.pool.add(x + 0.1 * torch.rand_like(x), y)

@register_method("fragile")
class Fragile(Plain):
    """Dies in native code on seed 1, raises on seed 2, is asked to stop once on seed 3."""

    def train_step(self, x, y):
        loss = super().train_step(x, y)
        if self.seed == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.seed == 2:
            raise RuntimeError("seed 2 is unlucky")
        if self.seed == 3 and not os.path.exists("stopped_once"):
            open("stopped_once", "w").close()
            print("hello from the step")
            os.kill(os.getpid(), signal.SIGTERM)
        return loss

@register_method("endless")
class Endless(Plain):
    """Takes long steps, and a very long one on odd seeds."""

    def train_step(self, x, y):
        time.sleep(600 if self.seed % 2 else 0.02)
        return super().train_step(x, y)

@register_dataset("made")
class Made(DigitsMini):
    """Noise, made slowly, which tells when it was made."""

    def noise(self, name):
        with open("made.log", "a") as file:
            file.write(name + "\\n")
        time.sleep(0.2)
        rng = np.random.default_rng(0)
        return rng.integers(0, 255, (64, 3, 32, 32), np.uint8), rng.integers(0, 10, 64).astype(np.uint8)

    def source(self, split):
        return self.cached("noise", lambda: self.noise(split), key=split)

    def target(self, name):
        return self.cached(name, lambda: self.noise(name))
'''
SMALL = ("--preset", "smoke", "--plugin", "extra.py", "--set", "recipe.batch=8")


@pytest.fixture
def plugin(tmp_path):
    (tmp_path / "extra.py").write_text(PLUGIN)


@pytest.fixture
def start(tmp_path, plugin):
    """Start the command as a process of its own."""
    begun = []

    def run(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "sdgbench", "run", *arguments, *SMALL],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        begun.append(process)
        return process

    yield run
    for process in begun:
        process.kill()
        process.communicate()


def under_way(runs, phase="train"):
    """The progress files of runs that are in a phase, by folder."""
    running = {}
    for path in runs.glob("*/*/*/progress.json"):
        try:
            progress = json.loads(path.read_text())
        except FileNotFoundError:
            continue  # its run ended meanwhile
        if "stopped" not in progress and (not phase or progress["phase"] == phase):
            running[path.parent] = progress
    return running


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def timeless(record):
    """A record without what differs between two uninterrupted runs (or edits of the harness)."""
    kept = {k: v for k, v in record.items() if k not in ("started", "finished", "files", "code")}
    kept["efficiency"] = {
        k: v
        for k, v in record["efficiency"].items()
        if not k.startswith(("latency", "peak", "load"))
    }
    kept["machine"] = {k: v for k, v in record["machine"].items() if k != "runs_beside"}
    kept["cost"] = {
        "images": [record["cost"]["images_forward"], record["cost"]["images_with_gradient"]],
        "phases": [(phase["name"], phase["steps"]) for phase in record["cost"]["phases"]],
    }
    return kept


def curve(folder):
    points = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    return [{k: v for k, v in point.items() if k != "seconds"} for point in points]


def assert_same_runs(first, second, count):
    """Bit for bit, apart from times."""
    folders = sorted(path.parent for path in first.glob("*/*/*/record.json"))
    assert len(folders) == count == len(list(second.glob("*/*/*/record.json")))
    for folder in folders:
        pair = (folder, second / folder.relative_to(first))
        records = [json.loads((folder / "record.json").read_text()) for folder in pair]
        assert timeless(records[0]) == timeless(records[1])
        assert curve(pair[0]) == curve(pair[1])
        predictions = [np.load(folder / "predictions.npz") for folder in pair]
        assert predictions[0].files == predictions[1].files
        for name in predictions[0].files:
            assert np.array_equal(predictions[0][name], predictions[1][name])
        states = [torch.load(folder / "checkpoint.pt", weights_only=True) for folder in pair]
        for key, value in states[0]["method"]["network"].items():
            assert torch.equal(value, states[1]["method"]["network"][key])


def test_workers_killed_at_random_end_as_if_nothing_had_happened(start, cli, tmp_path):
    """Twelve runs, uninterrupted in one process, and in two that are killed again and again."""
    matrix = (
        "--method",
        "erm,phased",
        "--dataset",
        "digits-mini",
        "--seeds",
        "0-5",
        "--set",
        "recipe.steps=40",
        "--targets",
        "scan",
    )
    assert cli("run", *matrix, *SMALL, "--runs", "whole").code == 0
    killed = tmp_path / "killed"
    process = start(*matrix, "--runs", "killed", "--jobs", "2", "--checkpoint-minutes", "0.002")
    dice = random.Random()  # another moment each time: any moment must do
    hits: Counter[Path] = Counter()
    while hits.total() < 5 and process.poll() is None:
        time.sleep(dice.uniform(0.0, 0.3))
        killable = {
            folder: progress["pid"]
            for folder, progress in under_way(killed, "").items()
            if hits[folder] < worker_pool.MAX_RESTARTS  # as often as a run may die, and no more
            and (hits.total() % 2 or (folder / "checkpoint.pt").exists())
            and is_alive(progress["pid"])
        }
        if killable:
            folder = dice.choice(sorted(killable))
            hits[folder] += 1
            os.kill(killable[folder], signal.SIGKILL)
            wait_for(lambda pid=killable[folder]: not is_alive(pid))
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, output
    assert hits.total() >= 3
    records = [json.loads(path.read_text()) for path in killed.glob("*/*/*/record.json")]
    assert max(record["cost"]["starts"] for record in records) > 1
    assert output.count("killed by signal 9 (out of memory?); starting it again") == hits.total()
    assert {record["machine"]["runs_beside"] for record in records} == {1}
    assert_same_runs(tmp_path / "whole", killed, 12)
    assert not [p.name for p in killed.rglob("*") if p.name in ("progress.json", "failed.json")]


def test_failures_and_crashes_do_not_stop_the_rest(cli, plugin, tmp_path, monkeypatch):
    monkeypatch.setattr(worker_pool, "MAX_RESTARTS", 1)
    done = cli(
        "run",
        "--method",
        "fragile",
        "--dataset",
        "made",
        "--data",
        "fresh",
        "--seeds",
        "0-3",
        *SMALL,
        "--jobs",
        "2",
        "--checkpoint-minutes",
        "10",
    )
    assert done.code == 1
    folders = {path.parent for path in tmp_path.glob("runs/*/*/*/spec.json")}
    seeds = {json.loads((f / "spec.json").read_text())["seed"]: f for f in folders}
    assert [(seeds[n] / "record.json").exists() for n in range(4)] == [True, False, False, True]
    crashed = json.loads((seeds[1] / "failed.json").read_text())
    assert crashed["error"] == "WorkerDied"
    reason = "its process was killed by signal 11 (SIGSEGV), 2 times in a row without progress"
    assert crashed["message"] == reason
    assert f"seed 1, recipe.batch=8): {reason}" in done.out
    assert done.out.count("(SIGSEGV); starting it again") == 1
    assert "RuntimeError: seed 2 is unlucky" in done.out
    assert "train_step" in done.out  # the traceback of seed 2
    assert "[4/4] fragile on made (smoke, seed 3, recipe.batch=8): hello from the step" in done.out
    assert "seed 3, recipe.batch=8): its process ended by itself (asked to stop" in done.out
    assert "seed 3, recipe.batch=8): going on from its checkpoint (train step 1/20)" in done.out
    assert re.search(r"4 runs: \d done, \d failed", done.out)
    # Both workers began together, and each set of images was made once.
    assert sorted((tmp_path / "made.log").read_text().split()) == sorted(
        ["train", "val", "street", "texture", "print", "scan"]
    )
    # What failed is not run again without being asked, and no process starts for it.
    again = cli(
        "run",
        "--method",
        "fragile",
        "--dataset",
        "made",
        "--data",
        "fresh",
        "--seeds",
        "0-3",
        *SMALL,
        "--jobs",
        "2",
    )
    assert again.code == 1
    assert again.out.count("finished before") == 2
    assert again.out.count("failed before") >= 2
    assert "starting it again" not in again.out


@pytest.fixture
def announced(monkeypatch):
    """Set once the user is told that the runs are stopped."""
    event = threading.Event()

    def announce():
        stop_signal.print_stopping()
        event.set()

    monkeypatch.setattr("sdgbench.launch.live_table.print_stopping", announce)
    return event


def interrupt_when(condition, signals, announced):
    """Send this process signals once a condition holds, as a terminal's Ctrl-C would.

    Each is sent after the one before was handled: two that are pending count as one.
    """

    def act():
        wait_for(condition)
        for number in signals:
            os.kill(os.getpid(), number)
            assert announced.wait(240)

    thread = threading.Thread(target=act)
    thread.start()
    return thread


ENDLESS = (
    "run",
    "--method",
    "endless",
    "--dataset",
    "digits-mini",
    *SMALL,
    "--jobs",
    "2",
    "--set",
    "recipe.steps=100000",
)


def test_one_stop_saves_all_and_the_death_of_the_parent_too(start, cli, announced, tmp_path):
    runs, seen = tmp_path / "runs", {}
    both = ("--seeds", "0,2,4", "--checkpoint-minutes", "60")

    def two_run():
        seen.update(under_way(runs))
        return len(under_way(runs)) == 2

    thread = interrupt_when(two_run, [signal.SIGINT], announced)
    done = cli(*ENDLESS, *both)
    thread.join()
    assert done.code == 130
    assert "Stopping after this step and saving" in done.err
    assert "Run the same command again to go on" in done.out
    assert re.findall(r"seed (\d),\s+(stopped|not started)", done.out) == [
        ("0", "stopped"),
        ("2", "stopped"),
        ("4", "not started"),
    ]
    assert len(list(runs.glob("*/*/*/checkpoint.pt"))) == 2
    assert not any(is_alive(progress["pid"]) for progress in seen.values())
    status = cli("status").out
    assert "2 runs: 2 interrupted" in status
    assert status.count("at train step") == 2

    process = start(*ENDLESS[1:], *both)
    workers = wait_for(lambda: under_way(runs) if len(under_way(runs)) == 2 else None)
    before = {p: p.stat().st_mtime_ns for p in runs.glob("*/*/*/checkpoint.pt")}
    process.kill()
    wait_for(lambda: not any(is_alive(progress["pid"]) for progress in workers.values()))
    for path, written in before.items():
        assert path.stat().st_mtime_ns > written
        assert "at train step" in json.loads((path.parent / "progress.json").read_text())["stopped"]


def test_a_second_stop_does_not_wait(cli, plugin, announced, tmp_path):
    runs, seen = tmp_path / "runs", {}

    def two_run():
        seen.update(under_way(runs))
        return len(under_way(runs)) == 2

    thread = interrupt_when(two_run, [signal.SIGINT, signal.SIGINT], announced)
    done = cli(*ENDLESS, "--seeds", "1,3")
    thread.join()
    assert done.code == 130
    assert "Stopped. Run the same command again" in done.err
    assert not any(is_alive(progress["pid"]) for progress in seen.values())


@pytest.mark.parametrize(
    ("jobs", "runs", "processes"),
    [
        (None, 10, 8),
        (None, 3, 3),
        (2, 10, 2),
        (12, 100, 12),
        (4, 1, 1),
    ],
)
def test_cores_are_divided_among_processes(jobs, runs, processes, monkeypatch):
    for module in (worker_pool, worker_process):
        monkeypatch.setattr(module, "available_cpus", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS")
    devices = worker_pool.assign_devices(
        SimpleNamespace(kind="cpu", torch=torch.device("cpu"), threads=1), jobs, runs
    )
    assert devices == ["cpu"] * processes
    assert (
        worker_process.threads_per_process(processes) == {1: 8, 2: 4, 3: 2, 8: 1, 12: 1}[processes]
    )
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert worker_process.threads_per_process(2) == 3
    assert worker_process.threads_per_process(8) == 1


@pytest.mark.parametrize(("threads", "processes"), [(1, 8), (2, 4), (3, 2), (16, 1)])
def test_automatic_jobs_leave_room_for_the_threads_of_a_run(threads, processes, monkeypatch):
    monkeypatch.setattr(worker_pool, "available_cpus", lambda: 8)
    device = Device("cpu", Execution(threads=threads))
    assert len(worker_pool.assign_devices(device, None, 100)) == processes


@pytest.mark.parametrize(
    ("index", "jobs", "sharing", "expected"),
    [
        (None, None, 1, ["cuda:0", "cuda:1"]),
        (None, None, 2, ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]),
        (None, 3, 2, ["cuda:0", "cuda:1", "cuda:0"]),
        (1, None, 1, ["cuda:1"]),
        (1, None, 3, ["cuda:1", "cuda:1", "cuda:1"]),
        (1, 2, 1, ["cuda:1", "cuda:1"]),
    ],
)
def test_gpus_are_assigned_in_turn(index, jobs, sharing, expected, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    asked = SimpleNamespace(kind="cuda", threads=None, torch=torch.device("cuda", index))
    assert worker_pool.assign_devices(asked, jobs, 10, sharing) == expected


def test_exits_are_described():
    assert worker_pool.describe_exit(-9) == "its process was killed by signal 9 (out of memory?)"
    assert worker_pool.describe_exit(-11) == "its process was killed by signal 11 (SIGSEGV)"
    assert worker_pool.describe_exit(3) == "its process ended with exit code 3"


@pytest.mark.parametrize("jobs", ["0", "-1", "two", "1.5"])
def test_a_bad_number_of_processes(jobs, cli):
    done = cli("run", "--method", "erm", "--dataset", "digits-mini", "--jobs", jobs)
    assert (done.code, done.out) == (2, "")
    assert (
        done.err
        == f'Error: "{jobs}" is not a number of processes. Write --jobs 2 or --jobs auto.\n'
    )
