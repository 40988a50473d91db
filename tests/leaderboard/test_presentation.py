"""What the eye meets: legends, columns, deviations, LaTeX for papers, sweeps."""

import math
import re

import pytest
import sample_records as records

from sdgbench.errors import UserError
from sdgbench.leaderboard import leaderboards, make_table, render, sweep, terminal
from sdgbench.leaderboard.formats import latex
from sdgbench.leaderboard.presentation import with_columns, with_deviations


def board(methods=("erm", "mada"), seeds=range(3)):
    made = [records.typed(records.make(m, s)) for m in methods for s in seeds]
    (found,) = leaderboards(made)
    return found


@pytest.fixture
def runs(tmp_path):
    records.write(tmp_path / "runs", ("erm", "mada"), range(3), ("digits", "synthia"))
    return tmp_path / "runs"


# Terminal


def test_the_legend_is_printed_once_for_all_tables(runs, cli):
    shown = cli("compare").out
    assert shown.count("per cent\n") == 2
    words = " ".join(shown.split())
    assert words.count("±: half-width of the 95% t-interval over n seeds") == 1
    # Definitions that only one of the tables needs are in it, too.
    assert words.count("mIoU on held-out source") == words.count("accuracy on held-out source") == 1
    assert words.index("half-width") > words.rindex("baseline")  # after the last table
    assert "half-width" not in cli("compare", "--no-legend").out


@pytest.mark.parametrize("methods", [("erm",), ("erm", "mada"), ("erm", "gud", "mada")])
def test_methods_are_rows_however_many_there_are(methods):
    text = terminal.plain([make_table(board(methods))], width=80)
    starts = [line.split()[0] for line in text.splitlines() if line[:1].isalpha()]
    for method in methods:
        assert starts.count(method) == 2  # two blocks of columns
    assert max(map(len, text.splitlines())) <= 80


def test_notes_are_broken_between_words_only():
    made = [records.make("erm", 0), records.make("gud", 0)]
    made[1]["machine"]["hardware"] = "Another Processor With A Long Name (64 cores)"
    (found,) = records.leaderboards(made)
    text = terminal.plain([make_table(found)], width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "Another Processor With A Long Name (64 cores)" in " ".join(text.split())


def test_a_long_name_is_broken_between_words():
    changes = {"wae_leak": True, "wae_targets": "free", "max_batches": 5}
    made = [records.make("erm", 0), records.make("mada", 0)]
    made[1]["spec"]["params"] |= changes
    made[1]["flags"]["params_changed"] = list(changes)
    (found,) = records.leaderboards(made)
    lines = terminal.plain([make_table(found)], width=80).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("mada ("))
    names = [re.split("  +[0-9]", line)[0].rstrip() for line in lines[start : start + 2]]
    assert names == ["mada (max_batches=5,", "  wae_leak=True, wae_targets=free)"]
    assert max(map(len, lines)) <= 80


def test_a_word_that_is_too_long_is_broken_anyway():
    assert terminal._fold("abcdefghij", 6) == ["abcdef", "  ghij"]
    assert terminal._fold("ab cdefghijkl", 6) == ["ab", "  cdef", "  ghij", "  kl"]
    assert terminal._fold("abc", 1) == ["a", "b", "c"]


@pytest.mark.parametrize("width", range(60, 130, 5))
def test_no_column_stands_alone_where_there_is_another_way(width):
    grids = terminal._grids(make_table(board()), width)
    widths = [sum(grid.widths()) for grid in grids]
    lead = 2
    columns = [len(grid.left) - lead for grid in grids]
    assert len(grids) == 1 or min(columns) > 1 or len(grids) == sum(columns)
    assert max(widths) <= width


def test_a_legend_of_tables_with_other_numbers_names_both(runs, cli):
    """digits has four targets here, synthia ten: neither sentence is true of both tables."""
    words = " ".join(cli("compare").out.split())
    found = re.findall(r"average: mean over [^;]*", words)
    assert found == ["average: mean over 4 or 10 domains"]
    assert "average: mean over 4 domains;" in " ".join(
        cli("compare", "--dataset", "digits").out.split()
    )


def test_methods_that_a_preset_reduces_alike_share_a_note():
    made = [records.make(name, 0) for name in ("erm", "gud", "mada")]
    for record in made[1:]:
        record["flags"]["reduced_parameters"] = {"max_batches": [20, None]}
    (found,) = records.leaderboards(made)
    notes = [note for note in make_table(found).notes if "at this preset" in note]
    assert notes == ["gud, mada at this preset: max_batches=20 (published: none)"]


# Columns and deviations


def test_columns_are_chosen_and_ordered(runs, cli):
    shown = cli("compare", "--dataset", "digits", "--columns", "usps,average").out
    head = next(line for line in shown.splitlines() if line.startswith("method"))
    assert head.split() == ["method", "n", "usps", "average"]
    assert "worst of" not in shown  # nor is a hidden column explained
    wrong = cli("compare", "--columns", "avrage")
    assert wrong.code == 2
    assert 'Did you mean "average"' in wrong.err


def test_a_table_without_the_columns_stays_as_it_is():
    tables = [make_table(board()), make_table(board(), "cost")]
    both = with_columns(tables, ["usps"])
    assert [column.name for column in both[0].columns] == ["usps"]
    assert both[1] == tables[1]
    with pytest.raises(UserError, match="column"):
        with_columns(tables, ["nothing"])


def test_standard_deviations_by_hand():
    scores = {0: 0.5, 1: 0.6, 2: 0.8}
    made = [records.make("erm", s, scores={"svhn": v, "usps": v}) for s, v in scores.items()]
    (found,) = records.leaderboards(made)
    plain = make_table(found)
    (table,) = with_deviations([plain])
    mean = (50 + 60 + 80) / 3
    by_hand = math.sqrt(((50 - mean) ** 2 + (60 - mean) ** 2 + (80 - mean) ** 2) / 2)
    assert table.lines[0].cells["svhn"].half == pytest.approx(by_hand)
    assert plain.lines[0].cells["svhn"].half == pytest.approx(4.30265 * by_hand / math.sqrt(3))
    assert "±: standard deviation over n seeds" in table.legend
    assert not any("half-width" in item for item in table.legend)
    assert f'"svhn std": {by_hand:.5f}'[:16] in render([table], "json")


def test_one_seed_has_no_deviation():
    (table,) = with_deviations([make_table(board(("erm",), [0]))])
    assert table.lines[0].cells["usps"].half is None


# LaTeX


def test_latex_has_one_tabular_display_names_and_notes_as_comments():
    table = make_table(board(("erm", "mada", "gud-ensemble")))
    text = latex([table])
    assert text.count(r"\begin{tabular}") == 1
    assert {"ERM", "M-ADA", "GUD ensemble"} <= {line.split(" & ")[0] for line in text.splitlines()}
    assert r"\toprule" in text
    assert "Reduced scale" in next(line for line in text.splitlines() if "caption" in line)
    for note in table.notes:
        assert f"% {note}\n" in text
    assert "minipage" not in text


def test_latex_writes_signs_and_names_as_a_paper_does():
    scores = {"erm": 0.9, "jigen": 0.1}
    made = [records.make(m, s, scores={"svhn": scores[m]}) for m in scores for s in range(3)]
    (found,) = records.leaderboards(made)
    text = latex([make_table(found)], with_notes=True)
    assert "gain vs ERM" in text
    assert "gain\\_vs" not in text
    assert re.search(r"& \$-\$\d", text)
    assert not re.search(r"& -\d", text)


def test_a_latex_caption_says_what_no_number_may_be_shown_without():
    made = [records.make("erm", 0)]
    made[0]["flags"] |= {"unverified_data": ["svhn-test"], "pretrained": True}
    text = latex([make_table(records.leaderboards(made)[0])])
    caption = next(line for line in text.splitlines() if "caption" in line)
    assert "Note: unverified data: svhn-test; erm: starts from pretrained weights" in caption


def test_latex_prints_notes_and_plain_rules_on_request():
    table = make_table(board())
    text = latex([table], "plain", with_notes=True)
    assert "booktabs" not in text
    assert "rule}" not in text.replace(r"\hline", "")
    assert text.count(r"\hline") == 3
    assert text.count(r"\par" + "\n") == len(table.notes) + 1
    assert not re.search(r"^%(?! needs)", text, re.MULTILINE)


def test_a_wide_latex_table_stays_whole():
    made = [records.make(m, s, "cifar10c") for m in ("erm", "mada") for s in range(2)]
    (found,) = records.leaderboards(made)
    text = latex([make_table(found, "corruptions")])
    assert text.count(r"\begin{tabular}") == 1


def test_latex_options_of_the_command(runs, cli):
    done = cli("compare", "--dataset", "digits", "--format", "latex", "--style", "plain", "--notes")
    assert done.code == 0
    assert r"\hline" in done.out
    assert "minipage" in done.out


# Sweeps


def swept(method, seed, lr):
    record = records.make(method, seed)
    record["spec"]["recipe"]["lr"] = lr
    record["spec"]["recipe_changes"] = ["lr"]
    return record


def test_a_sweep_shows_the_values_of_a_recipe_side_by_side():
    made = [records.make(m, s) for m in ("erm", "mada") for s in range(2)]  # at 5e-4
    made += [swept("erm", s, lr) for lr in (1e-2, 1e-4) for s in range(2)]
    boards = records.leaderboards(made)
    assert len(boards) == 3
    (table,) = sweep.sweep_tables(boards)
    values = [(line.method, line.cells["recipe.lr"].text) for line in table.lines]
    assert values == [("erm", "0.0001"), ("erm", "0.0005"), ("erm", "0.01")]
    expected = make_table(next(b for b in boards if not b.remark), methods=["erm"]).lines[0]
    assert table.lines[1].cells["average"].mean == expected.cells["average"].mean
    assert table.lines[1].cells["average"].half == expected.cells["average"].half
    assert not any(cell.rank for line in table.lines for cell in line.cells.values())
    notes = " ".join(table.notes)
    assert "is choosing on the targets: not a result; source may be used" in notes
    assert "at one value only, not shown: mada" in notes


def test_other_data_are_not_part_of_a_sweep():
    other = swept("erm", 0, 1e-2)
    other["domains"]["usps"]["sha256"] = "0" * 64
    assert sweep.sweep_tables(records.leaderboards([records.make("erm", 0), other])) == []


def test_the_command_says_how_to_make_a_sweep(runs, cli):
    done = cli("compare", "--view", "sweep")
    assert done.code == 2
    assert "--grid recipe.lr=" in done.err
    assert cli("compare").err == ""
    records.save(runs, {**swept("erm", 0, 1e-2), "id": "a" * 12})
    # Each value has a table of its own, and a user need not know where they stand together.
    assert cli("compare").err == "The values of recipe.lr side by side: --view sweep\n"
    done = cli("compare", "--view", "sweep")
    assert done.code == 0
    assert "0.0005" in done.out
    assert "0.01" in done.out
