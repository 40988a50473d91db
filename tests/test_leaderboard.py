import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from sdgbench import leaderboard, stats
from sdgbench.errors import UserError


def fake(method="erm", seed=0, scores=(0.5, 0.7), domains=("a", "b"), **changes):
    spec = {
        "method": method, "params": changes.pop("params", {}), "dataset": "toy",
        "dataset_version": 1, "options": {}, "option_changes": [], "preset": "quick", "seed": seed,
        "recipe": {"reduced": "short", "lr": 0.1}, "recipe_changes": [],
    }  # fmt: skip
    spec.update(changes)
    per_domain = {n: {"accuracy": s} for n, s in zip(domains, scores, strict=True)}
    result = {
        "source_val": 0.9, "average": float(np.mean(scores)), "worst": min(scores),
        "per_domain": per_domain,
        "averages": {"average": {"mean": float(np.mean(scores)), "domains": len(scores)}},
    }  # fmt: skip
    return {
        "schema": 1, "id": f"{method}{seed}", "spec": spec, "metric": "accuracy",
        "results": {"last": result, "val": {**result, "averages": {"average": {"mean": 0.1, "domains": 2}}}},
        "source": {"name": "s", "train": {"sha256": "0"}},
        "domains": {n: {"sha256": n, "tags": {}, "count": 1} for n in domains},
    }  # fmt: skip


def test_seeds_of_a_method_become_a_row_with_an_interval():
    board = leaderboard.boards([fake(seed=0), fake(seed=1, scores=(0.6, 0.8))])[0]
    line = board.lines()[0]
    assert (line.method, line.n) == ("erm", 2)
    assert line.cells["average"].mean == pytest.approx(65.0)
    assert line.cells["average"].half == pytest.approx(
        scipy_stats.t.ppf(0.975, 1) * 100 * np.std([0.6, 0.7], ddof=1) / np.sqrt(2)
    )
    assert line.cells["worst"].mean == pytest.approx(55.0)
    assert str(leaderboard.Cell(51.23, None)) == "51.2"
    assert str(leaderboard.Cell(51.23, 0.44)) == "51.2 ±0.4"
    assert str(leaderboard.Cell(None, None)) == "-"


def test_the_best_average_comes_first():
    board = leaderboard.boards([fake("low", scores=(0.1, 0.1)), fake("high", scores=(0.9, 0.8))])[0]
    assert [line.method for line in board.lines()] == ["high", "low"]
    assert board.lines("val")[0].cells["average"].mean == pytest.approx(10.0)
    assert list(board.frame()["method"]) == ["high", "low"]
    assert board.frame()["reduced_scale"].all()


def test_variants_of_a_method_are_rows_that_say_how_they_differ():
    records = [fake("m", params={"K": 1, "beta": 2}), fake("m", params={"K": 3, "beta": 2})]
    names = {line.method for line in leaderboard.boards(records)[0].lines()}
    assert names == {"m (K=1)", "m (K=3)"}


def change(record, path, value):
    record = copy.deepcopy(record)
    place = record
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return record


@pytest.mark.parametrize(("path", "value"), [
    (("spec", "preset"), "paper"), (("spec", "dataset_version"), 2),
    (("spec", "options"), {"source": "fog"}), (("spec", "recipe", "lr"), 0.2),
    (("domains", "a", "sha256"), "other"), (("source", "train", "sha256"), "other"),
])  # fmt: skip
def test_other_ground_is_another_table(path, value):
    assert len(leaderboard.boards([fake(), fake("m")])) == 1
    assert len(leaderboard.boards([fake(), change(fake("m"), path, value)])) == 2


def test_other_domains_are_another_table():
    few = fake("m", scores=(0.5,), domains=("a",))
    assert len(leaderboard.boards([fake(), few])) == 2


def test_a_changed_recipe_is_in_the_title():
    changed = fake(recipe={"reduced": "", "lr": 0.2}, recipe_changes=["lr"])
    assert "[recipe.lr=0.2]" in leaderboard.boards([changed])[0].title


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=12))
def test_intervals_against_scipy(values):
    mean, half = stats.mean_interval(values)
    assert mean == pytest.approx(np.mean(values), abs=1e-9)
    if np.std(values) > 1e-6:
        low, high = scipy_stats.t.interval(
            0.95, len(values) - 1, np.mean(values), scipy_stats.sem(values)
        )
        assert (mean - half, mean + half) == pytest.approx((low, high), abs=1e-6)


def test_one_seed_has_no_interval():
    assert stats.mean_interval([3.0]) == (3.0, None)


def corrupted(method, clean, fog, snow):
    record = fake(method, scores=(clean, fog, snow), domains=("clean", "fog/5", "snow/5"))
    tags = [{"severity": 0}, {"corruption": "fog", "severity": 5},
            {"corruption": "snow", "severity": 5}]  # fmt: skip
    for domain, tag in zip(record["domains"].values(), tags, strict=True):
        domain["tags"] = tag
    return record


def test_mce_and_rmce_against_the_erm_record():
    erm, mine = corrupted("erm", 0.9, 0.5, 0.6), corrupted("m", 0.8, 0.6, 0.8)
    found = leaderboard.relative_errors(mine, erm)
    assert found == {
        "mCE2_L5_vs_erm": pytest.approx((0.4 / 0.5 + 0.2 / 0.4) / 2),
        "RmCE2_L5_vs_erm": pytest.approx((0.2 / 0.4 + 0.0 / 0.3) / 2),
    }


def test_a_missing_baseline_is_never_a_silent_one():
    with pytest.raises(UserError, match="needs the erm run of toy .quick. with seed 0: sdgbench"):
        leaderboard.relative_errors(corrupted("m", 0.9, 0.5, 0.6), None)
