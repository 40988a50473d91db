"""A matrix ends by refreshing the tables and the page of its runs folder."""

import json
import re

import pytest
import sample_records

import sdgbench
from sdgbench.api import leaderboards

ARGUMENTS = ("run", "--method", "erm", "--dataset", "digits-mini", "--preset", "smoke")


def test_the_tables_and_the_page_hold_all_records_of_the_folder(inside, cli):
    sample_records.write(inside / "runs", ("erm", "mada"), range(2), ["digits"])
    done = cli(*ARGUMENTS)
    assert done.code == 0, done.err
    assert "Leaderboards: runs/leaderboards/index.html" in done.err
    folder = inside / "runs" / "leaderboards"
    assert cli("compare", "--format", "md").out == (folder / "tables.md").read_text()
    assert cli("compare", "--format", "csv").out == (folder / "tables.csv").read_text()
    page = (folder / "index.html").read_text()
    data = json.loads(re.search(r'type="application/json"[^>]*>(.*?)</script>', page, re.S)[1])
    assert [board["dataset"] for board in data["boards"]] == ["digits", "digits-mini"]
    before = (folder / "index.html").stat().st_mtime_ns
    again = cli(*ARGUMENTS)  # nothing new: nothing to write
    assert "Leaderboards" not in again.err
    assert (folder / "index.html").stat().st_mtime_ns == before
    assert len(sdgbench.load_records("runs")) == 5


@pytest.mark.parametrize("caller", ["command", "python"])
def test_they_can_be_left_out(inside, cli, caller):
    if caller == "command":
        assert cli(*ARGUMENTS, "--no-leaderboards").code == 0
    else:
        sdgbench.run("erm", "digits-mini", preset="smoke", progress=False, leaderboards=False)
    assert not (inside / "runs" / "leaderboards").exists()


def test_what_goes_wrong_is_a_line_and_never_an_error(inside, cli, monkeypatch):
    def broken(runs):
        raise ZeroDivisionError("why")

    monkeypatch.setattr(leaderboards, "refresh", broken)
    done = cli(*ARGUMENTS)
    assert done.code == 0
    assert "could not be written: ZeroDivisionError: why" in done.err


def test_a_damaged_record_is_left_out_and_counted(tmp_path):
    paths = sample_records.write(tmp_path, ("erm",), range(3), ["digits"])
    paths[0].write_text("{")
    page = leaderboards.refresh(tmp_path).read_text()
    assert '"skipped":1' in page
