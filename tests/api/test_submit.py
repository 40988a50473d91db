"""A submission keeps all rules or is refused as a whole; badges follow from what was checked."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import sample_records

import sdgbench
from sdgbench import registry
from sdgbench.leaderboard import leaderboards, load, make_table, render
from sdgbench.records import arrays, badges

ADA = {"name": "Ada Lovelace", "contact": "ada@example.org", "licence": "CC-BY-4.0"}
PERSON = ("--name", ADA["name"], "--contact", ADA["contact"], "--licence", ADA["licence"])
PLUGIN = '''"""Mine."""
from sdgbench import register_method
from sdgbench.method import Method


@register_method("mine")
class Mine(Method):
    """Plain training."""
'''


@pytest.fixture
def place(verifiable_runs, tmp_path, monkeypatch):
    """A working directory with runs, their data and an empty leaderboard."""
    shutil.copytree(verifiable_runs / "runs", tmp_path / "runs")
    (tmp_path / "records").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SDGBENCH_DATA", str(verifiable_runs / "data"))  # one path: opened once
    return tmp_path


def submit(runs, **options):
    """Submit to the leaderboard of this test."""
    return sdgbench.submit(
        runs, "records", **{**ADA, "data": os.environ["SDGBENCH_DATA"], **options}
    )


def verifiable(place, *about):
    return sample_records.verifiable(place / "runs", Path(os.environ["SDGBENCH_DATA"]), *about)


def folders(place, method, root="runs"):
    return sorted((place / root / "digits-mini" / method).iterdir())


def files_below(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def edit(folder, change):
    path = folder / "record.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def badges_of(folder):
    (board,) = leaderboards(load([folder]).runs)
    return {row.name: row.badge for row in board.rows}


def test_a_submission_that_keeps_all_rules_is_copied_and_verified(place, cli):
    (place / "runs" / "digits-mini" / "erm" / "not-a-run").mkdir()
    done = cli("submit", "runs", "--to", "records", *PERSON)
    assert done.code == 0, done.err
    assert done.out == "Submitted to records: 6 written.\n"
    for original in folders(place, "gud"):
        copy = place / "records" / "digits-mini" / "gud" / original.name
        assert {path.name for path in copy.iterdir()} == {
            "record.json",
            "predictions.npz",
            "train.jsonl",
            "submission.json",
            "verification.json",
        }
        for name in ("record.json", "predictions.npz", "train.jsonl"):
            assert (copy / name).read_bytes() == (original / name).read_bytes()
        submission = badges.submission(copy)
        assert submission.submitter == badges.Person(name=ADA["name"], contact=ADA["contact"])
        assert submission.licence == "CC-BY-4.0"
        assert badges.badge_of(copy) == "verified"
    assert not list((place / "records").glob(".*"))
    assert badges_of(place / "records") == {"erm": "verified", "gud": "verified"}
    before = files_below(place / "records")
    again = cli("submit", "runs", "--to", "records", *PERSON)  # the same again is harmless
    assert again.out == "Submitted to records: 6 already there.\n"
    assert files_below(place / "records") == before
    shown = cli("show", folders(place, "gud", "records")[0])
    assert "verified: every score on unseen domains was" in shown.out
    assert "ada@example.org" in shown.out


def only_two_seeds(place):
    shutil.rmtree(folders(place, "gud")[0])
    return "gud on digits-mini, smoke has 2 seeds ("


def no_erm(place):
    shutil.rmtree(place / "runs" / "digits-mini" / "erm")
    return (
        "gud on digits-mini, smoke needs erm of the same protocol for the seeds 0,1,2: sdgbench "
        "run --dataset digits-mini --preset smoke --method erm --seeds 0,1,2"
    )


def edited_code(place):
    edit(folders(place, "gud")[0], lambda record: record["code"].update(dirty=True))
    return "its code was edited after the commit 0000000. Commit the changes and run it again."


def no_commit(place):
    edit(folders(place, "gud")[0], lambda record: record["code"].update(commit=None, dirty=None))
    return "its code has no commit"


def damaged(place):
    path = folders(place, "gud")[0] / "record.json"
    path.write_text(path.read_text()[:-9])
    return "record.json is damaged or half-written"


def other_numbers(place):
    def change(record):
        record["results"]["last"]["worst"] += 0.01

    edit(folders(place, "gud")[0], change)
    return "and the record says"


def another_record(place):
    folder = folders(place, "erm")[0]
    there = place / "records" / "digits-mini" / "erm" / folder.name
    shutil.copytree(folder, there)
    edit(there, lambda record: record.update(finished="2020-01-01T00:00:00+00:00"))
    return "has another record of this run. If you ran it again to check it: --reproduction."


@pytest.mark.parametrize(
    "spoil",
    [only_two_seeds, no_erm, edited_code, no_commit, damaged, other_numbers, another_record],
)
def test_one_broken_rule_is_one_line_and_nothing_is_copied(place, cli, spoil):
    text = spoil(place)
    before = files_below(place / "records")
    done = cli("submit", "runs", "--to", "records", *PERSON)
    assert done.code == 2
    lines = [line for line in done.err.splitlines() if text in line]
    assert len(lines) == 1, done.err
    assert all(line.startswith("Error: ") for line in done.err.splitlines())
    assert files_below(place / "records") == before


def test_two_protocols_are_refused(place, cli):
    sample_records.write(place / "runs", ("erm",), range(3), ["digits"])
    done = cli("submit", "runs", "--to", "records", "--claimed", *PERSON)
    assert done.code == 2
    assert "The runs have 2 protocols: digits, quick; digits-mini, smoke." in done.err
    assert files_below(place / "records") == {}


def test_all_failures_are_listed_together(place, cli):
    only_two_seeds(place)
    no_erm(place)
    edited_code(place)
    done = cli("submit", "runs", "zzz", "--to", "nowhere", "--contact", "me", "--licence", "CC-BY")
    assert done.code == 2
    starts = [
        "Error: The name of the submitter is missing",
        'Error: The contact "me" is neither',
        'Error: No licence "CC-BY". Did you mean "CC-BY-4.0"?',
        "Error: There is no folder nowhere.",
        'Error: No run in runs with the id "zzz".',
        "Error: gud on digits-mini, smoke has 2 seeds",
        "Error: gud on digits-mini, smoke needs erm",
        "Error: gud, seed ",
    ]
    lines = done.err.splitlines()
    assert len(lines) == len(starts), done.err
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)
    assert not (place / "nowhere").exists()


def test_seeds_and_baseline_that_are_there_already_count(place):
    submit("runs/digits-mini/erm")
    done = submit("runs/digits-mini/gud")
    assert len(done.written) == 3
    more = verifiable(place, "gud", 3, 10)
    with pytest.raises(sdgbench.SubmissionRefused, match="needs erm .* for the seeds 3:"):
        submit(more)
    base = verifiable(place, "erm", 3, 20)
    assert len(submit([more, base]).written) == 2


def test_the_file_of_a_plugin_goes_with_its_records(place, cli):
    plugin = place / "mine.py"
    plugin.write_text(PLUGIN)
    registry.add_plugin(plugin)
    for seed in range(3):
        verifiable(place, "mine", seed, 5)
    plugin.write_text(PLUGIN.replace("Plain", "Other"))
    words = ("submit", "runs/digits-mini/erm", "runs/digits-mini/mine", "--to", "records")
    refused = cli(*words, *PERSON)
    assert refused.code == 2
    assert "mine.py is not the file that ran" in refused.err
    assert len(refused.err.splitlines()) == 1
    registry._plugins.clear()
    registry.entries.cache_clear()
    assert 'The method "mine" is not known here. Add its file' in cli(*words, *PERSON).err
    plugin.write_text(PLUGIN)
    done = cli(*words, *PERSON, "--plugin", plugin)
    assert done.code == 0, done.err
    for folder in folders(place, "mine", "records"):
        assert (folder / "method.py").read_text() == PLUGIN
        assert set(badges.submission(folder).sources) == {"method.py"}
    for folder in folders(place, "erm", "records"):
        assert not (folder / "method.py").exists()


def test_numbers_that_cannot_be_recomputed_are_claimed(place):
    for method in ("erm", "gud"):
        (folders(place, method)[0] / "predictions.npz").unlink()
    with pytest.raises(sdgbench.SubmissionRefused, match=r"predictions.npz is gone"):
        submit("runs")
    submit("runs", claimed=True)
    assert badges_of(place / "records") == {"erm": "claimed", "gud": "claimed"}
    (board,) = leaderboards(load([place / "records"]).runs)
    text = render([make_table(board)], "md")
    assert text.count("| claimed |") == 2
    assert "badge: claimed (the numbers of the record, not recomputed)" in text


def test_data_that_is_missing_is_named(place, monkeypatch):
    from sdgbench.errors import MissingData
    from sdgbench.evaluation import verification

    real = verification._target

    def missing(dataset, name, most):
        if name == "scan":
            raise MissingData("none")
        return real(dataset, name, most)

    monkeypatch.setattr(verification, "_target", missing)
    with pytest.raises(sdgbench.SubmissionRefused, match="no data here for scan") as refused:
        submit("runs")
    assert len(refused.value.failures) == 6


def test_a_badge_holds_only_for_the_files_that_were_checked(place, cli):
    submit("runs")
    folder = folders(place, "gud", "records")[0]
    edit(folder, lambda record: record["cost"].update(starts=2))
    assert badges.badge_of(folder) == "claimed"
    assert badges_of(place / "records") == {"erm": "verified", "gud": "claimed"}
    assert cli("verify", "--runs", "records", "--badge").code == 0
    assert badges.badge_of(folder) == "verified"
    edit(folder, lambda record: record["results"]["last"].update(worst=0.5))
    assert cli("verify", "--runs", "records", "--badge").code == 1
    assert not (folder / "verification.json").exists()
    (folder / "submission.json").write_text("{")
    assert cli("compare", "--runs", "records").err.startswith("Skipped: records/digits-mini/gud/")


def test_a_claimed_run_becomes_verified_when_it_is_submitted_with_predictions(place):
    submit("runs", claimed=True)
    first = badges.submission(folders(place, "erm", "records")[0])
    other = {"name": "Someone Else", "contact": "else@example.org"}
    assert len(submit("runs", **other).written) == 6
    assert badges_of(place / "records") == {"erm": "verified", "gud": "verified"}
    assert badges.submission(folders(place, "erm", "records")[0]) == first


def test_a_reproduction_is_by_someone_else_and_raises_the_badge(place, cli):
    submit("runs")
    shutil.copytree(place / "runs" / "digits-mini" / "gud", place / "again" / "digits-mini" / "gud")
    turing = ("--name", "Alan Turing", "--contact", "https://turing.example", "--licence", "MIT")
    words = ("submit", "again", "--to", "records", "--reproduction")
    assert cli(*words, *turing).err.count("is the run itself") == 3
    for folder in folders(place, "gud", "again"):
        edit(folder, lambda record: record.update(finished="2026-12-01T00:00:00+00:00"))
    assert "a reproduction is by someone else" in cli(*words, *PERSON).err
    done = cli(*words, *turing)
    assert done.code == 0, done.err
    assert badges_of(place / "records") == {"erm": "verified", "gud": "reproduced"}
    folder = folders(place, "gud", "records")[0]
    stored = badges.reproduction(folder)
    assert stored.by.name == "Alan Turing"
    assert (stored.verdict, stored.equal) == ("bit-equal", 1.0)
    assert stored.record["finished"] == "2026-12-01T00:00:00+00:00"
    assert cli(*words, *turing).out == "Submitted to records: 3 already there.\n"
    assert badges.describe(folder)["reproduced by"] == "Alan Turing"
    assert len(sdgbench.load_records("records")) == 6  # a reproduction is no run of the table


def test_a_reproduction_that_differs_is_refused(place):
    submit("runs")
    for folder in folders(place, "gud"):
        stored = arrays.read_arrays(folder / arrays.PREDICTIONS)
        changed = {name: (values + 1) % 10 for name, values in stored.items()}
        np.savez_compressed(folder / arrays.PREDICTIONS, **changed)
        edit(folder, lambda record: record.update(finished="2026-12-01T00:00:00+00:00"))
    turing = {"name": "Alan Turing", "contact": "alan@example.org", "licence": "MIT"}
    with pytest.raises(sdgbench.SubmissionRefused, match="differs from the record in") as refused:
        submit("runs/digits-mini/gud", **turing, reproduction=True)
    assert sum("differs from the record" in line for line in refused.value.failures) == 3
    assert not list((place / "records").rglob("reproduction.*"))


def test_a_run_is_copied_as_a_whole_or_not_at_all(place, monkeypatch):
    from sdgbench import storage

    real, names = storage.write_json, []

    def full_disk(path, value, **options):
        names.append(path.name)
        if len(names) == 4:  # submission.json of the second run
            raise sdgbench.UserError("No space is left there.")
        real(path, value, **options)

    monkeypatch.setattr(storage, "write_json", full_disk)
    with pytest.raises(sdgbench.UserError, match="No space"):
        submit("runs")
    assert [path.name for path in (place / "records").iterdir()] == ["digits-mini"]
    (whole,) = [path.parent for path in (place / "records").rglob("record.json")]
    assert badges.badge_of(whole) == "verified"
    monkeypatch.setattr(storage, "write_json", real)
    done = submit("runs")
    assert (len(done.written), len(done.unchanged)) == (5, 1)


def test_a_link_in_the_leaderboards_is_not_followed(place, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (place / "records" / "digits-mini").symlink_to(elsewhere)
    with pytest.raises(sdgbench.UserError, match="is a link"):
        submit("runs")
    assert not list(elsewhere.iterdir())
