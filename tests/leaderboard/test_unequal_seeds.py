"""Rows are ranked on the same seeds; a row that lacks some comes last and is not ranked."""

import pytest
import sample_records as records

from sdgbench.leaderboard import FORMATS, make_table, render
from sdgbench.leaderboard.cells import missing_seeds
from sdgbench.report import series

SCORES = {"lucky": 0.9, "better": 0.7, "erm": 0.5}


def scored(method, seed):
    value = SCORES[method] + 0.001 * seed**2
    return records.make(method, seed, scores={"svhn": value, "usps": value})


def board(**seeds):
    """A leaderboard of methods with these seeds."""
    made = [scored(method, seed) for method, every in seeds.items() for seed in every]
    (found,) = records.leaderboards(made)
    return found


def test_a_row_with_fewer_seeds_is_last_and_not_ranked():
    shown = board(lucky=[0], better=[0, 1, 2], erm=[0, 1, 2])
    table = make_table(shown)
    assert [line.method for line in table.lines] == ["better", "erm", "lucky"]
    ranks = {line.method: line.cells["average"].rank for line in table.lines}
    assert ranks == {"better": 1, "erm": 2, "lucky": 0}
    assert not any(cell.ties for cell in table.lines[2].cells.values())
    assert table.lines[2].missing_seeds == (1, 2)
    assert "not ranked, for lack of seeds 1, 2: lucky" in table.notes
    assert [row.name for row in series.ordered(shown)] == ["better", "erm", "lucky"]


@pytest.mark.parametrize("style", [style for style in FORMATS if style not in ("csv", "json")])
def test_every_format_says_so(style):
    text = render([make_table(board(lucky=[0], better=[0, 1, 2], erm=[0, 1, 2]))], style)
    assert "not ranked, for lack of seeds 1, 2: lucky" in text
    assert text.index("better") < text.index("lucky")


def test_sorting_by_a_column_keeps_it_last():
    table = make_table(board(lucky=[0], better=[0, 1], erm=[0, 1]), sort="usps")
    assert [line.method for line in table.lines] == ["better", "erm", "lucky"]


def test_the_largest_set_of_seeds_counts_then_that_of_most_rows():
    rows = board(lucky=[0, 1], better=[1, 2], erm=[1, 2]).rows
    assert missing_seeds(rows) == {"lucky": (2,), "better": (), "erm": ()}


def test_equal_seeds_change_nothing():
    table = make_table(board(lucky=[0, 1], better=[0, 1], erm=[0, 1]))
    assert [line.method for line in table.lines] == ["lucky", "better", "erm"]
    assert table.lines[0].cells["average"].rank == 1
    assert not any("not ranked" in note for note in table.notes)
