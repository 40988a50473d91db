import json
import os
import re
import subprocess

import numpy as np
import pytest
import torch

from sdgbench import storage
from sdgbench.cli.text import loading
from sdgbench.records.schema import SCHEMA

RUN = ("run", "--method", "erm", "--dataset", "digits-mini", "--preset", "smoke")


def record_of(tmp_path):
    return next(tmp_path.glob("runs/*/*/*/record.json"))


def test_a_run_leaves_a_record_and_is_not_repeated(cli, tmp_path):
    first = cli(*RUN)
    assert first.code == 0
    assert re.search(r"erm on digits-mini \(smoke, seed 0\)\s+done\s+\d+\.\d\s+\d+\.\d", first.out)
    assert "reduced scale" in first.out
    path = record_of(tmp_path)
    files = {p.name for p in path.parent.iterdir()}
    assert {"record.json", "spec.json", "train.jsonl", "predictions.npz", "checkpoint.pt"} <= files
    before = path.read_bytes()
    second = cli(*RUN)
    assert second.code == 0
    assert "finished before" in second.out
    assert path.read_bytes() == before


def test_a_record_holds_everything_that_produced_it(cli, tmp_path):
    assert cli(*RUN, "--set", "recipe.lr=0.002").code == 0
    path = record_of(tmp_path)
    record = json.loads(path.read_text())
    assert record["schema"] == SCHEMA
    assert record["spec"]["recipe"]["lr"] == 0.002
    assert record["spec"]["recipe_changes"] == ["lr"]
    assert record["flags"]["recipe_changed"] == ["lr"]
    assert record["flags"]["params_changed"] == []
    assert record["classes"] == list("0123456789")
    assert len(record["results"]["last"]["per_domain"]["scan"]["class_accuracy"]) == 10
    assert record["flags"]["reduced_scale"].startswith("ConvNet of an eighth")
    assert record["flags"]["pretrained"] is False
    assert record["code"]["version"]
    assert record["packages"]["torch"] == torch.__version__.split("+")[0]
    assert record["machine"]["device"] == "cpu"
    assert record["source"]["train"]["count"] == 1297
    assert len(record["source"]["val"]["sha256"]) == 64
    assert record["cost"]["images_forward"] == 20 * 32
    phase = record["cost"]["phases"][0]
    assert (phase["name"], phase["steps"]) == ("train", 20)
    assert phase["seconds"] == record["cost"]["train_seconds"] > 0
    assert {"validation", "evaluate"} <= set(record["cost"]["other_seconds"])
    efficiency = record["efficiency"]
    assert efficiency["parameters_inference"] == efficiency["parameters_train"] > 10_000
    assert set(efficiency["latency"]) == {"batch_1", "batch_64"}
    assert efficiency["flops"] > 0
    assert record["files"]["predictions.npz"] == storage.sha256(path.parent / "predictions.npz")


def test_every_number_follows_from_the_predictions(cli, tmp_path, data):
    assert cli(*RUN).code == 0
    path = record_of(tmp_path)
    record = json.loads(path.read_text())
    stored = np.load(path.parent / "predictions.npz")
    from sdgbench import registry
    from sdgbench.spec import parameters

    cls = registry.get("dataset", "digits-mini").load()
    dataset = cls(data, parameters.build(cls.Options, {}), cls.recipe("smoke"))
    accuracies = []
    for name, result in record["results"]["last"]["per_domain"].items():
        domain = dataset.target(name).subsample(64)
        assert domain.sha256() == record["domains"][name]["sha256"]
        accuracies.append(np.mean(stored[f"last/{name}"] == domain.labels))
        assert result["accuracy"] == pytest.approx(accuracies[-1])
        assert result["count"] == record["domains"][name]["count"] == 64
    assert record["results"]["last"]["average"] == pytest.approx(np.mean(accuracies))
    assert record["results"]["last"]["worst"] == pytest.approx(min(accuracies))
    assert record["results"]["last"]["domains"] == 4


def test_the_same_seed_gives_the_same_numbers(cli, tmp_path):
    assert cli(*RUN, "--runs", "one").code == 0
    assert cli(*RUN, "--runs", "two").code == 0
    first, second = (
        json.loads(next((tmp_path / d).glob("*/*/*/record.json")).read_text())
        for d in ("one", "two")
    )
    assert first["results"] == second["results"]
    assert first["id"] == second["id"]


FAILING = '''
from sdgbench.method import Method
from sdgbench.registry import register_method

@register_method("sometimes")
class Sometimes(Method):
    """Fails on seed 1."""

    def train_step(self, x, y):
        if self.seed == 1:
            raise RuntimeError("seed 1 is unlucky")
        return self.optimise(self.task.loss(self.network(x), y))

@register_method("picky")
class Picky(Sometimes):
    """Makes no sense here."""

    @classmethod
    def skip(cls, task):
        return "it does not like digits"
'''


def test_one_failing_run_does_not_stop_the_others(cli, tmp_path):
    (tmp_path / "bad.py").write_text(FAILING)
    command = (
        "run",
        "--method",
        "sometimes,picky",
        "--plugin",
        "bad.py",
        "--dataset",
        "digits-mini",
        "--preset",
        "smoke",
        "--seeds",
        "0-2",
    )
    done = cli(*command)
    assert done.code == 1
    lines = {line.split(")")[0]: line for line in done.out.splitlines() if "(smoke" in line}
    assert "done" in lines["sometimes on digits-mini (smoke, seed 0"]
    assert "failed" in done.out
    assert "RuntimeError: seed 1 is unlucky" in done.out
    assert "it does not like digits" in done.out
    assert len(list(tmp_path.glob("runs/*/*/*/record.json"))) == 2
    failed = json.loads(next(tmp_path.glob("runs/*/*/*/failed.json")).read_text())
    assert failed["message"] == "seed 1 is unlucky"
    assert "train_step" in failed["traceback"]

    again = cli(*command)
    assert again.code == 1
    assert "failed before" in again.out
    (tmp_path / "bad.py").write_text(FAILING.replace("self.seed == 1", "False"))
    import sys

    for name in [name for name in sys.modules if name.startswith("sdgbench_plugin_bad")]:
        del sys.modules[name]
    retried = cli(*command)  # not --retry: the file has changed
    assert retried.code == 0
    assert not list(tmp_path.glob("runs/*/*/*/failed.json"))
    assert "made by another version of the method's file (--redo)" in retried.out


def test_a_grid_runs_all_values(cli, tmp_path):
    done = cli(*RUN, "--grid", "recipe.lr=0.003,0.002")
    assert done.code == 0
    assert len(list(tmp_path.glob("runs/*/*/*/record.json"))) == 2
    listed, verified = cli("status", "--all").out, cli("verify").out
    for value in ("0.003", "0.002"):  # live, in the summary, and later
        label = f"erm on digits-mini (smoke, seed 0, recipe.lr={value})"
        assert done.out.count(label) >= 2
        assert label in listed
        assert label in verified


def test_redo_runs_again(cli, tmp_path):
    assert cli(*RUN).code == 0
    marker = record_of(tmp_path).parent / "marker"
    marker.touch()
    assert cli(*RUN).code == 0
    assert marker.exists()
    assert cli(*RUN, "--redo").code == 0
    assert record_of(tmp_path).exists()
    assert not marker.exists()


BAD = {
    "verb": (("rnu",), 'No command "rnu". Did you mean "run"?'),
    "option": ((*RUN, "--methd", "x"), "No such option.*--methd"),
    "missing": (("run", "--method", "erm"), "Missing option '--dataset'"),
    "method": (
        ("run", "--method", "emr", "--dataset", "digits-mini"),
        'No method "emr". Did you mean "erm"?',
    ),
    "dataset": (
        ("run", "--method", "erm", "--dataset", "digts-mini"),
        'Did you mean "digits-mini"',
    ),
    "preset": ((*RUN[:5], "--preset", "quik"), 'No preset "quik". Did you mean "quick"'),
    "device": ((*RUN, "--device", "gpu"), 'No device "gpu"'),
    "key": ((*RUN, "--set", "recipe.steeps=3"), 'Did you mean "steps"'),
    "no value": ((*RUN, "--set", "recipe.steps"), "not of the form --set key=value"),
    "type": ((*RUN, "--set", "recipe.steps=many"), "which takes: integer"),
    "value": ((*RUN, "--set", "recipe.batch=-4"), "must be above 0"),
    "the preset's value": (
        (*RUN, "--set", "recipe.lr=fast"),
        r'"fast" does not fit recipe.lr, .* Default: 0.001 \(preset smoke\)',
    ),
    "grid": ((*RUN, "--grid", "recipe.lr=fast,0.1"), "which takes: number"),
    "negative seed": ((*RUN, "--seeds", "-1"), "negative"),
    "seed": ((*RUN, "--seeds", "one"), "not a seed"),
    "range": ((*RUN, "--seeds", "5-2"), "smaller one first"),
    "network": ((*RUN, "--set", "recipe.network=convnt"), 'Did you mean "convnet"'),
    "plugin": ((*RUN, "--plugin", "gone.py"), "Cannot read the plugin .*gone.py"),
    "info": (("info", "emr"), 'No method, dataset or network "emr". Did you mean "erm"'),
    "no runs": (("compare", "--runs", "nowhere"), "No finished runs match in nowhere"),
    "shell": (("completion", "tcsh"), "tcsh"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, cli):
    done = cli(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert re.search(message, done.err), done.err
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1


def test_a_file_as_runs_folder(cli, tmp_path):
    (tmp_path / "runs").write_text("")
    done = cli(*RUN)
    assert (done.code, done.out) == (2, "")
    assert re.search("There is a file where a folder is needed", done.err)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_runs_folder(cli, tmp_path):
    (tmp_path / "runs").mkdir(mode=0)
    for arguments in (RUN, ("compare",)):
        done = cli(*arguments)
        assert done.code == 2
        assert "Permission was denied" in done.err


def test_an_unreadable_runs_folder_for_an_ordinary_user(tmp_path, python):
    """The same as above for CI that runs as root: it steps down to an ordinary user."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    folder = tmp_path / "runs"
    folder.mkdir(mode=0)
    for parent in [tmp_path, *tmp_path.parents][:4]:
        parent.chmod(parent.stat().st_mode | 0o055)
    code = (
        "import os, sys; from pathlib import Path; from sdgbench.records.store import Store\n"
        "from sdgbench.errors import UserError\n"
        "os.setuid(65534)\n"
        "for writable in (False, True):\n"
        "    try: Store(Path(sys.argv[1])).check(writable=writable)\n"
        "    except UserError as error: print(error)"
    )
    done = python("-c", code, folder)
    assert done.stdout.count("Permission was denied") == 2, done.stderr


def test_a_corrupt_checkpoint(cli, tmp_path):
    assert cli(*RUN).code == 0
    folder = record_of(tmp_path).parent
    (folder / "record.json").unlink()
    (folder / "checkpoint.pt").write_bytes(b"PK nonsense")
    done = cli(*RUN)
    assert done.code == 0
    assert "checkpoint.pt is damaged: it is not used" in done.out
    assert "no checkpoint is whole, so the run starts again" in done.out


def test_a_record_of_a_newer_schema(cli, tmp_path):
    assert cli(*RUN).code == 0
    path = record_of(tmp_path)
    record = json.loads(path.read_text())
    storage.write_json(path, {**record, "schema": 99})
    done = cli(*RUN)
    assert (done.code, done.out) == (2, "")
    assert "newer than this sdgbench knows" in done.err
    compared = cli("compare")
    assert compared.code == 2
    assert "newer than this sdgbench knows" in compared.err
    assert compared.err.count("\n") == 1
    # Next to a good record it is named, and the table is still printed.
    assert cli(*RUN, "--seeds", "1").code == 0
    compared = cli("compare")
    assert compared.code == 1
    assert "Skipped:" in compared.err
    assert "erm" in compared.out


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)], capture_output=True
    )
    if made.returncode:
        pytest.skip("cannot mount a small tmpfs here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_loses_nothing(cli, small_disk, tmp_path):
    done = cli(*RUN, "--runs", small_disk)
    assert done.code == 2
    assert re.search(r"Error: Cannot write .*checkpoint\.pt\. No space is left there", done.err)
    assert "Traceback" not in done.out + done.err
    left = {p.name for p in small_disk.rglob("*") if p.is_file()}
    assert left <= {"spec.json", "train.jsonl", "lock", "owner", "progress.json"}
    subprocess.run(["mount", "-o", "remount,size=40m", str(small_disk)], check=True)
    assert cli(*RUN, "--runs", small_disk).code == 0


def test_compare_prints_every_format(cli, tmp_path):
    assert cli(*RUN, "--seeds", "0-1").code == 0
    table = cli("compare")
    assert table.code == 0
    assert "street" in table.out
    assert re.search(r"\d+\.\d ±\d+\.\d", table.out)  # upright or on its side: as the scores fit
    assert "reduced scale" in table.out
    assert max(map(len, table.out.split("\n\n")[0].splitlines()[:4])) <= 80
    markdown = cli("compare", "--format", "md").out
    assert markdown.splitlines()[2].startswith("| method | n | source |")
    csv = cli("compare", "--format", "csv").out.splitlines()
    assert csv[0].startswith("dataset,preset")
    assert len(csv) == 2
    rows = json.loads(cli("compare", "--format", "json").out)
    assert rows[0]["n"] == 2
    assert rows[0]["average"] == pytest.approx(
        np.mean([rows[0][name] for name in ("street", "texture", "print", "scan")])
    )
    assert cli("compare", "--method", "nobody").code == 2
    assert cli("compare", "--choice", "val").code == 0


def test_compare_imports_no_torch(without_torch, cli, tmp_path):
    assert cli(*RUN).code == 0
    assert "erm" in without_torch("compare", "--runs", tmp_path / "runs")


def test_a_run_loads_only_what_it_needs(python):
    """torchvision takes as long to import as torch; most runs need none of it."""
    code = "import sys, sdgbench.launch.attempt; print('torchvision' in sys.modules)"
    assert python("-c", code).stdout.strip() == "False"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_hears_that_torch_is_loaded(terminal, capsys, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    with loading():
        pass
    assert ("Loading PyTorch" in capsys.readouterr().err) == terminal


VERBS = [
    "run",
    "tune",
    "status",
    "adapt",
    "compare",
    "report",
    "plot",
    "list",
    "info",
    "new",
    "check",
    "verify",
    "doctor",
    "completion",
]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb, cli):
    done = cli(verb, "--help")
    assert done.code == 0
    assert "Example" in done.out
    assert "sdgbench" in done.out.split("Example")[1]


def test_help_names_all_verbs(cli):
    done = cli("--help")
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", done.out, re.M)
    assert cli("--version").out.startswith("sdgbench 0.")


def test_info_and_doctor(cli, data):
    method = cli("info", "erm").out
    assert "Vapnik" in method
    assert "Parameters (--set key=value): none" in method
    dataset = cli("info", "digits-mini").out
    assert "10000" in dataset
    assert re.search(r"street\s+unseen\s+1,000\s+32x32", dataset)
    assert "reduced scale" in dataset
    doctor = cli("doctor").out
    assert f"torch {torch.__version__.split('+')[0]}" in doctor
    assert "digits-mini" in doctor


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell, cli):
    assert "_SDGBENCH_COMPLETE" in cli("completion", shell).out


def test_names_complete(python):
    environment = {
        **os.environ,
        "_SDGBENCH_COMPLETE": "bash_complete",
        "COMP_CWORD": "3",
        "COMP_WORDS": "sdgbench run --dataset digi",
    }
    done = python("-m", "sdgbench", env=environment)
    assert "plain,digits-mini" in done.stdout


def test_output_has_a_short_form_in_every_verb():
    import click

    from sdgbench.cli.app import VERBS, cli

    context = click.Context(cli)
    found = 0
    for verb in VERBS:
        command = cli.get_command(context, verb)
        below = command.commands.values() if isinstance(command, click.Group) else ()
        for option in [*command.params, *(param for part in below for param in part.params)]:
            if "--output" in option.opts:
                found += 1
                assert "-o" in option.opts, verb
    assert found >= 5
