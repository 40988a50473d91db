"""What tables cost over reading the records at all."""

import json
import subprocess
import sys

import pytest
import sample_records as records

from sdgbench import leaderboard
from sdgbench.leaderboard import make_table

METHODS = ("erm", "gud", "mada", *(f"method{number}" for number in range(31)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """About a thousand records, a third of them with 96 domains."""
    root = tmp_path_factory.mktemp("runs")
    records.write(root, METHODS, range(10), ("digits", "cifar10c", "synthia"))
    return root


def test_tables_of_1000_records_over_parsing_them(runs, ratio):
    paths = sorted(runs.glob("*/*/*/record.json"))
    assert len(paths) == 1020

    def tables():
        loaded = leaderboard.load([runs], ("last",))
        found = [make_table(board) for board in leaderboard.leaderboards(loaded.runs)]
        assert len(found) == 3
        leaderboard.render(found, "table")

    ratio(tables, lambda: [json.loads(path.read_bytes()) for path in paths], rounds=5)


def test_compare_over_an_empty_python(runs, ratio):
    def run(*arguments):
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    ratio(
        lambda: run("-m", "sdgbench", "compare", "--runs", str(runs)),
        lambda: run("-c", "pass"),
        rounds=5,
    )
