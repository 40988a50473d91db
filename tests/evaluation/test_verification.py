import json
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

from sdgbench import load_records, storage
from sdgbench.cli.app import main
from sdgbench.datasets.digits_mini import DigitsMini
from sdgbench.errors import MissingData, UserError
from sdgbench.evaluation import verification
from sdgbench.launch.execute import execute
from sdgbench.methods.erm import ERM
from sdgbench.records.reading import decode, encode
from sdgbench.records.store import Store
from sdgbench.reporter import Silent
from sdgbench.spec import resolution
from sdgbench.training import checkpoint
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
    assert verdict.state == "verified"
    # 4 domains: count and hash, and 4 scores for each of the 2 choices; 5 means per choice
    assert verdict.numbers == 4 * 2 + 2 * (4 * 4 + 5) + 2 * 2  # and the two splits of the source


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
    assert verdict.state == "verified"
    assert verdict.numbers == 4 * 2 + 2 * (4 * 4 + 5) - 2 + 2 * 2
    del found["results"]["last"]["per_domain"]["street"]["accuracy"]  # the ranked one must be there
    assert verify(found, folder, data).state == "differs"


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
            where = where[int(parent) if isinstance(where, list) else parent]
        last = int(last) if isinstance(where, list) else last
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


def worst_called_missing(record):
    worst = record["results"]["last"]["worst_domain"]
    without_worst(record)
    record["missing_domains"] = [worst]


def without_results(record):
    for result in record["results"].values():
        result["per_domain"] = {}


def with_more_steps(record):
    record["results"]["last"]["step"] = record["cost"]["phases"][0]["steps"] = 99


FORGED = {
    "method": (forged("spec/method", "mada"), "its id is"),
    "seed": (forged("spec/seed", 7), "its id is"),
    "preset": (forged("spec/preset", "quick"), "its id is"),
    "parameters": (forged("spec/params", {"alpha": 1.0}), "its id is"),
    "recipe": (forged("spec/recipe/lr", 0.5), "its id is"),
    "targets": (forged("spec/targets", ["scan"]), "its id is"),
    "id": (forged("id", "0" * 12), "its id is"),
    "steps": (forged("results/last/step", 99), "its step is 99"),
    "steps and cost": (with_more_steps, "last: its step is 99, on the curve it is 3"),
    "validated step": (forged("results/val/step", 0), "val: its step is 0, on the curve"),
    "source validation": (forged("results/last/source_val", 0.99), "source_val"),
    "source hash": (forged("source/train/sha256", "0" * 64), "source, train: sha256"),
    "source count": (forged("source/val/count", 5), "source, val: count"),
    "source name": (forged("source/name", "mnist"), "source: its name is"),
    "hidden reduced scale": (forged("flags/reduced_scale", None), "reduced_scale"),
    "reduced scale of the recipe": (forged("spec/recipe/reduced", ""), "does not say so"),
    "emptied flags": (forged("flags", {}), "reduced_scale"),
    "changed recipe": (forged("flags/recipe_changed", []), "recipe_changed"),
    "changed parameters": (forged("flags/params_changed", ["x"]), "params_changed"),
    "reduced parameters": (forged("flags/reduced_parameters", {"a": [1, 2]}), "reduced_parameters"),
    "initial weights": (forged("weights", {"name": "x", "sha256": "y"}), "pretrained weights"),
    "removed worst domain": (without_worst, "missing without a word"),
    "worst domain called missing": (worst_called_missing, "the record leaves it out"),
    "added domain": (forged("missing_domains", ["attic"]), "none of the run's"),
    "tags": (forged("domains/scan/tags", {"severity": 5}), "domain scan: its tags"),
    "removed results": (without_results, "its results are not those of the domains"),
    "removed choice": (forged("results/val", ...), "val: there are no results"),
    "metric": (forged("metric", "mIoU"), "its metric is mIoU"),
    "classes": (forged("classes/0", "one"), "its classes are not those"),
    "hash of the predictions": (forged("files/predictions.npz", "0" * 64), "sha256 differs"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_record_is_found(what, copy):
    forge, finding = FORGED[what]
    found, folder, data = copy
    forge(found)
    assert any(finding in text for text in verify(found, folder, data).differences)


# Nothing is stored to check these; a flag that is added hides nothing.
NOT_FOUND = (
    "started", "finished", "efficiency", "embedding", "transport", "cost", "code", "packages",
    "machine", "elsewhere", "flags/pretrained", "flags/unverified_data", "flags/regenerated",
    "flags/frost_overlays", "flags/incomplete_source", "flags/opened_data", "flags/method",
    "flags/other", "files/embeddings.npz", "files/checkpoint.pt",  # which may be left out
)  # fmt: skip
OTHER_DOMAINS = ("texture", "print", "scan")  # one of four is enough


def values_below(value, path=""):
    """The paths to all values that verify promises to check; of lists, the first element."""
    if path in NOT_FOUND:
        return
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            if key not in OTHER_DOMAINS:
                yield from values_below(inner, f"{path}/{key}".lstrip("/"))
    elif isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        yield from values_below(value[0], f"{path}/0")
    else:
        yield path, value


def changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 + 0.123
    if isinstance(value, list):
        return [*value[1:], "x"]
    return {"x": "y"} if value == {} else f"{value or ''}x"


def test_every_value_that_is_changed_is_found(copy):
    """Each value of a record by itself, but for those that the documents name."""
    found, folder, data = copy
    tried = list(values_below(found))
    assert len(tried) > 60
    for path, value in tried:
        record = deepcopy(found)
        forged(path, changed(value))(record)
        try:
            state = verify(record, folder, data).state
        except (UserError, TypeError):  # the command calls it damaged
            continue
        assert state != "verified", path


def test_flags_of_the_data_that_were_emptied_are_named(copy, monkeypatch):
    found, folder, data = copy
    marks = {"unverified_data": ["scan"], "incomplete_source": "1 of 2", "reduced_images": ["8x8"]}
    monkeypatch.setattr(DigitsMini, "data_flags", lambda self: marks)
    verdict = verify(found, folder, data)
    assert verdict.state == "unverified"
    assert [text.split()[6] for text in verdict.unconfirmed] == [f"{name}:" for name in marks]
    found["flags"] |= {"unverified_data": ["print", "scan"], "incomplete_source": "1 of 2"}
    found["flags"]["other"] = {"reduced_images": ["8x8"]}
    assert verify(found, folder, data).state == "verified"


def test_flags_of_the_method_that_were_emptied_are_found(copy, monkeypatch):
    found, folder, data = copy
    monkeypatch.setattr(ERM, "flags", {"extra_data": "uses more images"})
    (difference,) = verify(found, folder, data).differences
    assert difference == "flags: the method declares extra_data, and the record does not."
    found["code"]["method_file_sha256"] = "0" * 64  # another file: it may not have declared it
    verdict = verify(found, folder, data)
    assert verdict.state == "unverified"
    assert "the method's file is another one here" in verdict.unconfirmed[0]


@pytest.mark.parametrize("what", ["flags/params_changed", "source/train/sha256"])
def test_what_was_not_recorded_is_not_verified(what, copy):
    found, folder, data = copy
    forged(what, None if what.startswith("flags") else "")(found)
    assert verify(found, folder, data).state == "unverified"


def test_domains_without_data_are_not_verified(copy, monkeypatch, cli):
    found, folder, data = copy

    def target(self, name):
        raise MissingData("there is none")

    verification._cached_target.cache_clear()
    monkeypatch.setattr(DigitsMini, "target", target)
    verdict = verify(found, folder, data)
    assert verdict.state == "unverified"
    assert verdict.unchecked == ("street", "texture", "print", "scan")
    done = cli("verify", folder, "--data", data)
    assert done.code == 1
    assert "no data here for street, texture, print, scan" in done.out
    assert "1 unverified" in done.out


def test_the_checkpoint_of_another_run_is_found(finished, copy):
    found, folder, data = copy
    (folder / "checkpoint.pt").write_bytes(b"another run's")
    differences = verify(found, folder, data).differences
    assert "checkpoint.pt is not the file that the run wrote: its sha256 differs." in differences
    assert any("is damaged" in text for text in differences)
    # Even where its hash was written into the record.
    state = torch.load(finished[1] / "checkpoint.pt", weights_only=True)
    checkpoint.save(folder / "checkpoint.pt", {**state, "run": "0123456789ab"})
    found["files"]["checkpoint.pt"] = storage.sha256(folder / "checkpoint.pt")
    (difference,) = verify(found, folder, data).differences
    assert difference == "checkpoint.pt belongs to the run '0123456789ab'."


def test_a_record_that_was_renamed_with_its_folder_is_found_by_its_checkpoint(finished, copy):
    found, folder, data = copy
    (folder / "checkpoint.pt").write_bytes((finished[1] / "checkpoint.pt").read_bytes())
    assert verify(found, folder, data).state == "verified"
    found["spec"]["seed"] = 7
    found["id"] = decode(json.dumps(found).encode()).spec.id
    there = folder.rename(folder.with_name(found["id"]))
    (difference,) = verify(found, there, data).differences
    assert difference.startswith("checkpoint.pt belongs to the run")


def test_tables_say_which_runs_are_unverified(copy, cli):
    found, folder, _ = copy
    command = ("compare", "--runs", folder.parents[2])
    page = ("report", "--runs", folder.parents[2], "--no-samples", "--output", "page.html")
    assert "unverified" not in cli(*command).out
    forgeries = {
        "its id is": forged("spec/seed", 7),
        "reduced_scale": forged("flags/reduced_scale", None),
        "no hash of": forged("files", {}),
    }
    for reason, forge in forgeries.items():
        record = deepcopy(found)
        forge(record)
        (folder / "record.json").write_text(json.dumps(record))
        for style in ("table", "md", "latex", "csv", "json", "html"):
            printed = " ".join(cli(*command, "--format", style).out.replace("\\", "").split())
            assert f"erm: unverified (seed {record['spec']['seed']}: " in printed, style
            assert reason in printed
        cli(*page)
        assert "erm: unverified (seed" in Path("page.html").read_text()
    (folder / "record.json").write_text(json.dumps(found))
    (folder / "predictions.npz").unlink()
    assert "predictions.npz is missing" in " ".join(cli(*command).out.split())
    assert load_records(folder.parents[2]).to_frame()["flags"].str.contains("unverified").all()


def test_links_to_runs_are_named_and_not_followed(copy, cli):
    _, folder, data = copy
    link = folder.parents[1] / "linked"
    link.symlink_to(folder.parent)
    done = cli("verify", "--runs", folder.parents[2], "--data", data)
    assert done.code == 1
    assert f"{link} is a link, which is not followed." in done.out
    assert "1 verified, 1 not checked" in done.out


def test_a_folder_of_another_name_is_found(copy):
    found, folder, data = copy
    there = folder.rename(folder.with_name("elsewhere"))
    assert any("its folder is called" in text for text in verify(found, there, data).differences)


def test_a_record_without_hashes_says_so(copy):
    found, folder, data = copy
    found["files"] = {}
    verdict = verify(found, folder, data)
    assert verdict.state == "unverified"
    assert verdict.unconfirmed == (
        "there is no hash of predictions.npz.",
        "there is no hash of train.jsonl.",
    )


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


def test_a_method_that_is_not_here_is_named_with_its_run_and_its_file(copy, capsys):
    found, folder, data = copy
    found["spec"]["method"] = "mine"
    (folder / "record.json").write_text(json.dumps(found))
    assert run_verify(folder, "--data", data) == 1
    text = " ".join(capsys.readouterr().out.split())
    sha256 = found["code"]["method_file_sha256"][:12]
    assert (
        "not checked mine on digits-mini (smoke, seed 0, recipe.steps=3): "
        'The method "mine" is not known here. '
        f"Add its file (sha256 {sha256}...) with --plugin."
    ) in text
