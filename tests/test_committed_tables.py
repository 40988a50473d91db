"""The committed tables are those that the committed records give."""

from pathlib import Path

import pytest

from sdgbench.cli.app import main

ROOT = Path(__file__).parents[1] / "leaderboards"


@pytest.mark.parametrize(("file", "view"), [
    ("results.md", "domains"), ("efficiency.md", "efficiency"),
])  # fmt: skip
def test_tables_are_not_stale(file, view, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT.parent)
    made = tmp_path / file
    with pytest.raises(SystemExit) as stop:
        main(["compare", "--runs", "leaderboards/records", "--view", view, "--output", str(made)])
    assert stop.value.code == 0
    assert made.read_text() == (ROOT / file).read_text(), "run: make leaderboards"
