"""A method against its own variants, and the paper's rows beside them."""

import json

import pytest
import sample_records as records

from sdgbench import leaderboard
from sdgbench.leaderboard import make_table
from sdgbench.paper import ablation


def put(root, method, average, seeds=(0, 1), changed=None, **params):
    """Records of a method whose four domains all have one score, which rises with the seed."""
    for seed in seeds:
        value = average + 0.02 * seed
        scores = dict.fromkeys(records.TAGS["digits"], value)
        flags = {"params_changed": changed}
        record = records.make(method, seed, scores=scores, params=params, flags=flags)
        records.save(root, record)


@pytest.fixture
def variants(tmp_path):
    root = tmp_path / "runs"
    put(root, "erm", 0.30, changed=[])
    put(root, "mada", 0.50, changed=[], relaxation="wae", K=3)
    put(root, "mada", 0.46, changed=["relaxation"], relaxation="ae", K=3)
    put(root, "mada", 0.40, changed=["relaxation"], relaxation="literal", K=3)
    put(root, "mada", 0.48, changed=["K"], relaxation="wae", K=5)
    put(root, "mada-no-meta", 0.49, changed=[], relaxation="wae", K=3)
    return root


def tables(cli, *arguments):
    done = cli("compare", "--format", "json", *arguments)
    assert done.code == 0, done.err
    return json.loads(done.out)


def lines(table):
    return {line["method"]: line for line in table["rows"]}


def test_rows_are_named_by_what_was_changed(variants):
    (board,) = ablation.ablate(leaderboard.leaderboards(leaderboard.load([variants]).runs), "mada")
    assert {row.name for row in board.rows} == {
        "mada",
        "mada (relaxation=ae)",
        "mada (relaxation=literal)",
        "mada (K=5)",
        "mada-no-meta",
    }


def test_gains_are_over_the_whole_method(variants):
    (board,) = ablation.ablate(leaderboard.leaderboards(leaderboard.load([variants]).runs), "mada")
    shown = {line.method: line.cells for line in make_table(board, baseline="mada").lines}
    assert shown["mada-no-meta"]["gain_vs_mada"].mean == pytest.approx(-1.0)
    assert shown["mada (relaxation=ae)"]["gain_vs_mada"].mean == pytest.approx(-4.0)
    assert shown["mada (K=5)"]["gain_vs_mada"].half == pytest.approx(0.0, abs=1e-9)
    assert str(shown["mada"]["gain_vs_mada"]) == "baseline"


def test_the_papers_rows_stand_beside_ours(variants):
    (board,) = ablation.ablate(leaderboard.leaderboards(leaderboard.load([variants]).runs), "mada")
    table = ablation.next_to_paper(board, "mada", "last")
    shown = {line.method: line.cells for line in table.lines}
    assert table.lines[0].method == "mada"
    assert shown["mada"]["digits"].mean == 59.49
    assert shown["mada-no-meta"]["digits"].mean == 58.55
    assert shown["mada-no-meta"]["digits_gain"].mean == pytest.approx(-0.94)  # as printed
    assert shown["mada-no-meta"]["cifar10c_gain"].mean == pytest.approx(-1.37)  # as printed
    assert shown["mada (relaxation=ae)"]["digits"].mean == 58.67
    assert shown["mada (relaxation=ae)"]["cifar10c"].mean == 63.34
    for unpublished in ("mada (relaxation=literal)", "mada (K=5)"):
        assert shown[unpublished]["digits"].mean is None
    assert any("not comparable" in note for note in table.notes)


def test_the_command_prints_both(variants, cli):
    done = cli("compare", "--ablation", "mada")
    assert (done.code, done.err) == (0, "")
    assert "gain_vs_mada" in done.out
    assert "compared with the paper" in done.out
    assert "erm" not in done.out
    assert max(map(len, done.out.splitlines())) <= 90


def test_a_typo_is_answered(variants, cli):
    done = cli("compare", "--ablation", "maad")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert 'Did you mean "mada"?' in done.err


def test_without_the_whole_method_it_says_what_to_run(tmp_path, cli):
    put(tmp_path / "runs", "mada", 0.5, changed=["K"], K=5)
    done = cli("compare", "--ablation", "mada")
    assert done.code == 2
    assert "sdgbench run --method mada --dataset digits --preset quick" in done.err


def test_an_old_record_without_the_flag_is_the_whole_method_if_alone(tmp_path):
    put(tmp_path, "mada", 0.5, K=3)
    put(tmp_path, "mada-no-meta", 0.4, K=3)
    found = leaderboard.leaderboards(leaderboard.load([tmp_path]).runs)
    (board,) = ablation.ablate(found, "mada")
    assert {row.name for row in board.rows} == {"mada", "mada-no-meta"}


def test_a_method_that_is_not_in_the_paper_has_no_table_of_it(tmp_path):
    put(tmp_path, "other", 0.5, changed=[])
    (board,) = ablation.ablate(leaderboard.leaderboards(leaderboard.load([tmp_path]).runs), "other")
    assert ablation.next_to_paper(board, "other", "last") is None


def test_each_relaxation_term_of_the_paper_is_one_of_ours():
    from sdgbench.paper import published

    table = next(table for table in published.tables() if table.name == "relaxation")
    assert set(ablation.RELAXATIONS) == set(table.columns)
