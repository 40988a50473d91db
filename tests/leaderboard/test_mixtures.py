"""What must not be mixed up: environments, versions of a method's file, variants of a method."""

import pytest
import sample_records as records

from sdgbench.leaderboard import FORMATS, leaderboards, make_table, render
from sdgbench.leaderboard.order import CHOOSING
from sdgbench.report import series


def make(method="erm", seed=0, *, params=None, value=None, file="", **machine):
    scores = {"svhn": value, "usps": value} if value is not None else None
    changed = {"params_changed": list(params or {})}
    record = records.make(method, seed, params=params, scores=scores, flags=changed)
    record["machine"] |= machine
    if file:
        record["code"]["method_file_sha256"] = file
    return record


def board(made, **options):
    (found,) = leaderboards(map(records.typed, made), **options)
    return found


def noted(found, word):
    return [note for note in make_table(found).notes if word in note]


# Environments


def test_equal_environments_need_no_note():
    assert noted(board([make("erm"), make("gud")]), "environment") == []


@pytest.mark.parametrize(
    ("section", "change", "text"),
    [
        ("machine", {"threads": 1}, "threads 2 (erm), 1 (gud)"),
        ("machine", {"hardware": "Other (4 cores)"}, "hardware AMD EPYC (2 cores) (erm), Other"),
        ("machine", {"channels_last": True}, "settings default (erm), channels_last (gud)"),
        ("code", {"commit": "9" * 40}, "commit 0000000 (erm), 9999999 (gud)"),
        ("code", {"dirty": True}, "commit 0000000 (erm), 0000000 with edits (gud)"),
        ("code", {"version": "0.2.0"}, "sdgbench 0.1.0 (erm), 0.2.0 (gud)"),
        ("packages", {"torch": "2.6.0"}, "torch 2.15.0 (erm), 2.6.0 (gud)"),
    ],
)
def test_a_mixture_is_named_with_what_differs(section, change, text):
    other = make("gud")
    other[section] |= change
    (note,) = noted(board([make("erm"), other]), "mixed environments")
    assert text in note
    assert note.count(";") == 0  # nothing else differs


def test_every_format_says_what_is_mixed():
    table = make_table(board([make("erm"), make("gud", threads=1)]))
    for style in FORMATS:
        assert "mixed environments" in render([table], style), style


def test_the_seeds_of_one_row_are_named():
    made = [make("erm", 0), make("erm", 1), make("erm", 2, threads=1)]
    (note,) = noted(board(made), "mixed environments")
    assert "threads 2 (erm seeds 0, 1), 1 (erm seed 2)" in note


def test_a_gpu_computes_the_same_with_any_number_of_threads():
    cuda = {"device": "cuda:0", "hardware": "GPU"}
    made = [make("erm", **cuda, threads=4), make("gud", device="cuda:1", hardware="GPU", threads=8)]
    assert noted(board(made), "environment") == []


def test_a_run_that_was_resumed_elsewhere_says_so():
    resumed = make("gud", earlier=[{"device": "cpu", "threads": 1}])
    (note,) = noted(board([make("erm"), resumed]), "mixed environments")
    assert "threads 2 (erm), 1, then 2 (gud)" in note


def test_strict_keeps_the_runs_of_one_environment():
    others = [make("erm", 3, threads=1), make("erm", 2, threads=1)]
    found = board([make("erm", 0), make("erm", 1), *others, make("gud", 0)], strict=True)
    assert {row.name: list(row.runs) for row in found.rows} == {"erm": [0, 1], "gud": [0]}
    assert noted(found, "environment") == []
    note = "--strict: only runs with threads 2; left out: erm seed 2, erm seed 3"
    assert note in make_table(found).notes


def test_a_duplicate_names_the_difference():
    made = [make("erm", 0, value=0.5), make("erm", 0, value=0.52, threads=1)]
    found = board(made)
    (note,) = noted(found, "another record")
    assert "other scores (threads 1 instead of 2); the first is used" in note
    assert make_table(found).lines[0].cells["average"].mean == pytest.approx(50)
    (note,) = noted(board([make("erm", 0, value=0.5), make("erm", 0, value=0.52)]), "another")
    assert "other scores (no recorded difference)" in note


def test_duplicates_are_named_in_the_order_of_seeds():
    made = [make("erm", seed) for seed in (1, 2, 0)]
    notes = noted(board([*made, *made]), "another record")
    assert [note[:11] for note in notes] == ["erm, seed 0", "erm, seed 1", "erm, seed 2"]


def test_notes_are_about_methods_that_are_shown():
    made = [make("erm", 0), make("gud", 0), make("gud", 0), make("gud", 1, threads=1)]
    notes = " ".join(make_table(board(made), methods=["erm"]).notes)
    assert "gud" not in notes
    assert "environment" not in notes


# Versions of a method's file

OLD, NEW = "3f2a" + "0" * 60, "9c1e" + "0" * 60


def test_seeds_of_an_edited_file_are_another_row():
    made = [make("erm", 0, value=0.4), make("erm", 1, value=0.4)]
    made += [make("mada", 0, value=0.5, file=OLD), make("mada", 1, value=0.7, file=NEW)]
    found = board(made)
    assert [row.name for row in found.rows] == ["erm", "mada @3f2a", "mada @9c1e"]
    assert noted(found, "its file changed between runs, @3f2a (mada @3f2a) and @9c1e")
    line = next(line for line in make_table(found).lines if line.method == "mada @3f2a")
    assert line.cells["average"].mean == pytest.approx(50)


def test_merged_versions_are_one_row_with_a_note():
    made = [make("mada", 0, value=0.5, file=OLD), make("mada", 1, value=0.7, file=NEW)]
    found = board(made, merge_versions=True)
    assert [(row.name, len(row.runs)) for row in found.rows] == [("mada", 2)]
    assert noted(found, "a row averages over them")


def test_the_same_seed_of_two_versions_is_no_duplicate():
    found = board([make("mada", 0, file=OLD), make("mada", 0, file=NEW)])
    assert len(found.rows) == 2
    assert found.duplicates == ()


def test_hashes_with_the_same_start_are_told_apart():
    made = [make("mada", 0, file="3f2a1" + "0" * 59), make("mada", 0, file="3f2a2" + "0" * 59)]
    assert [row.name for row in board(made).rows] == ["mada @3f2a1", "mada @3f2a2"]


def test_two_versions_of_the_baseline_have_to_be_chosen_from():
    made = [make("erm", 0, file=OLD), make("erm", 0, file=NEW), make("gud", 0)]
    found = board(made)
    assert noted(found, "--baseline takes one of: erm @3f2a; erm @9c1e")
    table = make_table(found, baseline="erm @9c1e")
    assert table.column("gain_vs_erm @9c1e") is not None


def test_an_edited_file_is_named_where_variants_differ_in_it():
    made = [make("mada", 0, file=OLD), make("mada", 0, params={"beta": 2.0}, file=NEW)]
    found = board(made)
    assert [row.name for row in found.rows] == ["mada", "mada (beta=2.0)"]
    assert noted(found, "@3f2a (mada) and @9c1e (mada (beta=2.0))")


# Variants of a method


def variants():
    scores = {"erm": 0.5, 1.0: 0.6, 10.0: 0.9, 2.0: 0.8}
    made = [make("erm", value=scores["erm"])]
    made += [make("mada", params={"beta": b}, value=scores[b]) for b in (10.0, 1.0, 2.0)]
    return board(made)


def test_a_grid_is_in_the_order_of_the_grid():
    found = variants()
    names = ["mada (beta=1.0)", "mada (beta=2.0)", "mada (beta=10.0)", "erm"]
    assert [line.method for line in make_table(found).lines] == names
    assert [row.name for row in series.ordered(found)] == names
    best = make_table(found, sort="average").lines[0]
    assert best.method == "mada (beta=10.0)"


def test_a_parameter_that_came_later_sorts_its_absence_first():
    made = [make("mada", params={"new": True, "K": 5}), make("mada", params={"K": 5})]
    assert [line.method for line in make_table(board(made)).lines] == [
        "mada (K=5)",
        "mada (K=5, new=True)",
    ]


def test_a_grid_warns_of_choosing_on_the_targets():
    assert f"mada: {CHOOSING}" in make_table(variants()).notes
    assert noted(board([make("erm"), make("mada")]), "choosing") == []
    assert CHOOSING not in " ".join(make_table(variants(), methods=["erm"]).notes)


def test_methods_are_still_ranked_and_a_grid_stands_where_its_defaults_do():
    made = [make("erm", value=0.7), make("gud", value=0.6)]
    made += [make("mada", value=0.65), make("mada", params={"beta": 0.5}, value=0.9)]
    lines = make_table(board(made)).lines
    assert [line.method for line in lines] == ["erm", "mada", "mada (beta=0.5)", "gud"]


# Times


def test_latency_next_to_other_work_is_named():
    quiet, busy = make("erm", 0), make("erm", 1)
    quiet["efficiency"]["load_average"] = 2.1  # of a run with two threads
    busy["efficiency"]["load_average"] = 5.3
    notes = make_table(board([quiet, busy]), "efficiency").notes
    assert (
        "latency measured while other work ran on the machine: erm seed 1 (load average 5.3)"
        in notes
    )


def test_resumed_runs_are_named_instead_of_averaged():
    resumed = make("erm", 1)
    resumed["cost"]["starts"] = 3
    table = make_table(board([make("erm", 0), resumed]), "cost")
    assert table.column("starts") is None
    assert "stopped and resumed: erm seed 1 (3 starts)" in table.notes
