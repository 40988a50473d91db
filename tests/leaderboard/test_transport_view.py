"""How far augmented domains are from the source, as a table."""

import pytest
import sample_records as records

from sdgbench.leaderboard import available, make_table


def cells(*found):
    (board,) = records.leaderboards(found)
    table = make_table(board, "transport")
    return {line.method: line.cells for line in table.lines}, table


def test_distances_are_means_over_domains_and_seeds():
    found = [records.make("mada", seed) for seed in range(3)]
    shown, table = cells(*found)
    every = [
        [domain["embedding"]["exact_relative"] for domain in record["transport"]["domains"]]
        for record in found
    ]
    assert shown["mada"]["emb_W2"].mean == pytest.approx(sum(map(sum, every)) / 9)
    assert shown["mada"]["domains"].mean == 3
    assert "images per sample: 500 (W2), 2000 (SW2)" in table.notes


def test_samples_of_other_sizes_are_told_apart():
    small = records.make("gud")
    small["transport"]["sample"] = {"exact": 40, "sliced": 40}
    _, table = cells(small, records.make("mada"))
    assert "images per sample: 40 (W2), 40 (SW2) for gud" in table.notes
    assert "images per sample: 500 (W2), 2000 (SW2) for mada" in table.notes


def test_records_without_augmented_domains_have_no_such_view():
    (board,) = records.leaderboards([records.make("erm")])
    assert "transport" not in available(board)


@pytest.mark.parametrize("broken", [{}, {"domains": [{}]}, {"domains": []}])
def test_a_record_that_does_not_tell_leaves_a_gap(broken):
    record = records.make("mada")
    record["transport"] = broken
    shown, _ = cells(record, records.make("gud"))
    assert shown["mada"]["pixel_W2"].mean is None
