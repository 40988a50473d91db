import copy
import json
import math
from html.parser import HTMLParser

import pytest
import sample_records as records
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from sdgbench import leaderboard
from sdgbench.errors import UserError
from sdgbench.leaderboard import available, formats, make_table, terminal


def toy(method="erm", seed=0, scores=(0.5, 0.7), **more):
    """A record of a dataset with two domains."""
    return records.make(
        method, seed, "toy", scores=dict(zip(("a", "b"), scores, strict=True)), **more
    )


def only(found):
    board, *rest = records.leaderboards(found)
    assert not rest
    return board


def change(record, path, value):
    record = copy.deepcopy(record)
    place = record
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return record


def notes(table):
    return "\n".join(table.notes)


# Rows and cells


def test_seeds_of_a_method_become_a_row_with_an_interval():
    board = only([toy(seed=0), toy(seed=1, scores=(0.6, 0.8))])
    line = make_table(board).lines[0]
    assert (line.method, line.n, line.seeds) == ("erm", 2, (0, 1))
    assert line.cells["average"].mean == pytest.approx(65.0)
    # deviations of ±5 points around 65: half-width t * 7.07 / sqrt(2)
    assert line.cells["average"].half == pytest.approx(scipy_stats.t.ppf(0.975, 1) * 5)
    assert line.cells["worst"].mean == pytest.approx(55.0)
    assert line.cells["a"].mean == pytest.approx(55.0)


def test_cells_say_what_they_are():
    assert str(leaderboard.Cell(51.23, None)) == "51.2"
    assert str(leaderboard.Cell(51.23, 0.44)) == "51.2 ±0.4"
    assert str(leaderboard.Cell(None, None)) == "-"
    assert str(leaderboard.Cell(1.04, 0.5, text="tie", signed=True)) == "+1.0 ±0.5 tie"
    assert str(leaderboard.Cell(-0.04, signed=True)) == "+0.0"
    assert str(leaderboard.Cell(51.23, 0.44, ties=True)) == "51.2 ±0.4 ≈"
    assert str(leaderboard.Cell(25600.0, digits=0)) == "25,600"
    assert str(leaderboard.Cell(None, text="n<6")) == "n<6"


def test_one_seed_says_that_it_has_no_interval():
    table = make_table(only([toy("erm"), toy("m", scores=(0.6, 0.7))]))
    cells = table.lines[0].cells
    assert str(cells["average"]) == "65.0 (n=1)"
    assert str(cells["gain_vs_erm"]) == "+5.0 (n=1)"
    assert "p_vs_erm" not in [column.name for column in table.columns]
    assert "n = 1: one seed has no interval" in table.notes
    assert "needs n >= 6 seeds for p < 0.05" in table.notes


def test_the_best_average_comes_first_and_any_column_can():
    board = only([toy("low", scores=(0.1, 0.2)), toy("high", scores=(0.9, 0.1))])
    assert [line.method for line in make_table(board).lines] == ["high", "low"]
    assert [line.method for line in make_table(board, sort="b").lines] == ["low", "high"]
    assert [line.method for line in make_table(board, sort="method").lines] == ["high", "low"]
    assert [line.method for line in make_table(board, methods=["low"]).lines] == ["low"]
    with pytest.raises(UserError, match='No column "averag". Did you mean "average"'):
        make_table(board, sort="averag")
    with pytest.raises(UserError, match='Did you mean "domains"'):
        make_table(board, "domain")
    with pytest.raises(
        UserError, match="toy has no view severity. It has: domains, classes, efficiency, cost"
    ):
        make_table(board, "severity")


def test_a_choice_of_weights_is_shown_only_where_it_was_made():
    chosen = change(toy("m"), ("results", "val", "averages", "average", "mean"), 0.1)
    never = toy("erm")
    del never["results"]["val"]
    table = make_table(only([chosen, never]), choice="val")
    cells = {line.method: line.cells["average"].mean for line in table.lines}
    assert cells == {"m": pytest.approx(10.0), "erm": None}
    assert "no weights were chosen on held-out source for: erm" in table.notes
    assert table.legend[0] == "weights chosen on held-out source"
    assert "not the ranked ones" in table.title


# Statistics in tables


def seeds(method, values, n=7):
    """Seeds with the same spread, shifted to a mean."""
    return [toy(method, seed, (values + 0.01 * seed, values + 0.01 * seed)) for seed in range(n)]


def wobble(method, base, size=0.02, n=7):
    """Seeds that differ from the others' spread."""
    found = []
    for seed in range(n):
        score = base + 0.01 * seed + size * (-1) ** seed
        found.append(toy(method, seed, (score, score)))
    return found


def test_gains_p_values_and_ties():
    found = [*seeds("erm", 0.5), *seeds("up", 0.6), *wobble("same", 0.503), *wobble("down", 0.4)]
    table = make_table(only(found))
    cells = {line.method: line.cells for line in table.lines}
    assert [line.method for line in table.lines] == ["up", "same", "erm", "down"]
    assert str(cells["up"]["gain_vs_erm"]) == "+10.0 ±0.0"
    assert cells["same"]["gain_vs_erm"].text == "tie"
    assert cells["down"]["gain_vs_erm"].text == ""
    assert str(cells["erm"]["gain_vs_erm"]) == "baseline"
    # Seven seeds: 2/128 is the smallest p; Holm: x3 for the first, x2 for the second.
    assert cells["up"]["p_vs_erm"].mean == pytest.approx(3 * 2 / 128)
    assert cells["down"]["p_vs_erm"].mean == pytest.approx(3 * 2 / 128)
    assert cells["same"]["p_vs_erm"].mean > 0.05
    ranks = {name: (c["average"].rank, c["average"].ties) for name, c in cells.items()}
    assert ranks == {"up": (1, False), "same": (2, False), "erm": (0, False), "down": (0, False)}


def test_ties_with_the_best_are_paired():
    # Both spread over 6 points, so that their own intervals overlap; paired, one is clearly worse.
    table = make_table(only([*seeds("best", 0.6), *seeds("behind", 0.59), *wobble("close", 0.595)]))
    ties = {line.method: line.cells["average"].ties for line in table.lines}
    assert ties == {"best": False, "behind": False, "close": True}
    best, _, behind = (line.cells["average"] for line in table.lines)
    assert best.mean - best.half < behind.mean + behind.half
    assert "≈: a tie with the best" in "; ".join(table.legend)
    equal = make_table(only([*seeds("one", 0.6), *seeds("two", 0.6), *seeds("less", 0.5)]))
    marks = {line.method: (c.rank, c.ties) for line in equal.lines if (c := line.cells["average"])}
    assert marks == {"one": (1, True), "two": (1, True), "less": (2, False)}


def test_lower_is_better_where_it_is():
    found = [*corrupted("erm"), *corrupted("m", 0.1)]
    cells = {line.method: line.cells for line in make_table(only(found)).lines}
    assert cells["m"]["mCE2_L5_vs_erm"].rank == 1
    assert cells["erm"]["mCE2_L5_vs_erm"].rank == 2


def test_gains_use_the_seeds_that_both_have_and_say_so():
    table = make_table(only([*seeds("erm", 0.5, 3), *seeds("m", 0.6, 5)]))
    assert str(table.lines[0].cells["gain_vs_erm"]) == "+10.0 ±0.0"
    assert "m: the gain is over 3 seeds that erm has too" in table.notes
    assert "the gain needs erm for the seeds 3,4: sdgbench run --method erm" in notes(table)


def test_a_cell_keeps_the_value_of_each_seed():
    table = make_table(only([*seeds("erm", 0.5, 2), *seeds("m", 0.6, 3)]))
    cells = {line.method: line.cells for line in table.lines}
    assert cells["m"]["average"].samples == pytest.approx({0: 60, 1: 61, 2: 62})
    gains = cells["m"]["gain_vs_erm"].samples
    assert (gains[0], gains[1], gains[2]) == (pytest.approx(10), pytest.approx(10), None)
    assert cells["erm"]["gain_vs_erm"].samples == {}


def test_every_view_is_known_by_its_name_and_has_a_tab_of_its_own():
    assert all(view.name == name for name, view in leaderboard.VIEWS.items())
    assert len({view.tab for view in leaderboard.VIEWS.values()}) == len(leaderboard.VIEWS)


def test_a_missing_baseline_is_named_and_another_one_can_be_chosen():
    board = only([*seeds("m", 0.5, 2), *seeds("other", 0.6, 2)])
    table = make_table(board)
    assert "gain_vs_erm" not in table.lines[0].cells
    assert "the gain needs erm for the seeds 0,1" in notes(table)
    table = make_table(board, baseline="m")
    assert str(table.lines[0].cells["gain_vs_m"]) == "+10.0 ±0.0"
    assert "needs m" not in notes(table)


def test_a_hidden_baseline_still_counts():
    table = make_table(only([*seeds("erm", 0.5), *seeds("up", 0.6)]), methods=["up"])
    assert [line.method for line in table.lines] == ["up"]
    assert table.lines[0].cells["gain_vs_erm"].mean == pytest.approx(10.0)
    hidden = [*seeds("up", 0.6), toy("other", flags={"reduced_parameters": {"K": [1, 3]}})]
    assert "other at this preset: K=1 (published: 3)" in make_table(only(hidden)).notes
    assert not any("K=1" in note for note in make_table(only(hidden), methods=["up"]).notes)


def test_holm_can_ask_for_more_seeds():
    found = [*seeds("erm", 0.5, 6), *seeds("m1", 0.6, 6), *seeds("m2", 0.7, 6)]
    table = make_table(only(found))
    assert table.lines[0].cells["p_vs_erm"].mean == pytest.approx(2 * 2 / 64)
    assert "with Holm's correction for 2 methods, the smallest p needs n >= 7 seeds" in notes(table)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_shuffled_seeds_and_records_change_nothing(data):
    values = data.draw(st.lists(st.tuples(*[st.floats(0.1, 0.8)] * 2), min_size=2, max_size=7))
    found = [
        toy(m, s, (pair[i], pair[i]))
        for s, pair in enumerate(values)
        for i, m in enumerate(("erm", "m"))
    ]
    order = data.draw(st.permutations(range(len(values))))
    renamed = [change(r, ("spec", "seed"), order[r["spec"]["seed"]]) for r in found]
    before, after = make_table(only(found)), make_table(only(data.draw(st.permutations(renamed))))
    for first in before.lines:
        second = next(line for line in after.lines if line.method == first.method)
        for name, cell in first.cells.items():
            assert str(cell) == str(second.cells[name])


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(*[st.floats(0.1, 0.4)] * 2), min_size=2, max_size=7), st.floats(0, 0.5))
def test_a_constant_for_all_methods_changes_no_gain(values, constant):
    gains = []
    for more in (0.0, constant):
        found = [
            toy(m, s, (pair[i] + more,) * 2)
            for s, pair in enumerate(values)
            for i, m in enumerate(("erm", "m"))
        ]
        line = next(line for line in make_table(only(found)).lines if line.method == "m")
        gains.append(line.cells["gain_vs_erm"])
    assert gains[0].mean == pytest.approx(gains[1].mean, abs=1e-9)
    assert gains[0].half == pytest.approx(gains[1].half, abs=1e-6)


# What may share a table


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("spec", "preset"), "paper", ""),
        (("spec", "dataset_version"), 2, "dataset version 2"),
        (("spec", "options"), {"source": "fog"}, "source=fog"),
        (("spec", "recipe", "lr"), 0.2, "recipe.lr=0.2"),
        (("spec", "precision"), "bf16", "[bf16]"),
        (("domains", "a", "sha256"), "0123456789", "content of a: 01234567"),
        (("source", "train", "sha256"), "0123456789", "source content: train 01234567, val "),
    ],
)
def test_other_ground_is_another_table_that_says_why(path, value, said):
    assert len(records.leaderboards([toy(), toy("m")])) == 1
    found = records.leaderboards([toy(), change(toy("m"), path, value)])
    assert len(found) == 2
    other = next(board for board in found if board.rows[0].method == "m")
    assert said in other.title


def test_a_record_from_before_precision_was_a_choice_is_float32():
    board = only([toy(), change(toy("m"), ("spec", "precision"), "float32")])
    assert "float32" not in board.title


def test_other_domains_are_another_table():
    few = records.make("m", 0, "toy", scores={"a": 0.5})
    titles = sorted(board.title for board in records.leaderboards([toy(), few]))
    assert titles[0] == "toy, quick preset [1 domains, without b]: accuracy in per cent"
    assert "[2 domains]" in titles[1]


def test_what_was_changed_by_hand_is_said_only_where_it_was():
    changed = change(toy("m"), ("spec", "recipe", "lr"), 0.2)
    changed["spec"]["recipe_changes"] = ["lr"]
    titles = sorted(board.title for board in records.leaderboards([toy(), changed]))
    assert titles == [
        "toy, quick preset [recipe.lr=0.2]: accuracy in per cent",
        "toy, quick preset: accuracy in per cent",
    ]


def test_options_that_were_set_are_said_only_where_they_were():
    usual, changed = toy(), toy("m")
    usual["spec"]["options"], changed["spec"]["options"] = {"source": "dawn"}, {"source": "fog"}
    changed["spec"]["option_changes"] = ["source"]
    third = change(changed, ("spec", "options", "source"), "spring")
    remarks = {board.remark for board in records.leaderboards([usual, changed, third])}
    assert remarks == {"", "source=fog", "source=spring"}


def test_the_order_of_keys_is_no_other_ground():
    turned = toy("m")
    turned["domains"] = dict(reversed(turned["domains"].items()))
    turned["spec"]["recipe"] = dict(reversed(turned["spec"]["recipe"].items()))
    board = only([toy(), turned])
    cells = {line.method: line.cells["a"].mean for line in make_table(board).lines}
    assert cells == {"erm": 50.0, "m": 50.0}


def test_variants_of_a_method_are_rows_that_say_how_they_differ():
    found = [toy("m", params={"K": 1, "beta": 2}), toy("m", params={"K": 3, "beta": 2})]
    assert {line.method for line in make_table(only(found)).lines} == {"m (K=1)", "m (K=3)"}
    alike = [toy("m", params={"K": 1}), toy("m", params={"K": "1"})]
    assert {line.method for line in make_table(only(alike)).lines} == {"m (K=1)", "m (K=1')"}
    table = make_table(only([*found, toy("erm")]), baseline="m")
    assert "m has several variants here; --baseline takes one of: m (K=1); m (K=3)" in notes(table)
    assert "gain_vs_m (K=1)" in make_table(only(found), baseline="m (K=1)").lines[0].cells


def test_changed_parameters_are_said_where_they_were_changed():
    def variant(changed, **params):
        return toy("m", params={"K": 3, "beta": 2, **params}, flags={"params_changed": changed})

    def names(*found):
        return {row.name for row in only(found).rows}

    assert names(variant(["beta"], beta=10)) == {"m (beta=10)"}
    both = only([variant([]), variant(["beta"], beta=10)])
    assert {row.name for row in both.rows} == {"m", "m (beta=10)"}
    assert both.row("m").changed == {}  # so a baseline needs no more than its name
    # The defaults themselves may change from one version to the next.
    assert names(variant([]), variant([], K=6)) == {"m (K=3)", "m (K=6)"}
    unrecorded = variant([], beta=7)
    del unrecorded["flags"]["params_changed"]
    assert names(variant(["beta"], beta=10), unrecorded) == {"m (beta=10)", "m (beta=7)"}
    assert only([unrecorded]).rows[0].changed is None


def test_the_same_run_twice_counts_once_and_is_named():
    table = make_table(only([toy(), toy(), toy(scores=(0.9, 0.9))]))
    assert table.lines[0].n == 1
    assert table.lines[0].cells["average"].mean == pytest.approx(60.0)
    assert "erm, seed 0: another record with equal scores; the first is used" in table.notes
    assert (
        "erm, seed 0: another record with other scores (no recorded difference); the first is used"
    ) in table.notes


# What must be said below


def test_reductions_flags_and_data_are_said_in_every_format():
    flags = {
        "reduced_parameters": {"wae_epochs": [5, 20]},
        "method": ["corruption_overlap"],
        "unverified_data": ["one", *"abcdef"],
        "incomplete_source": "2 of 5 batches",
        "pretrained": True,
        "regenerated": ["x"],
        "frost_overlays": ["released"],
    }
    second = toy("m", 1)
    record = toy("m", flags=flags)
    record["missing_domains"] = second["missing_domains"] = ["c"]
    table = make_table(only([record, second]))
    for note in (
        "m at this preset: wae_epochs=5 (published: 20)",
        "m: corruption_overlap",
        "unverified data: one, a, b, c, d and 2 more",
        "incomplete source: 2 of 5 batches",
        "m: starts from pretrained weights",
        "no data for: c",
        "regenerated: x",
        "frost overlays: released",
    ):
        assert note in table.notes
    for style in leaderboard.FORMATS:
        text = leaderboard.render([table], style).replace("\\_", "_")
        assert "at this preset: wae_epochs=5 (published: 20)" in text, style
        assert "600 steps instead of 10,000" in text, style
        if style not in ("csv", "json"):
            assert "reduced scale" in text.lower()


def test_methods_that_make_no_sense_are_named_with_their_reason(tmp_path):
    from sdgbench import registry

    file = tmp_path / "plugin.py"
    file.write_text(
        '@register_method("odd", skips={"segmentation": "it needs one label"})\nclass Odd: ...\n'
    )
    registry.add_plugin(file)
    said = "odd makes no sense for segmentation: it needs one label"
    asked = ["erm", "odd"]
    assert said in make_table(only([records.make(dataset="synthia")]), methods=asked).notes
    assert said not in make_table(only([records.make(dataset="synthia")])).notes
    assert said not in make_table(only([records.make(dataset="digits")]), methods=asked).notes
    both = [records.make("odd", dataset="synthia")]
    assert said not in make_table(only(both), methods=asked).notes
    file.write_text("a syntax error")
    registry.entries.cache_clear()
    assert make_table(only([records.make(dataset="synthia")])).lines  # the table still comes


# Corruptions


def corrupted(method, gain=0.0, n=2):
    """Clean, and two corruptions at level 5."""
    found = []
    for seed in range(n):
        scores = {"clean": 0.9 - seed / 100, "fog/5": 0.5 + gain, "snow/5": 0.6 + gain}
        record = records.make(method, seed, "two", scores=scores)
        tags = [
            {"severity": 0, "corruption": None},
            {"corruption": "fog", "severity": 5},
            {"corruption": "snow", "severity": 5},
        ]
        for domain, tag in zip(record["domains"].values(), tags, strict=True):
            domain["tags"] = tag
        found.append(record)
    return found


def run_of(record):
    return leaderboard.as_run(records.typed(record))


def test_mce_and_rmce_against_the_erm_record():
    erm = corrupted("erm")[0]
    mine = corrupted("m")[0]
    for name, score in (("clean", 0.8), ("fog/5", 0.6), ("snow/5", 0.8)):
        mine["results"]["last"]["per_domain"][name]["accuracy"] = score
    found = leaderboard.relative_errors(run_of(mine), run_of(erm))
    assert found == {
        "mCE2_L5_vs_erm": pytest.approx((0.4 / 0.5 + 0.2 / 0.4) / 2),
        "RmCE2_L5_vs_erm": pytest.approx((0.2 / 0.4 + 0.0 / 0.3) / 2),
    }


def test_mce_is_a_mean_over_seeds_against_the_same_seed():
    found = [*corrupted("erm"), *corrupted("m", 0.1)]
    cells = next(line.cells for line in make_table(only(found)).lines if line.method == "m")
    assert cells["mCE2_L5_vs_erm"].mean == pytest.approx((0.4 / 0.5 + 0.3 / 0.4) / 2)
    growth = [((0.4 - c) / (0.5 - c) + (0.3 - c) / (0.4 - c)) / 2 for c in (0.10, 0.11)]
    assert cells["RmCE2_L5_vs_erm"].mean == pytest.approx(sum(growth) / 2)


def test_a_missing_baseline_is_never_a_silent_one():
    mine = corrupted("m", 0.1)
    with pytest.raises(UserError, match="needs the erm run of two .quick. with seed 0: sdgbench"):
        leaderboard.relative_errors(run_of(mine[0]), None)
    for found, wanted in ((mine, "seeds 0,1"), ([*mine, corrupted("erm")[0]], "seed 1")):
        table = make_table(only(found))
        cells = next(line.cells for line in table.lines if line.method == "m")
        assert cells["mCE2_L5_vs_erm"].mean is None
        assert f"gain, mCE and RmCE need erm for the {wanted}: sdgbench run" in notes(table)


def test_a_ratio_that_does_not_exist_is_not_shown():
    erm, mine = corrupted("erm"), corrupted("m", 0.1)
    for record in erm:
        record["results"]["last"]["per_domain"]["fog/5"]["accuracy"] = record["results"]["last"][
            "per_domain"
        ]["clean"]["accuracy"]
    cells = next(line.cells for line in make_table(only([*erm, *mine])).lines if line.method == "m")
    assert str(cells["RmCE2_L5_vs_erm"]) == "-"
    assert cells["mCE2_L5_vs_erm"].mean > 1


@pytest.fixture(scope="module")
def cifar():
    return only([records.make(m, s, "cifar10c") for m in ("erm", "mada") for s in range(2)])


def test_the_19_corruptions_are_grouped_as_in_the_paper(cifar):
    table = make_table(cifar, "corruptions")
    groups = {name: [c.name for c in columns] for name, columns in table.groups() if name}
    assert list(groups) == ["weather", "blur", "noise", "digital", "robustness"]
    assert [len(groups[name]) for name in ("weather", "blur", "noise", "digital")] == [3, 5, 4, 7]
    assert groups["weather"] == ["fog", "snow", "frost"]
    assert groups["robustness"] == ["clean", "mCE19_L5_vs_erm", "RmCE19_L5_vs_erm"]
    names = [column.name for column in table.columns]
    assert {"acc19_L5", "acc15_L5", "gain_vs_erm"} <= set(names)
    cells = table.lines[0].cells
    mean = sum(cells[n].mean for g in list(groups)[:4] for n in groups[g]) / 19
    assert cells["acc19_L5"].mean == pytest.approx(mean)


def test_the_five_severities(cifar):
    table = make_table(cifar, "severity")
    names = [column.name for column in table.columns]
    assert names[:7] == ["clean", *(f"acc19_L{level}" for level in range(1, 6)), "acc19_all"]
    cells = table.lines[0].cells
    levels = [cells[f"acc19_L{level}"].mean for level in range(1, 6)]
    assert levels == sorted(levels, reverse=True)
    assert cells["acc19_all"].mean == pytest.approx(sum(levels) / 5)
    domains = make_table(cifar).lines[0].cells
    for level in range(1, 6):
        assert cells[f"acc19_L{level}"].mean == pytest.approx(domains[f"acc19_L{level}"].mean)


def test_an_average_that_covers_fewer_corruptions_says_so():
    kept = [name for name in records.TAGS["cifar10c"] if not name.startswith("fog")]
    table = make_table(only([records.make(dataset="cifar10c", domains=kept)]))
    assert "acc19_L5 covers 18 of 19 corruptions" in table.notes
    assert "acc15_L5 covers 14 of 15 corruptions" in table.notes
    assert "mCE18_L5_vs_erm" in table.lines[0].cells


# Segmentation, efficiency, cost


def test_iou_per_class_leaves_out_domains_without_the_class():
    record = records.make(dataset="synthia")
    for position, result in enumerate(record["results"]["last"]["per_domain"].values()):
        result["iou"] = [0.5, None, 0.1 * position, *[0.2] * 11]
        result["iou"][3] = None if position else 0.6
    cells = make_table(only([record]), "classes").lines[0].cells
    assert cells["void"].mean == pytest.approx(50.0)
    assert cells["sky"].mean is None
    assert cells["building"].mean == pytest.approx(45.0)
    assert cells["road"].mean == pytest.approx(60.0)  # only the first domain has any
    assert "average" in cells
    del record["classes"]
    assert "class 0" in make_table(only([record]), "classes").lines[0].cells


def test_accuracy_per_class_is_a_mean_over_domains_with_their_names():
    record = toy()
    first, second = record["results"]["last"]["per_domain"].values()
    first["class_accuracy"] = [0.5, 0.1, *[0.0] * 8]
    second["class_accuracy"] = [0.7, None, *[1.0] * 8]
    table = make_table(only([record]), "classes")
    cells = table.lines[0].cells
    assert cells["0"].mean == pytest.approx(60.0)
    assert cells["1"].mean == pytest.approx(10.0)  # the second domain has none of them
    assert cells["9"].mean == pytest.approx(50.0)
    assert "accuracy per class" in table.title
    assert "share of its images classified correctly" in "; ".join(table.legend)


def test_records_without_scores_of_classes_are_named_beside_those_with_them():
    old = toy("old")
    for result in old["results"]["last"]["per_domain"].values():
        del result["class_accuracy"]
    old["classes"] = []
    for found in ([old, toy("new")], [toy("new"), old]):
        table = make_table(only(found), "classes")
        cells = {line.method: line.cells for line in table.lines}
        assert cells["old"]["3"].mean is None
        assert cells["new"]["3"].mean is not None
        assert "records of an earlier version tell no scores of classes: old" in table.notes
    assert "classes" not in available(only([old]))


def test_efficiency_and_cost_stand_beside_the_average():
    found = [records.make("erm", seed) for seed in range(2)]
    found[1]["machine"]["hardware"] = "Another"
    board = only(found)
    assert available(board) == ["domains", "classes", "efficiency", "cost"]
    table = make_table(board, "efficiency")
    cells = {name: str(cell) for name, cell in table.lines[0].cells.items()}
    assert cells["params_M"] == "1.14"  # the same for all seeds: no interval
    assert cells["GFLOPs"] == "0.016"
    assert cells["peak_MB"] == "1,024"
    assert {"b1_p50_ms", "b1_p95_ms", "b64_p50_ms", "b64_p95_ms", "average"} <= set(cells)
    assert "times do not compare, they were measured on: AMD" in notes(table)
    assert not any(cell.rank for line in table.lines for cell in line.cells.values())
    cells = make_table(board, "cost").lines[0].cells
    assert cells["images_forward"].mean == 19200
    assert cells["other_s"].mean == pytest.approx(5.0)
    assert cells["train_s"].half is not None
    found[0]["efficiency"], found[0]["cost"] = {}, {}
    assert str(make_table(only(found[:1]), "efficiency").lines[0].cells["GFLOPs"]) == "-"
    assert str(make_table(only(found[:1]), "cost").lines[0].cells["train_s"]) == "-"


# Reading


BREAK = {
    "no averages": (("results", "last"), {}),
    "a word for a score": (("results", "last", "per_domain", "a", "accuracy"), "high"),
    "per cent": (("results", "last", "per_domain", "a", "accuracy"), 51.0),
    "NaN": (("results", "last", "per_domain", "b", "accuracy"), math.nan),
    "infinity": (("results", "last", "worst"), math.inf),
    "no domain": (("results", "last", "per_domain"), {}),
    "a list": (("spec",), []),
    "null": (("results",), None),
    "odd seed": (("spec", "seed"), "x"),
    "odd name": (("spec", "method"), 3),
    "odd tags": (("domains", "a", "tags"), 3),
    "odd severity": (("domains", "a", "tags"), {"severity": [5]}),
    "odd flags": (("flags",), [1]),
    "odd machine": (("machine",), "x"),
}


@pytest.mark.parametrize(("path", "value"), BREAK.values(), ids=BREAK.keys())
def test_a_record_that_makes_no_sense_is_named_and_skipped(path, value, tmp_path):
    records.save(tmp_path, toy())
    bad = records.save(tmp_path, toy("before"))
    bad.write_text(json.dumps(change(toy("before"), path, value), indent=2))
    loaded = leaderboard.load([tmp_path])
    assert [run.method for run in loaded.runs] == ["erm"]
    assert len(loaded.problems) == 1
    assert str(bad) in str(loaded.problems[0])
    assert "\n" not in str(loaded.problems[0])
    assert make_table(only(loaded.runs)).lines


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"schema": 1}', "\x00", '{"a":' * 99999]
)
def test_a_file_that_is_no_record_is_named_and_skipped(content, tmp_path):
    good = records.save(tmp_path, toy())
    bad = good.parent.parent / "zzz" / "record.json"
    bad.parent.mkdir()
    bad.write_text(content)
    loaded = leaderboard.load([tmp_path])
    assert [run.id for run in loaded.runs] == [good.parent.name]
    assert str(bad) in str(loaded.problems[0])


def test_half_of_a_record_at_any_length_is_damaged(tmp_path):
    path = records.save(tmp_path, toy())
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, 97):
        path.write_bytes(whole[:length])
        loaded = leaderboard.load([tmp_path], ("last",))
        assert not loaded.runs
        assert "damaged or half-written" in str(loaded.problems[0])


def test_folders_merge_and_empty_ones_are_named(tmp_path):
    records.save(tmp_path / "one", toy(seed=0))
    records.save(tmp_path / "two", toy(seed=1))
    both = [tmp_path / name for name in ("one", "two", "one", "none")]
    loaded = leaderboard.load(both)
    assert only(loaded.runs).rows[0].runs.keys() == {0, 1}
    assert loaded.empty == [tmp_path / "none"]
    assert loaded.runs[0].folder == tmp_path / "one" / "toy" / "erm" / loaded.runs[0].id


def test_a_run_knows_its_scores():
    run = leaderboard.as_run(records.typed(toy(scores=(0.25, 0.75))))
    assert run.score("b") == 0.75
    assert run.protocol.domains == ("a", "b")
    assert run.protocol.ranked == "average"


# Formats


EVIL = r'<b>|[red]`*_m_*` \&"$%#^~{}--[0m' + "\x1b[31m\n"


@pytest.fixture
def evil():
    """A table all of whose names come from somebody unkind."""
    scores = {EVIL: 0.5, "source": 0.6, "=1+1": 0.7, "n": 0.1}
    found = [
        records.make(EVIL, s, EVIL, scores=scores, params={EVIL: p})
        for s in range(2)
        for p in (1, EVIL)
    ]
    for record in found:
        record["missing_domains"] = [EVIL]
    return make_table(only(found))


def test_control_characters_go_nowhere(evil):
    for style in leaderboard.FORMATS:
        text = leaderboard.render([evil], style)
        assert "\x1b" not in text, style
        assert not any(ord(char) < 32 and char != "\n" for char in text), style


def test_names_cannot_break_out_of_html(evil):
    class Tags(HTMLParser):
        seen: set = set()
        text = ""

        def handle_starttag(self, tag, attributes):
            self.seen.add(tag)

        def handle_data(self, data):
            self.text += data

    parser = Tags()
    parser.feed(leaderboard.render([evil], "html"))
    assert "b" not in parser.seen
    assert "table" in parser.seen
    assert formats.clean(EVIL) in parser.text
    assert formats.html_text("\"'<&") == "&quot;&#x27;&lt;&amp;"


def test_names_cannot_break_out_of_markdown(evil):
    text = leaderboard.render([evil], "md")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    bars = {len(line.replace("\\\\", "").replace("\\|", "").split("|")) for line in rows}
    assert len(rows) == 4
    assert len(bars) == 1
    assert formats.markdown_text("a_b _c_ |*<x>") == r"a_b \_c\_ \|\*\<x\>"


def test_names_cannot_break_out_of_rich_markup(evil):
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=300, force_terminal=True, color_system="truecolor")
    terminal.show(console, [evil])
    text = console.file.getvalue()
    assert "[red]" in text
    assert "\x1b[31m" not in text


def test_names_cannot_become_formulas_or_other_columns(evil):
    rows = leaderboard.render([evil], "csv").splitlines()
    assert len(rows) == 3
    assert ",'=1+1," in rows[0]
    flat = json.loads(leaderboard.render([evil], "json"))
    assert flat[0]["n"] == 2
    assert flat[0]["n (domain)"] == pytest.approx(10.0)
    assert flat[0]["source (domain)"] == pytest.approx(60.0)
    assert flat[0]["source"] > 90


def test_names_cannot_break_out_of_latex():
    assert formats.latex_text("a_b & 5% #1 {x} $y$ ^~\\") == (
        r"a\_b \& 5\% \#1 \{x\} \char36{}y\char36{} \textasciicircum{}\textasciitilde{}\textbackslash{}"
    )
    assert formats.latex_text("--seeds [*] ±1 ≈") == r"-{}-seeds {[}{*}{]} $\pm$1 $\approx$"
    assert formats.latex_text("é 中 \x00") == "é U+4E2D U+FFFD"


@pytest.mark.parametrize("width", [80, 100, 200])
def test_numbers_do_not_wrap(width, cifar):
    tables = [make_table(cifar, view) for view in available(cifar)]
    more = only([records.make(m, s, "synthia") for m in ("erm", "b" * 60, "c") for s in range(7)])
    tables += [make_table(more, view) for view in available(more)]
    for table in tables:
        grids = terminal._grids(table, width)
        for grid in grids:
            assert sum(grid.widths()) + 2 * (len(grid.widths()) - 1) <= width
            for row in grid.rows:
                for (text, _), room in list(zip(row, grid.widths(), strict=True))[1:]:
                    assert terminal.cell_len(text) <= room
        shown = {text for grid in grids for row in grid.rows for text, _ in row}
        for line in table.lines:
            for column in table.columns:
                assert any(t.startswith(str(line.cells[column.name])) for t in shown)


def test_wide_tables_repeat_the_method():
    board = only([records.make(m, s, "synthia") for m in ("erm", "gud", "mada") for s in range(2)])
    text = terminal.plain([make_table(board)], 80)
    assert max(map(len, text.splitlines()[:18])) <= 80
    heads = [line for line in text.splitlines() if line.startswith("method  n")]
    assert len(heads) > 2
    assert sum(line.startswith("mada  ") for line in text.splitlines()) == len(heads)
    wide = terminal.plain([make_table(board)], 400)
    assert sum(line.startswith("method  n") for line in wide.splitlines()) == 1


def test_best_is_bold_and_second_underlined_in_every_format():
    import io

    from rich.console import Console

    table = make_table(only([*seeds("erm", 0.5, 3), *seeds("m", 0.6, 3)]))
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system="standard")
    terminal.show(console, [table])
    styled = console.file.getvalue()
    assert "\x1b[1m61.0 ±2.5" in styled
    assert "\x1b[4m51.0 ±2.5" in styled
    assert "\x1b" not in terminal.plain([table])
    for style, best, second in (
        ("md", "**61.0 ±2.5**", "<u>51.0 ±2.5</u>"),
        ("html", "<strong>61.0 ±2.5</strong>", "<u>51.0 ±2.5</u>"),
        ("latex", r"\textbf{61.0 $\pm$2.5}", r"\underline{51.0 $\pm$2.5}"),
    ):
        text = leaderboard.render([table], style)
        assert best in text
        assert second in text


def test_csv_and_json_hold_unrounded_numbers():
    table = make_table(only([*seeds("erm", 0.5, 3), *seeds("m", 0.6123, 3)]))
    row = json.loads(leaderboard.render([table], "json"))[0]
    assert row["average"] == pytest.approx(62.23)
    assert row["average ±"] == pytest.approx(4.302653 / math.sqrt(3))
    assert row["gain_vs_erm"] == pytest.approx(11.23)
    assert (row["method"], row["n"], row["seeds"]) == ("m", 3, "0,1,2")
    assert row["reduced_scale"].startswith("ConvNet of half the width")
    lines = leaderboard.render([table], "csv").splitlines()
    assert lines[0].startswith(
        "dataset,preset,remark,metric,reduced_scale,choice,view,table,method"
    )
    assert len(lines) == 3
