"""``sdgbench adapt`` from the outside: what it writes, skips, resumes and refuses."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from sdgbench import storage
from sdgbench.launch.stop_signal import StopSignal

TOY = Path(__file__).with_name("toy.py")
RUN = (
    "run",
    "--method",
    "erm,jigen",
    "--dataset",
    "toy-turned",
    "--preset",
    "smoke",
    "--plugin",
    TOY,
)
ADAPT = (
    "adapt",
    "--dataset",
    "toy-turned",
    "--preset",
    "smoke",
    "--target",
    "turned",
    "--iterations",
    40,
    "--lr",
    0.003,
    "--draws",
    2,
    "--plugin",
    TOY,
)
WITHOUT_SPLIT = ("--set", "train_split=false")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs of two methods: of two seeds, and one where the target has no training split."""
    from sdgbench import registry
    from sdgbench.cli.app import main

    runs = tmp_path_factory.mktemp("trained") / "runs"
    before = list(registry._plugins)
    for more in (("--seeds", "0-1"), WITHOUT_SPLIT):
        with pytest.raises(SystemExit) as stopped:
            main([str(part) for part in (*RUN, *more, "--runs", runs)])
        assert not stopped.value.code
    registry._plugins[:] = before
    return runs


@pytest.fixture
def runs(trained, tmp_path):
    """A copy to work on."""
    return Path(shutil.copytree(trained, tmp_path / "runs"))


def results(runs):
    """All adaptations, by method, seed, split, shots and draw."""
    found = {}
    for path in runs.glob("*/*/*/adapt/*.json"):
        one = json.loads(path.read_text())
        spec, asked = one["parent"]["spec"], one["asked"]
        key = (spec["method"], spec["seed"], asked["drawn_from"], asked["shots"], asked["draw"])
        found[key] = one
    return found


def hashes(runs):
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in runs.rglob("*")
        if path.is_file() and "adapt" not in path.parts and path.name != "owner"
    }


def test_a_few_images_help_where_what_was_learned_is_wrong(cli, runs):
    before = hashes(runs)
    done = cli(*ADAPT, "--method", "erm,jigen", "--seeds", "0-1")
    assert done.code == 0, done.err
    assert hashes(runs) == before, "the runs themselves must stay as they are"
    found = results(runs)
    assert len(found) == 2 * 2 * (1 + 2 + 2)  # methods, seeds; 0 shots once, 7 and 10 twice
    for (method, seed, _, shots, draw), one in found.items():
        accuracy = one["results"]["accuracy"]
        untouched = found[method, seed, "train", 0, 0]["results"]["accuracy"]
        if shots:
            assert accuracy > untouched + 0.6, (method, seed, shots)
            assert one["fit"]["count"] == 4 * shots
        else:
            assert one["results"] == one["parent"]["results"], "what the run itself has recorded"
            assert one["fit"] is None
        assert one["drawn"]["rows"] == found["erm", seed, "train", shots, draw]["drawn"]["rows"]
        assert len(one["drawn"]["rows"]) == 4 * shots
        assert one["drawn"]["of"] == 90
        assert one["evaluation"]["count"] == 60
    first, second = (found["erm", seed, "train", 7, 0]["drawn"]["rows"] for seed in (0, 1))
    assert first != second, "each seed has draws of its own: it is the unit of the interval"


def test_a_result_holds_everything_that_produced_it(cli, runs):
    assert cli(*ADAPT, "--method", "erm", "--shots", "7", "--draws", 1).code == 0
    (one,) = results(runs).values()
    folder = next(runs.glob("*/erm/*/adapt")).parent
    record = json.loads((folder / "record.json").read_text())
    assert (one["kind"], one["schema"]) == ("adaptation", 1)
    assert one["parent"]["id"] == record["id"] == one["asked"]["run"]
    assert one["parent"]["spec"] == record["spec"]
    assert one["parent"]["checkpoint"] == storage.sha256(folder / "checkpoint.pt")
    assert one["asked"] == {
        "run": record["id"],
        "target": "turned",
        "drawn_from": "train",
        "held_out": 0,
        "shots": 7,
        "draw": 0,
        "iterations": 40,
        "lr": 0.003,
        "batch": 16,
    }
    assert "iterations not stated" in one["protocol"]
    assert len(one["drawn"]["sha256"]) == 64
    assert one["evaluation"]["sha256"] == record["domains"]["turned"]["sha256"]
    assert one["code"]["version"]
    assert one["code"]["method_file_sha256"] == record["code"]["method_file_sha256"]
    assert one["packages"]["torch"]
    assert one["machine"]["device"] == "cpu"
    assert one["seconds"] > 0


def test_a_target_without_a_training_split_holds_images_out_and_says_so(cli, runs):
    done = cli(*ADAPT, "--method", "erm,jigen", *WITHOUT_SPLIT)
    assert done.code == 0, done.err
    assert "turned has no training split here: 10 images per class" in done.out
    found = results(runs)
    assert len(found) == 2 * 2 * 3  # methods, draws, shots: 0 shots once per draw
    for (_, seed, split, shots, draw), one in found.items():
        assert split == one["drawn"]["split"] == "test"
        assert one["asked"]["held_out"] == 10
        same = found["erm", seed, "test", 10, draw]
        assert one["evaluation"] == same["evaluation"], "the same images at all shots"
        assert one["evaluation"]["count"] < one["evaluation"]["whole"]["count"] == 60
        assert one["drawn"]["rows"] == found["erm", seed, "test", shots, draw]["drawn"]["rows"]
    table = cli("compare", "--view", "few-shot")
    assert "no training split here: of each draw, 10 images per class are held out" in " ".join(
        table.out.split()
    )


def test_the_same_command_again_does_only_what_is_missing(cli, runs):
    command = (*ADAPT, "--method", "erm")
    assert "done" in cli(*command, "--shots", "0,7", "--draws", 1).out
    made = {path: path.stat().st_mtime_ns for path in runs.glob("*/*/*/adapt/*.json")}
    assert len(made) == 2
    assert "done" in cli(*command).out
    assert {path: path.stat().st_mtime_ns for path in made} == made
    every = list(runs.glob("*/*/*/adapt/*.json"))
    assert len(every) == 5
    again = cli(*command)
    assert again.code == 0
    assert "finished before" in again.out
    other = (*command, "--iterations", 5)
    assert "done" in cli(*other).out
    assert len(list(runs.glob("*/*/*/adapt/*.json"))) == 5 + 4  # the untouched network is shared


def test_a_stopped_adaptation_goes_on_and_comes_to_the_same(cli, runs, monkeypatch, tmp_path):
    command = (*ADAPT, "--method", "erm", *WITHOUT_SPLIT)
    uninterrupted = shutil.copytree(runs, tmp_path / "other")
    assert cli(*command, "--runs", uninterrupted).code == 0
    asked = iter(range(10_000))
    with monkeypatch.context() as patch:
        patch.setattr(StopSignal, "__call__", lambda self: next(asked) > 100)
        stopped = cli(*command)
    assert stopped.code == 130
    assert "Run the same command again to go on" in stopped.out
    assert "stopped" in stopped.out
    assert 1 < len(results(runs)) < 6
    assert cli(*command).code == 0
    first, second = results(uninterrupted), results(runs)
    assert first.keys() == second.keys()
    for key, one in first.items():
        for part in ("asked", "drawn", "evaluation", "results", "fit"):
            assert one[part] == second[key][part], (key, part)


def test_other_weights_make_old_results_void(cli, runs):
    command = (*ADAPT, "--method", "erm", "--shots", "0")
    assert cli(*command).code == 0
    (path,) = runs.glob("*/*/*/adapt/*.json")
    found = json.loads(path.read_text())
    found["parent"]["checkpoint"] = "0" * 64
    path.write_text(json.dumps(found))
    assert "done" in cli(*command).out
    assert json.loads(path.read_text())["parent"]["checkpoint"] != "0" * 64


def test_leaderboards_do_not_know_of_adaptations(cli, runs):
    before = cli("compare", "--format", "json").out
    verified = cli("verify", "--plugin", TOY)
    assert cli(*ADAPT, "--method", "erm").code == 0
    assert cli("compare", "--format", "json").out == before
    assert cli("verify", "--plugin", TOY).out == verified.out


def test_two_processes_do_not_adapt_one_run(cli, runs):
    folder = next(runs.glob("*/erm/*/record.json")).parent
    with storage.locked(folder / "adapt"):
        done = cli(*ADAPT[:-2], "--plugin", TOY, "--run", folder.name, "--dataset", "")
    assert done.code == 2
    assert "is in use by" in done.out + done.err


def test_runs_that_cannot_be_adapted_are_named_with_what_to_do(cli, runs):
    """One line each, and the others go on."""
    done = cli(*ADAPT, "--method", "erm", "--seeds", "0,7", "--shots", "0")
    assert done.code == 2
    assert "done" in done.out
    assert (
        "erm on toy-turned (smoke, seed 7) was never run in runs. Train it: sdgbench run "
        "--method erm --dataset toy-turned --preset smoke --seeds 7"
    ) in done.out
    folder = next(path.parent for path in runs.glob("*/erm/*/record.json"))
    by_id = ("adapt", "--target", "turned", "--plugin", TOY, "--run", folder.name[:9])
    (folder / "checkpoint.pt").rename(folder / "elsewhere.pt")
    lost = cli(*by_id)
    assert lost.code == 2
    assert "has lost its" in lost.err
    assert "--redo" in lost.err
    (folder / "record.json").rename(folder / "elsewhere.json")
    assert "is not finished" in cli(*by_id).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "emr"), 'Did you mean "erm"?'),
        (("--method", "erm", "--target", "turnd"), 'Did you mean "turned"?'),
        (("--method", "erm", "--shots", "seven"), '"seven" is not a number of shots'),
        (("--method", "erm", "--set", "train_splt=false"), 'Did you mean "train_split"?'),
        (("--method", "erm", "--run", "abc"), "not by both"),
        ((), "Choose runs: --method"),
        (("--method", "erm", "--shots", "23"), "Use fewer --shots"),
    ],
)
def test_bad_input_ends_in_one_line(arguments, message, cli, runs):
    done = cli(*ADAPT, *arguments)
    assert done.code == 2
    said = done.err + done.out
    assert message in said
    assert "Traceback" not in said


def test_segmentation_has_no_shots(cli):
    done = cli(
        "adapt",
        "--method",
        "erm",
        "--dataset",
        "streets-mini",
        "--preset",
        "smoke",
        "--target",
        "city/dawn",
    )
    assert done.code == 2
    assert "Adaptation is for classification" in done.err


def test_a_run_on_other_targets_is_found_all_the_same(cli, tmp_path):
    command = ("--method", "erm", "--dataset", "toy-turned", "--preset", "smoke", "--plugin", TOY)
    assert cli("run", *command, "--targets", "darker").code == 0
    damaged = tmp_path / "runs" / "toy-turned" / "erm" / "0" / "record.json"
    damaged.parent.mkdir()
    damaged.write_text("{")
    done = cli("adapt", *command, "--target", "turned", "--shots", "0")
    assert done.code == 0, done.err
    (one,) = results(tmp_path / "runs").values()
    assert one["parent"]["results"] is None


def test_a_damaged_result_is_named(cli, runs):
    command = (*ADAPT, "--method", "erm", "--shots", "0")
    assert cli(*command).code == 0
    (path,) = runs.glob("*/*/*/adapt/*.json")
    path.write_text('{"schema": 1, "kind": "adaptation"}')
    done = cli(*command)
    assert done.code == 2
    assert path.name in done.out + done.err
    assert "Delete it" in done.out + done.err
    shown = cli("compare", "--view", "few-shot")
    assert path.name in shown.err
