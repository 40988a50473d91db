"""Kill -9, Ctrl-C and SIGTERM on a real process, and what comes out in the end."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch
from helpers import wait_for

# A run long enough to be hit in training, generation, validation, evaluation and while saving.
PLUGIN = '''
import torch
from sdgbench.method import Method, Phase, Read
from sdgbench.registry import register_method

@register_method("phased")
class Phased(Method):
    """Trains, generates images with random noise, trains on both."""

    def plan(self):
        return [Phase("train", 300), Phase("generate", 40), Phase("train", 300, (Read("source+pool"),))]

    def train_step(self, x, y):
        return self.optimise(self.task.loss(self.network(x + 0.01 * torch.randn_like(x)), y))

    def generate_step(self, x, y):
        self.pool.add(x + 0.1 * torch.rand_like(x), y)
'''


@pytest.fixture
def start(tmp_path):
    (tmp_path / "phased.py").write_text(PLUGIN)

    def run(runs, minutes="0.002"):
        command = [
            sys.executable,
            "-m",
            "sdgbench",
            "run",
            "--plugin",
            "phased.py",
            "--method",
            "phased",
            "--dataset",
            "digits-mini",
            "--preset",
            "smoke",
            "--checkpoint-minutes",
            minutes,
            "--runs",
            runs,
        ]
        return subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return run


def weights(folder):
    state = torch.load(next(folder.glob("*/*/*/checkpoint.pt")), weights_only=True)
    return state["method"]["network"]


def results(folder):
    return json.loads(next(folder.glob("*/*/*/record.json")).read_text())["results"]


def test_killed_at_random_moments_it_ends_as_if_nothing_had_happened(start, tmp_path):
    assert start("whole").wait(timeout=300) == 0
    dice = random.Random()  # another moment each time: any moment must do
    kills = 0
    killed = tmp_path / "killed"
    while kills < 6:
        process = start("killed")
        wait_for(lambda p=process: p.poll() is not None or list(killed.glob("*/*/*/spec.json")))
        time.sleep(dice.uniform(0.0, 1.5))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    assert kills  # a machine that is done within a moment cannot be hit many times
    process = start("killed")
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, output
    first, second = weights(tmp_path / "whole"), weights(killed)
    assert first.keys() == second.keys()
    for key in first:
        assert torch.equal(first[key], second[key]), (key, kills)
    assert results(tmp_path / "whole") == results(killed)
    leftovers = [p.name for p in killed.rglob("*") if p.name.endswith(".tmp")]
    assert not leftovers


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_saves_and_says_how_to_go_on(number, start, tmp_path):
    process = start("runs", minutes="10")  # no checkpoint by the clock: only the stop saves
    wait_for(lambda: list((tmp_path / "runs").glob("*/*/*/train.jsonl")))
    process.send_signal(number)
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 130, output
    assert "Stopping after this step and saving" in output
    assert "Run the same command again to go on" in output
    assert "Traceback" not in output
    assert len(list((tmp_path / "runs").glob("*/*/*/checkpoint.pt"))) == 1
    process = start("runs")
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, output
    assert "going on from its checkpoint" in output


def test_two_processes_do_not_work_on_one_run(start, tmp_path):
    first = start("runs")
    wait_for(lambda: list((tmp_path / "runs").glob("*/*/*/train.jsonl")))
    second = start("runs")
    output = second.communicate(timeout=300)[0]
    assert first.wait(timeout=300) == 0
    assert second.returncode in (0, 2)  # 0 if the first was done by then
    if second.returncode == 2:
        assert "is in use by" in output
    assert len(list((tmp_path / "runs").glob("*/*/*/record.json"))) == 1
