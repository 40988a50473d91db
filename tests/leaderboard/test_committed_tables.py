"""The committed tables are those that the committed records give."""

import html
import json
import re
from pathlib import Path

import pytest

from sdgbench.cli.app import main
from sdgbench.records.badges import badge_of

ROOT = Path(__file__).parents[2] / "leaderboards"
DOCS = ROOT.parent / "docs"
COMMANDS = re.findall(
    r"sdgbench ((?:compare|report) --runs leaderboards/records.*) --output leaderboards/(\S+)",
    (ROOT.parent / "Makefile").read_text(),
)


def test_the_makefile_makes_every_table_that_is_here():
    made = {name for _, name in COMMANDS}
    assert made == {path.name for path in ROOT.glob("*.*")} - {"README.md"}


@pytest.mark.parametrize(("command", "name"), COMMANDS)
def test_the_table_is_not_stale(command, name, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT.parent)
    made = tmp_path / name
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--output", str(made)])
    assert stop.value.code == 0
    assert made.read_text() == (ROOT / name).read_text(), "run: make leaderboards"


def test_the_page_is_small_and_names_no_place_of_this_machine():
    page = (ROOT / "index.html").read_text()
    assert len(page.encode()) < 3_000_000
    assert str(ROOT.parent) not in page
    assert str(Path.home()) not in page


def test_what_was_verified_was_not_edited_since():
    verified = [path.parent for path in ROOT.glob("records/*/*/*/verification.json")]
    assert len(verified) >= 30
    assert {folder.name for folder in verified if badge_of(folder) == "claimed"} == set()


def test_the_efficiency_table_names_the_machine():
    records = [json.loads(path.read_text()) for path in ROOT.glob("records/*/*/*/record.json")]
    table = (ROOT / "efficiency.md").read_text()
    for record in records:
        assert record["machine"]["hardware"] in table.replace("\\", "")


def test_the_picture_shows_the_table(tmp_path):
    methods = re.search(r'^METHODS = "(.*)"', (DOCS / "pictures.py").read_text(), re.M)[1]
    command = ["compare", "--runs", ROOT / "records", "--dataset", "digits-mini"]
    made = tmp_path / "table.md"
    with pytest.raises(SystemExit):
        main([*map(str, command), "--methods", methods, "--output", str(made)])
    lines = made.read_text().splitlines()
    heads, _, *rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    average = [head.strip() for head in heads].index("average")
    picture = html.unescape((DOCS / "compare.svg").read_text()).replace("\u00a0", " ")
    assert len(rows) == len(methods.split(","))
    for row in rows:
        assert re.sub(r"</?u>|\*", "", row[average]).strip() in picture, "run: make leaderboards"
