"""Whole commands on a runs folder with mutated files: no file of a run passes verify changed."""

import os
import random
import shutil

import pytest
from fuzz.counts import count
from fuzz.mutations import mutate
from leaderboard.test_few_shot import write as write_adapted

from sdgbench.launch.execute import execute
from sdgbench.records.store import Store
from sdgbench.reporter import Silent
from sdgbench.spec import resolution
from sdgbench.training.device import Device

TRIES = max(1, int(os.environ.get("SDGBENCH_FUZZ", "150")) // 10)
SEED = os.environ.get("SDGBENCH_FUZZ_SEED", "0")
WRITTEN = ("predictions.npz", "train.jsonl", "checkpoint.pt")  # whose hashes a record has


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A runs folder with two finished runs, and their data."""
    root = tmp_path_factory.mktemp("finished")
    for seed in (0, 1):
        asked = resolution.resolve("erm", "digits-mini", "smoke", seed, [("recipe.steps", "3")])
        execute(asked, Store(root / "runs"), root / "data", Device("cpu"), Silent())
    return root


@pytest.fixture
def runs(finished, tmp_path):
    """A copy of it: the folder of the run that is damaged, then the arguments of commands."""
    shutil.copytree(finished / "runs", tmp_path / "runs")
    folder = min((tmp_path / "runs").glob("*/*/*"))
    return folder, finished / "data"


@pytest.mark.parametrize("name", WRITTEN)
def test_a_mutated_file_of_a_run_is_never_verified(name, runs, cli):
    folder, data = runs
    assert "2 verified" in cli("verify", "--data", data).out
    original, rng = (folder / name).read_bytes(), random.Random(f"{name} {SEED}")
    for _ in range(TRIES):
        damaged = mutate(original, rng)
        if damaged == original:
            continue
        (folder / name).write_bytes(damaged)
        done = cli("verify", "--data", data)
        assert done.code == 1
        assert "1 verified" in done.out, "the other run"
        assert name in done.out + done.err
    count(f"mutations ({name} to verify)", TRIES)


def test_a_mutated_record_stops_no_command(runs, cli):
    folder, data = runs
    original, rng = (folder / "record.json").read_bytes(), random.Random(SEED)
    for _ in range(TRIES):
        (folder / "record.json").write_bytes(mutate(original, rng))
        for command in (
            ("verify", "--data", data),
            ("compare",),
            ("compare", "--view", "efficiency"),
            ("status",),
            ("report", "--no-samples", "--output", "page.html"),
        ):
            done = cli(*command)
            assert done.code in (0, 1), (command, done.err)
            if command[0] == "verify":  # the other run
                assert "1 verified" in done.out or "2 verified" in done.out
    count("mutations (record.json in commands)", TRIES)


def test_a_mutated_adaptation_stops_no_command(cli, tmp_path):
    write_adapted(tmp_path / "runs")
    files, rng = sorted((tmp_path / "runs").rglob("adapt/*.json")), random.Random(SEED)
    for _ in range(TRIES):
        file = rng.choice(files)
        original = file.read_bytes()
        file.write_bytes(mutate(original, rng))
        done = cli("compare", "--view", "few-shot")
        assert done.code in (0, 1), done.err
        assert "mnist → svhn" in done.out
        file.write_bytes(original)
    count("mutations (adaptations in commands)", TRIES)
