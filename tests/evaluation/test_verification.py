import json

import numpy as np
import pytest

from sdgbench.cli.app import main
from sdgbench.errors import UserError
from sdgbench.evaluation import verification
from sdgbench.launch.execute import execute
from sdgbench.records.reading import decode, encode
from sdgbench.records.store import Store
from sdgbench.reporter import Silent
from sdgbench.spec import resolution
from sdgbench.training.device import Device


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One finished run, its folder and its data."""
    root = tmp_path_factory.mktemp("verify")
    asked = resolution.resolve("erm", "digits-mini", "smoke", 0, [("recipe.steps", "3")])
    store = Store(root / "runs")
    found = execute(asked, store, root / "data", Device("cpu"), Silent())
    return found, store.folder(asked), root / "data"


def verify(record, folder, data):
    return verification.verify(decode(json.dumps(record).encode()), folder, data)


@pytest.fixture
def copy(finished, tmp_path):
    """A copy that may be damaged."""
    found, folder, data = finished
    there = tmp_path / "runs" / "digits-mini" / "erm" / found.id
    there.mkdir(parents=True)
    for name in ("record.json", "predictions.npz", "train.jsonl"):
        (there / name).write_bytes((folder / name).read_bytes())
    return encode(found), there, data


def test_a_true_record_is_verified(copy):
    verdict = verify(*copy)
    assert verdict.ok
    # 4 domains: count and hash, and 4 scores for each of the 2 choices; 5 means per choice
    assert verdict.numbers == 4 * 2 + 2 * (4 * 4 + 5) + 2  # and the two splits of the source


def test_samples_of_the_embedding_may_be_left_out_but_not_replaced(copy):
    found, folder, data = copy
    assert "embeddings.npz" in found["files"]
    assert not (folder / "embeddings.npz").exists()
    (folder / "embeddings.npz").write_bytes(b"other")
    (said,) = verify(found, folder, data).differences
    assert said.startswith("embeddings.npz is not the file")


def test_a_record_of_an_earlier_version_is_verified_by_what_it_tells(copy):
    found, folder, data = copy
    for result in found["results"].values():
        del result["per_domain"]["street"]["class_accuracy"]
    verdict = verify(found, folder, data)
    assert verdict.ok
    assert verdict.numbers == 4 * 2 + 2 * (4 * 4 + 5) - 2 + 2
    del found["results"]["last"]["per_domain"]["street"]["accuracy"]  # the ranked one must be there
    assert not verify(found, folder, data).ok


@pytest.mark.parametrize(
    "where",
    [
        ("last", "per_domain", "street", "accuracy"),
        ("last", "average"),
        ("val", "worst"),
        ("last", "per_domain", "scan", "correct"),
        ("val", "per_domain", "print", "class_accuracy", 3),
    ],
)
def test_each_number_that_differs_is_named(copy, where):
    found, folder, data = copy
    place = found["results"]
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] += 0.01 if isinstance(place[where[-1]], float) else 1
    verdict = verify(found, folder, data)
    assert len(verdict.differences) == 1
    assert next(key for key in reversed(where) if isinstance(key, str)) in verdict.differences[0]


def test_changed_predictions_are_found(copy):
    found, folder, data = copy
    path = folder / "predictions.npz"
    with np.load(path) as stored:
        arrays = {name: stored[name].copy() for name in stored.files}
    wrong = arrays["last/street"]
    wrong[:] = (wrong + 1) % 10
    np.savez_compressed(path, **arrays)
    verdict = verify(found, folder, data)
    assert any("sha256 differs" in text for text in verdict.differences)
    assert any(text.startswith("last, street: accuracy") for text in verdict.differences)


def test_other_data_are_found(copy):
    found, folder, data = copy
    found["domains"]["print"]["sha256"] = "0" * 64
    (difference,) = verify(found, folder, data).differences
    assert difference.startswith("domain print: sha256")


def test_damaged_and_lost_predictions_are_named(copy):
    found, folder, data = copy
    (folder / "predictions.npz").write_bytes(b"no archive")
    assert "sha256 differs" in verify(found, folder, data).differences[0]
    (folder / "predictions.npz").unlink()
    assert verify(found, folder, data).differences[0] == "predictions.npz is gone."


def test_another_version_of_the_dataset_cannot_be_verified(copy):
    found, folder, data = copy
    found["spec"]["dataset_version"] = 99
    with pytest.raises(UserError, match="version 99"):
        verify(found, folder, data)


def run_verify(*arguments):
    with pytest.raises(SystemExit) as stop:
        main(["verify", *map(str, arguments)])
    return stop.value.code


def test_the_command(copy, capsys):
    found, folder, data = copy
    runs = folder.parents[2]
    assert run_verify("--runs", runs, "--data", data) == 0
    assert "1 verified" in capsys.readouterr().out
    found["results"]["last"]["average"] = 0.99
    (folder / "record.json").write_text(json.dumps(found))
    assert run_verify(folder, "--data", data) == 1
    out = capsys.readouterr().out
    assert "DIFFERS" in out
    assert "0.99" in out
    (folder / "record.json").write_text("{")
    assert run_verify("--runs", runs, "--data", data) == 1
    assert "not checked" in capsys.readouterr().out


def test_an_empty_folder_is_refused(tmp_path, capsys):
    assert run_verify("--runs", tmp_path / "none") == 2
    assert "no finished run" in capsys.readouterr().err


# Forged records --------------------------------------------------------------------------------


def forged(path, value):
    def forge(record):
        where = record
        *parents, last = path.split("/")
        for parent in parents:
            where = where[parent]
        if value is ...:
            del where[last]
        else:
            where[last] = value

    return forge


def without_worst(record):
    for result in record["results"].values():
        worst = result["worst_domain"]
        del result["per_domain"][worst]
    del record["domains"][worst]


@pytest.mark.parametrize(
    ("forge", "finding"),
    [
        (forged("spec/method", "mada"), "its id is"),
        (forged("spec/seed", 7), "its id is"),
        (forged("spec/preset", "quick"), "its id is"),
        (forged("spec/recipe/lr", 0.5), "its id is"),
        (forged("spec/recipe/reduced", ""), "does not say so"),
        (forged("id", "0" * 12), "its id is"),
        (forged("source/train/sha256", "0" * 64), "source, train: its sha256"),
        (forged("flags/reduced_scale", None), "reduced_scale"),
        (forged("flags/recipe_changed", []), "recipe_changed"),
        (without_worst, "missing without a word"),
        (forged("results/val", ...), "val: there are no results"),
        (forged("results/last/step", 99), "its step is 99"),
        (forged("results/last/source_val", 0.99), "source_val"),
    ],
)
def test_a_forged_record_is_found(forge, finding, copy):
    found, folder, data = copy
    forge(found)
    assert any(finding in text for text in verify(found, folder, data).differences)


def test_the_checkpoint_of_another_run_is_found(copy):
    found, folder, data = copy
    (folder / "checkpoint.pt").write_bytes(b"another run's")
    (difference,) = verify(found, folder, data).differences
    assert difference == "checkpoint.pt is not the file that the run wrote: its sha256 differs."


def test_a_folder_of_another_name_is_found(copy):
    found, folder, data = copy
    there = folder.rename(folder.with_name("elsewhere"))
    assert any("its folder is called" in text for text in verify(found, there, data).differences)


def test_a_record_without_hashes_says_so(copy):
    found, folder, data = copy
    found["files"] = {}
    assert verify(found, folder, data).unhashed == ("predictions.npz", "train.jsonl")


def test_one_damaged_record_does_not_hide_the_others(copy, capsys):
    found, folder, data = copy
    bad = folder.parents[1] / "aaa" / "bad"
    bad.mkdir(parents=True)
    found["spec"]["recipe"] = {"x": 1}
    (bad / "record.json").write_text(json.dumps(found))
    assert run_verify("--runs", folder.parents[2], "--data", data) == 1
    out = capsys.readouterr().out
    assert "1 verified" in out
    assert "not checked" in out
