"""A search chooses on the source, and only what it chose is tested on targets."""

import json
import shutil
from pathlib import Path
from statistics import fmean

import pytest
from conftest import ROOT

import sdgbench
from sdgbench import registry
from sdgbench.errors import Interrupted, UserError
from sdgbench.records.searches import read_search

TOY = ROOT / "tests" / "tuning" / "toy_search.py"


@pytest.fixture(autouse=True)
def _toy():
    registry.add_plugin(TOY)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tune(method="erm", **options):
    usual = {"preset": "smoke", "trials": 3, "seeds": [0, 1], "progress": False}
    return sdgbench.tune(method, "toy-search", **{**usual, "leaderboards": False, **options})


def trials(below="searches"):
    files = sorted(Path(below).rglob("trial.json"))
    return {file.parent.name: json.loads(file.read_text()) for file in files}


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A finished search, in a folder that tests copy."""
    folder, plugins = tmp_path_factory.mktemp("searched"), list(registry._plugins)
    registry.add_plugin(TOY)
    options = {"runs": folder / "runs", "searches": folder / "searches", "data": folder / "data"}
    tuning = tune(rule="shifted", oracle=True, **options)
    registry._plugins[:] = plugins
    registry.entries.cache_clear()
    return folder, tuning


def test_trials_never_open_a_target_and_the_same_call_goes_on(folder, monkeypatch):
    monkeypatch.setenv("TOY_CLOSED", "1")
    with pytest.raises(sdgbench.RunsFailed, match="somebody opened dark"):
        tune(seeds=0)
    before = trials()
    assert len(before) == 3
    (file,) = folder.glob("searches/toy-search/erm/search-*.json")
    assert len(read_search(file).settings) == 3
    monkeypatch.delenv("TOY_CLOSED")
    tuning = tune(seeds=0, retry=True)
    assert trials() == before
    assert len(tuning.records) == 2


def test_the_best_by_the_rule_is_chosen_and_its_records_say_so(searched):
    folder, tuning = searched
    made, search = trials(folder / "searches"), tuning.search
    assert len(made) == 6
    for setting in search.settings:
        runs = [made[run] for run in setting.runs]
        assert [run["spec"]["seed"] for run in runs] == [0, 1]
        assert setting.scores["source"] == [run["source_val"] for run in runs]
        assert setting.scores["shifted"] == [fmean(run["families"].values()) for run in runs]
        assert all(run["spec"]["recipe"]["lr"] == setting.values["recipe.lr"] for run in runs)
    means = [fmean(setting.scores["shifted"]) for setting in search.settings]
    assert search.chosen == means.index(max(means))
    assert search.budget.runs == 6
    assert search.budget.images_forward == sum(t["cost"]["images_forward"] for t in made.values())
    assert search.asked.families == [*next(iter(made.values()))["families"]]
    assert "shading" in search.excluded_families
    assert read_search(tuning.path) == search

    tuned = [record for record in tuning.records if record.tuned]
    assert [record.spec.seed for record in tuned] == [2, 3]
    for record in tuned:
        assert record.spec.tuned == record.tuned.search == search.id
        assert record.tuned.values == tuning.values
        assert record.spec.recipe["lr"] == tuning.values["recipe.lr"]
        assert record.tuned.images_forward == search.budget.images_forward
        assert (record.tuned.rule, record.tuned.seeds) == ("shifted", [0, 1])
    assert [r.spec.seed for r in tuning.records if not r.tuned] == [2, 3]
    frame = tuning.to_frame()
    assert list(frame[frame.chosen].trial) == [search.chosen]


def test_default_and_tuned_rows_share_a_table_with_the_cost_of_the_search(searched, cli):
    folder, tuning = searched
    (table,) = tuning.records.compare()
    name = f"erm (tuned {tuning.search.id[:4]})"
    assert {line.method: line.seeds for line in table.lines} == {"erm": (2, 3), name: (2, 3)}
    gain = next(line for line in table.lines if line.method == name).cells["gain_vs_erm"]
    assert gain.samples.keys() == {2, 3}
    (cost,) = tuning.records.compare("cost")
    lines = {line.method: line.cells for line in cost.lines}
    images, searched_images = (
        {n: lines[n][column].mean for n in lines}
        for column in ("images_forward", "images_with_search")
    )
    assert searched_images["erm"] == images["erm"]
    assert searched_images[name] == images[name] + tuning.search.budget.images_forward
    assert cli("verify", "--runs", folder / "runs", "--data", folder / "data").code == 0
    nothing = cli("compare", "--runs", folder / "searches")
    assert nothing.code == 2
    assert "No finished runs" in nothing.err
    assert len(sdgbench.load_records(folder / "searches")) == 0
    status = cli("status", "--runs", folder / "searches")
    assert "6 runs: 6 done" in status.out
    shown = cli("show", tuning.records[0].id, "--runs", folder / "runs")
    assert f"by the search {tuning.search.id}" in shown.out


def test_a_tuned_run_is_reproduced_as_such(searched, tmp_path):
    _, tuning = searched
    done = sdgbench.reproduce(tuning.records.folders[0], to=tmp_path, progress=False)
    assert done.verdict == "bit-equal"
    assert done.again.record.tuned == tuning.records[0].tuned


def test_a_changed_record_of_a_search_is_found(searched, tmp_path, cli):
    folder, tuning = searched
    shutil.copytree(folder / "runs", tmp_path / "runs")
    file = (
        tmp_path / "runs" / tuning.records.folders[0].relative_to(folder / "runs") / "record.json"
    )
    for key, value, text in (
        ("seeds", [2], "the search used the seed 2, too"),
        ("values", {"recipe.lr": 7.0}, "the search chose recipe.lr=7.0, and"),
        ("recipe", {"steps": 99}, "recipe.steps was not 99 before the search"),
        ("search", "abc", f"names the search {tuning.search.id}"),
    ):
        record = json.loads(file.read_text())
        before = json.dumps(record)
        record["tuned"][key] = value
        file.write_text(json.dumps(record))
        done = cli("verify", "--runs", tmp_path / "runs", "--data", folder / "data")
        assert done.code == 1
        assert text in " ".join(done.out.split()), done.out
        file.write_text(before)


def test_the_oracle_says_what_the_targets_would_have_chosen(searched):
    folder, tuning = searched
    oracle, search = tuning.search.oracle, tuning.search
    averages = {}
    for setting in search.settings:
        files = [next(folder.glob(f"searches/*/*/{run}/oracle.json")) for run in setting.runs]
        averages[setting.number] = fmean(json.loads(f.read_text())["average"] for f in files)
    assert {int(number): value for number, value in oracle.averages.items()} == averages
    assert oracle.regret == max(averages.values()) - averages[search.chosen]
    assert averages[oracle.best] == max(averages.values())
    assert "oracle (chosen on targets: not a result)" in str(tuning)


def test_without_the_oracle_no_trial_is_evaluated_on_targets(searched, folder):
    finished, before = searched
    shutil.copytree(finished / "searches", folder / "searches")
    for file in folder.rglob("oracle.json"):
        file.unlink()
    again = tune(rule="shifted", fresh_seeds="7", default=False)
    assert not list(folder.rglob("oracle.json"))
    assert again.search.oracle == before.search.oracle  # what is known stays
    assert [record.spec.seed for record in again.records] == [7]
    other = tune(rule="source", fresh_seeds="7", default=False)  # the same trials, another rule
    assert other.search.id != again.search.id
    assert other.search.oracle is None
    assert len(trials()) == 6
    assert "oracle" not in str(other)


def test_after_ctrl_c_the_same_call_goes_on_from_the_checkpoint(folder, monkeypatch):
    options = {"params": {"mode": "stopping"}, "seeds": 0, "default": False, "trials": 2}
    monkeypatch.setenv("TOY_STOP", "1")
    with pytest.raises(Interrupted):
        tune("toy-fragile", **options)
    assert not trials()
    assert not list(folder.rglob("search-*.json"))
    monkeypatch.delenv("TOY_STOP")
    tuning = tune("toy-fragile", **options)
    starts = sorted(trial["cost"]["starts"] for trial in trials().values())
    assert starts == [1, 2]
    whole = tune("toy-fragile", **options, searches="other", runs="other-runs")
    assert tuning.search.settings == whole.search.settings


def test_a_failing_trial_does_not_stop_the_search(folder, cli):
    space = {"mode": "choice:plain:broken"}
    params = {"recipe.lr": 1e-3, "factor": 1}
    tuning = tune("toy-fragile", space=space, params=params, seeds=0, trials=4, default=False)
    failed = [setting.failed for setting in tuning.search.settings if setting.failed]
    assert failed
    assert "this setting is broken" in failed[0]
    assert tuning.values == {"mode": "plain"}
    assert tuning.search.chosen == 0  # of equal ones the default
    assert "failed: " in str(tuning)
    broken = {**params, "mode": "broken"}
    with pytest.raises(UserError, match="Every trial failed, so nothing can be chosen"):
        tune("toy-fragile", params=broken, space={"unused": "uniform:0:1"}, seeds=0, trials=2)


def test_trials_of_an_edited_method_are_run_again(folder):
    source = TOY.read_text().replace("toy-search", "toy-edited").replace("toy-fragile", "edited")
    (folder / "edited.py").write_text(source)
    registry.add_plugin(folder / "edited.py")
    options = {"params": {"mode": "plain"}, "seeds": 0, "default": False, "trials": 2}
    tune("edited", **options)
    before = {trial["code"]["method_file_sha256"] for trial in trials().values()}
    (folder / "edited.py").write_text(source + "\n# Edited.\n")
    tune("edited", **options)
    after = {trial["code"]["method_file_sha256"] for trial in trials().values()}
    assert len(before) == len(after) == 1
    assert before != after


BAD = {
    "method": (["--method", "ern"], 'Did you mean "erm"'),
    "dataset": (["--dataset", "toy-serch"], 'Did you mean "toy-search"'),
    "trials": (["--trials", "0"], "0 trials leave nothing to choose from"),
    "empty": (["--search", "recipe.lr=log:1:0.1"], "is empty: write the smaller bound first"),
    "unknown": (["--search", "recipe.le=log:1:2"], 'Did you mean "recipe.lr"'),
    "form": (["--search", "recipe.lr"], "is not of the form --search key=value"),
    "seeds": (["--seeds", "0-2", "--fresh-seeds", "2-4"], "The search uses seed 2, so it is not"),
    "negative": (["--seeds", "-1"], "is negative"),
    "rule": (["--rule", "target"], "'target' is not one of"),
    "set": (["--set", "recipe.lr=1"], "erm has no setting left to search"),
    "target": (["--targets", "drak"], 'Did you mean "dark"'),
    "jobs": (["--jobs", "0"], "is not a number of processes"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case, cli, folder):
    words, text = BAD[case]
    done = cli(
        *("tune", "--plugin", TOY, "--method", "erm", "--dataset", "toy-search"),
        *("--preset", "smoke", *words),
    )
    assert done.code == 2
    assert text in done.err, done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (folder / "searches").exists()
    assert not (folder / "runs").exists()


def test_the_command_and_its_help(cli, folder):
    done = cli(
        *("tune", "--plugin", TOY, "--method", "erm", "--dataset", "toy-search"),
        *("--preset", "smoke", "--trials", "2", "--seeds", "4", "--fresh-seeds", "0"),
    )
    assert done.code == 0, done.err
    assert "erm (tuned " in done.out
    assert "images_with_search" in done.out
    assert "chosen: trial" in done.out
    assert "cost of the search: 2 runs" in done.out
    page = cli("tune", "--help").out
    for text in ("posterize", "None is one", "19 corruptions", "--fresh-seeds", "Examples:"):
        assert text in page
