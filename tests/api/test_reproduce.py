"""A run is made again by its id, and the verdict says how far both agree."""

import json
import shutil

import numpy as np
import pytest

import sdgbench
from sdgbench.api.finished import load_run
from sdgbench.api.reproduce import Agreement, Reproduction
from sdgbench.errors import UserError
from sdgbench.records import arrays


@pytest.fixture
def runs(finished, inside):
    shutil.copytree(finished / "runs", inside / "runs")
    return inside / "runs"


def run_folder(runs, method="jigen"):
    (folder,) = (runs / "digits-mini" / method).iterdir()
    return folder


def change(folder, **changes):
    path = folder / "record.json"
    record = json.loads(path.read_text())
    for key, value in changes.items():
        section, _, name = key.partition("__")
        record[section][name] = value
    path.write_text(json.dumps(record))


def test_a_run_is_reproduced_bit_for_bit_by_its_id(runs, cli):
    folder = run_folder(runs)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    done = cli("reproduce", folder.name[:6])
    assert done.code == 0, done.err
    assert "Verdict: bit-equal." in done.out
    assert done.out.count("100.00%") == 4
    assert "training curve: equal at every point" in done.out
    assert (runs.parent / "reproductions" / "digits-mini" / "jigen" / folder.name).is_dir()
    assert before == {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_what_differs_is_named_before_it_starts_and_with_the_verdict(runs, cli):
    folder = run_folder(runs, "erm")
    change(folder, code__method_file_sha256="f" * 64, source__name="handwriting")
    change(folder, packages__torch="1.0")
    record = json.loads((folder / "record.json").read_text())
    record["domains"]["scan"]["sha256"] = "0" * 64
    (folder / "record.json").write_text(json.dumps(record))
    done = cli("reproduce", folder, "--threads", "2")
    assert "Before it starts: The file of the method erm changed: ffffffffffff then" in done.err
    assert "Before it starts: The data of scan differ from the record's." in done.err
    assert "threads: 1 then, 2 now." in done.out
    assert "torch: 1.0 then" in done.out


def test_predictions_decide_the_verdict(runs):
    folder = run_folder(runs)
    stored = arrays.read_arrays(folder / arrays.PREDICTIONS)
    stored["last/scan"] = (stored["last/scan"] + 1) % 10
    arrays.write_arrays(folder / arrays.PREDICTIONS, stored)
    done = sdgbench.reproduce(folder, progress=False)
    assert done.verdict == "differs"
    assert {domain.domain: domain.equal for domain in done.domains}["scan"] == 0.0
    assert done.same_curve is True


@pytest.mark.parametrize(
    ("shares", "curve", "verdict"),
    [
        ((1.0, 1.0), True, "bit-equal"),
        ((1.0, 1.0), None, "bit-equal"),
        ((1.0, 1.0), False, "equal up to roundings"),
        ((0.995, 1.0), False, "equal up to roundings"),
        ((0.98, 1.0), False, "differs"),
        ((None, 1.0), True, "equal up to roundings"),
    ],
)
def test_the_rules_of_the_verdict(runs, shares, curve, verdict):
    run = load_run(run_folder(runs))
    domains = tuple(Agreement(f"d{n}", 0.5, 0.5, share) for n, share in enumerate(shares))
    assert Reproduction(run, run, domains, curve, ()).verdict == verdict


def test_scores_without_predictions_are_compared(runs):
    folder = run_folder(runs)
    (folder / arrays.PREDICTIONS).unlink()
    done = sdgbench.reproduce(folder, progress=False)
    assert all(domain.equal is None for domain in done.domains)
    assert done.verdict == "equal up to roundings"
    assert np.isclose(done.domains[0].original, done.domains[0].again)


def test_bad_input_is_one_line(runs, cli):
    folder = run_folder(runs)
    shutil.copytree(folder, folder.with_name(folder.name[:6] + "ffffff"))
    for words, text in (
        ((folder.name[:6],), "is the start of 2 ids"),
        (("zzz",), "No run in"),
        ((folder, "--to", runs), "is the run itself"),
    ):
        done = cli("reproduce", *words)
        assert done.code == 2
        assert text in done.err
        assert len(done.err.strip().splitlines()) == 1
    record = json.loads((folder / "record.json").read_text())
    record["spec"]["method"] = "gone"
    (folder / "record.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match=r'method "gone" is not known here.*--plugin'):
        sdgbench.reproduce(folder)


def test_a_record_is_shown_for_a_person(runs, without_torch, cli):
    folder = run_folder(runs)
    shown = without_torch("show", folder.name, "--runs", runs)
    record = load_run(folder).record
    for text in ("jigen on digits-mini (smoke, seed 0)", record.id, "reduced scale", "threads 1"):
        assert text in shown
    assert f"{100 * record.last.average:.2f}" in shown
    assert cli("show", "zzz").code == 2
