"""The committed tables are those that the committed records give."""

from pathlib import Path

import pytest

from sdgbench.cli.app import main

ROOT = Path(__file__).parents[1] / "leaderboards"


def test_the_table_is_not_stale(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT.parent)
    made = tmp_path / "results.md"
    with pytest.raises(SystemExit) as stop:
        main(["compare", "--runs", "leaderboards/records", "--output", str(made)])
    assert stop.value.code == 0
    assert made.read_text() == (ROOT / "results.md").read_text(), "run: make leaderboards"
