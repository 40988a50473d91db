"""Our runs against what later papers print of the same methods."""

import numpy as np
import pytest
import sample_records as records

from sdgbench import registry
from sdgbench.paper import published
from sdgbench.paper.comparison import paper_tables

DIGITS = {"svhn": 0.5756, "mnist-m": 0.70, "syn": 0.70, "usps": 0.8437}


def ours(method, scores, dataset="digits", n=3, preset="paper", **more):
    return [
        records.make(
            method,
            seed,
            dataset,
            preset,
            scores={name: value + 0.001 * (seed - 1) for name, value in scores.items()},
            **more,
        )
        for seed in range(n)
    ]


def compared(found):
    """The lines of the comparison with later papers, by method, what and source; and the table."""
    (board,) = records.leaderboards(found)
    tables = [table for table in paper_tables(board) if "later papers" in table.title]
    lines = [line for table in tables for line in table.lines]
    key = lambda line: (line.method, line.cells["what"].text, line.cells["from"].text)  # noqa: E731
    return {key(line): line.cells for line in lines}, tables


def test_every_name_is_a_method_of_ours():
    names = {row.ours for table in published.tables() for row in table.rows if row.ours}
    later = {"pro-randconv", "randaugment", "trivialaugment"}  # may be in a package of their own
    assert names - later <= registry.entries("method").keys()
    assert {"erm", "randconv", "augmix", "me-ada", "advst", "alt-crop", "l2d"} <= names


def test_each_printed_row_has_its_own_verdicts():
    lines, (table,) = compared(ours("randconv", DIGITS))
    svhn = lines["randconv", "svhn", "S AF"]
    assert [str(svhn[name]) for name in ("ours", "paper", "gap", "verdict")] == [
        "57.6 ±0.2",
        "57.56",
        "+0.0",
        "reproduced",
    ]
    assert lines["randconv", "mnist-m", "S AF"]["verdict"].text == "not reproduced"
    assert lines["randconv", "syn", "S AF"]["verdict"].text == "better"
    average = lines["randconv", "average over 4", "S AF"]
    assert average["paper"].mean == pytest.approx((57.56 + 87.77 + 62.85 + 84.37) / 4)
    assert average["ours"].mean == pytest.approx(100 * np.mean(list(DIGITS.values())))
    assert lines["randconv", "svhn", "N PRC-N"]["paper"].mean == 61.66
    assert len(lines) == 10
    assert any("AdvFrequency" in note for note in table.notes)
    assert any(note.startswith("protocol of digits_later") for note in table.notes)


def test_the_own_erm_of_a_source_stands_next_to_it():
    lines, _ = compared(ours("randconv", DIGITS))
    assert lines["randconv", "svhn", "N PRC-N"]["their_erm"].mean == 32.52
    average = lines["randconv", "average over 4", "N PRC-N"]["their_erm"].mean
    assert average == pytest.approx((32.52 + 54.92 + 42.34 + 78.21) / 4)
    assert lines["randconv", "svhn", "S AF"]["their_erm"].mean is None  # AF prints none


def test_an_average_without_cells_needs_all_domains():
    lines, _ = compared(ours("advst", DIGITS))
    assert {key[1:] for key in lines} == {("average over 4", "S AF")}
    assert lines["advst", "average over 4", "S AF"]["paper"].mean == 80.10
    assert compared(ours("advst", {"svhn": 0.5, "usps": 0.7}))[1] == []


def test_a_row_with_some_cells_is_compared_in_these():
    lines, _ = compared(ours("me-ada", DIGITS))
    assert {key[1:] for key in lines} == {("svhn", "N WW")}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"preset": "quick"}, "reduced scale: not comparable"),
        ({"n": 1}, "one seed: no verdict"),
        ({}, "reproduced"),
    ],
)
def test_the_rules_are_those_of_the_other_verdicts(more, expected):
    lines, _ = compared(ours("randconv", DIGITS, **more))
    assert lines["randconv", "svhn", "S AF"]["verdict"].text == expected


def test_categories_of_cifar10c_are_means_over_the_15_corruptions():
    found = [records.make("augmix", seed, "cifar10c", "paper") for seed in range(2)]
    lines, _ = compared(found)
    values = [
        {
            name: domain["accuracy"]
            for name, domain in record["results"]["last"]["per_domain"].items()
        }
        for record in found
    ]
    weather = np.mean([run[f"{name}/5"] for run in values for name in ("fog", "snow", "frost")])
    noise = [f"{name}_noise/5" for name in ("shot", "impulse", "gaussian")]
    noise = np.mean([run[name] for run in values for name in noise])
    assert lines["augmix", "weather", "S AF"]["ours"].mean == pytest.approx(100 * weather)
    assert lines["augmix", "noise", "S AF"]["ours"].mean == pytest.approx(100 * noise)
    four = [
        lines["augmix", name, "S AF"]["ours"].mean
        for name in ("weather", "blur", "noise", "digital")
    ]
    average = lines["augmix", "average over 4", "S AF"]
    assert average["ours"].mean == pytest.approx(np.mean(four))
    assert average["paper"].mean == pytest.approx(75.2975)


def test_methods_that_no_later_paper_prints_make_no_table():
    assert compared(ours("new", DIGITS))[1] == []


def test_a_source_of_pacs_is_compared_by_its_mean_over_the_targets():
    scores = {"art_painting": 0.6, "cartoon": 0.3, "sketch": 0.3}
    found = ours("l2d", scores, "pacs")
    for record in found:
        record["source"]["name"] = "photo"
    lines, _ = compared(found)
    assert {key[1:] for key in lines} == {("average over 3", "P L2D-R"), ("average over 3", "S AF")}
    line = lines["l2d", "average over 3", "S AF"]
    assert (line["paper"].mean, line["their_erm"].mean) == (51.17, 33.52)
    assert line["ours"].mean == pytest.approx(40)
    for record in found:  # a target is missing
        record["results"]["last"]["per_domain"].pop("sketch")
        record["domains"].pop("sketch")
    assert compared(found)[1] == []
