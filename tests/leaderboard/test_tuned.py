"""Rows whose setting a search chose: next to the default one, with what the search cost."""

import json
from functools import partial
from pathlib import Path

import pytest
import sample_records as records

from sdgbench.api.submission_checks import Candidate, on_protocol
from sdgbench.leaderboard import FORMATS, as_run, leaderboards, make_table, render
from sdgbench.leaderboard.order import CHOOSING
from sdgbench.paper import published
from sdgbench.paper.verdicts import obstacle
from sdgbench.records.reading import decode, encode

SEARCH = "3f2a9c1e0b7d"


def tuned(method="gud", seed=0, lr=2e-3, search=SEARCH, **changes):
    record = records.make(method, seed, params={"gamma": 2.5})
    spec = record["spec"]
    before = spec["recipe"]["lr"]
    spec["recipe"] = {**spec["recipe"], "lr": lr}
    spec |= {"recipe_changes": ["lr"], "tuned": search}
    record["flags"] |= {"params_changed": ["gamma"], "recipe_changed": ["lr"]}
    record["tuned"] = {
        "search": search,
        "rule": "source",
        "trials": 20,
        "trial": 7,
        "seeds": [10, 11],
        "values": {"gamma": 2.5, "recipe.lr": lr},
        "recipe": {"lr": before},
        "images_forward": 5_000_000,
        "images_with_gradient": 4_000_000,
        "seconds": 3600.0,
        **changes,
    }
    return record


def board(*made):
    (found,) = leaderboards(map(records.typed, made))
    return found


def default(method="gud", seed=0):
    return records.make(method, seed, params={"gamma": 1.0})


def both():
    return board(records.make("erm"), default(), default(seed=1), tuned(), tuned(seed=1))


def test_the_default_and_the_tuned_row_are_side_by_side():
    names = [line.method for line in make_table(both()).lines]
    assert names.index("gud (tuned 3f2a)") == names.index("gud") + 1
    assert both().protocol.recipe_changes == ()
    assert both().remark == ""


def test_a_learning_rate_that_nobody_searched_is_another_protocol():
    by_hand = tuned()
    del by_hand["tuned"], by_hand["spec"]["tuned"]
    assert len(leaderboards(map(records.typed, (default(), by_hand)))) == 2


def test_a_note_has_values_rule_and_cost_in_every_format():
    table = make_table(both())
    (note,) = [note for note in table.notes if "the best of" in note]
    assert note.startswith("gud (tuned 3f2a): ")
    assert "gamma=2.5, recipe.lr=0.002: the best of 20 settings by held-out source" in note
    assert "(seeds 10, 11); the search cost 5,000,000 images and 3,600 s" in note
    for style in FORMATS:
        assert "3,600 s" in render([table], style), style


def test_the_cost_includes_that_of_the_search():
    table = make_table(both(), "cost")
    cells = {line.method: line.cells for line in table.lines}
    plain, chosen = cells["gud"], cells["gud (tuned 3f2a)"]
    images = plain["images_forward"].mean
    assert plain["images_with_search"].mean == images
    assert chosen["images_with_search"].mean == images + 5_000_000
    assert chosen["s_with_search"].mean == plain["s_with_search"].mean + 3600
    ratio = chosen["score_per_M_images"].mean / chosen["average"].mean
    assert ratio == pytest.approx(1e6 / (images + 5_000_000))
    without = make_table(board(records.make("erm"), default()), "cost")
    assert without.column("images_with_search") is None


def test_choosing_on_source_needs_no_warning_and_a_grid_does():
    assert CHOOSING not in " ".join(make_table(both()).notes)
    assert "chosen on targets: not a result" in CHOOSING
    other = records.make("gud", params={"gamma": 3.0}, flags={"params_changed": ["gamma"]})
    grid = board(default(), other, tuned())
    assert f"gud: {CHOOSING}" in make_table(grid).notes
    assert [line.method for line in make_table(grid, sort="method").lines] == [
        "gud",
        "gud (gamma=3.0)",
        "gud (tuned 3f2a)",
    ]


def test_a_tuned_row_is_the_baseline_only_by_its_name():
    found = board(default(), tuned("erm"))
    assert found.row("erm") is None
    assert found.row("erm (tuned 3f2a)").tuned
    assert "the gain needs erm for the seed 0" in " ".join(make_table(found).notes)
    table = make_table(found, baseline="erm (tuned 3f2a)")
    assert table.column("gain_vs_erm (tuned 3f2a)")


def test_two_searches_are_two_rows():
    found = board(default(), tuned(), tuned(search="77" * 6, rule="shifted"))
    assert {row.name for row in found.rows} == {"gud", "gud (tuned 3f2a)", "gud (tuned 7777)"}


def test_a_tuned_row_gets_no_verdict_against_the_paper():
    made = records.make("gud", preset="paper")
    made["spec"]["tuned"] = SEARCH
    made["tuned"] = {"search": SEARCH, "values": {}}  # even where the default was chosen
    (row,) = board(made).rows
    assert "changed parameters: tuned=3f2a" in obstacle(row, published.table("digits"))


def test_the_record_survives():
    record = records.typed(tuned())
    assert record.tuned.values == {"gamma": 2.5, "recipe.lr": 2e-3}
    assert decode(json.dumps(encode(record)).encode()) == record
    assert record.spec.id != records.typed(default()).spec.id


def test_a_submission_needs_the_plain_baseline():
    def failures(*methods):
        made = [records.typed(make(seed=seed)) for make in methods for seed in range(3)]
        candidates = [Candidate(Path(record.id), record, as_run(record)) for record in made]
        return " ".join(on_protocol(candidates, []))

    def erm(seed):
        return records.make("erm", seed)

    assert failures(tuned, erm) == ""
    assert "gud (tuned 3f2a) on digits, quick needs erm" in failures(tuned, partial(tuned, "erm"))
    assert "erm (tuned 3f2a) on digits, quick needs erm" in failures(partial(tuned, "erm"))
