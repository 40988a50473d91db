"""The live table of a matrix, drawn on a screen of 80 by 24."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from sdgbench.launch.attempt import Result
from sdgbench.launch.live_table import LiveTable
from sdgbench.reporter import PlannedStage


def runs(count, **values):
    return [run(seed, **values) for seed in range(1, count + 1)]


def run(seed, method="mada-no-relax"):
    return SimpleNamespace(
        method=method,
        dataset="streets-mini",
        seed=seed,
        short_label=f"{method} streets-mini {seed}",
        label=f"{method} on streets-mini (quick, seed {seed})",
    )


@pytest.fixture
def screen():
    return Console(file=io.StringIO(), width=80, height=24, force_terminal=True, color_system=None)


def drawn(table):
    """What the table would look like on another screen of its size."""
    size = {"width": table.console.width, "height": table.console.height}
    other = Console(file=io.StringIO(), color_system=None, **size)
    other.print(table.render())
    return [line.rstrip() for line in other.file.getvalue().splitlines()]


@pytest.fixture
def clock(monkeypatch):
    """No time passes unless a test says so."""
    clock = SimpleNamespace(monotonic=lambda: 1000.0 + clock.passed, passed=0.0)
    for module in ("progress", "whole_run", "live_table"):
        monkeypatch.setattr(f"sdgbench.launch.{module}.time", clock)
    return clock


def test_a_line_for_each_run_under_way(screen, clock):
    with LiveTable(screen, runs(300)) as table:
        for position in range(1, 5):
            table.start_run(position, run(position))
        table.end_run(1, Result(run(1), "done"))
        table.end_run(2, Result(run(2), "failed"))
        table.end_run(5, Result(run(5), "finished before"))
        table.end_run(6, Result(run(6), "skipped"))
        row = table.rows[3]
        row.plan([PlannedStage("wae", 10.0), PlannedStage("train", 30.0)], over=0)
        row.begin("wae", 10)
        row.begin("train", 10000)
        clock.passed = 100.0
        row.update(2500, 0.12345, 1234.5)
        table.rows[4].begin("render", 7, 3)
        lines = drawn(table)
    assert lines[0].split() == ["run", "phase", "done", "loss", "img/s", "left"]
    assert lines[1].split() == [
        "3",
        "mada-no-relax",
        "streets-mini",
        "3",
        "train",
        "2/2",
        "43%",
        "0.123",
        "1234",
        "0:05:00",
    ]
    assert lines[2].split() == ["4", "mada-no-relax", "streets-mini", "4", "render", "3/7"]
    text = " ".join(lines[3:])
    assert text.startswith("300 runs: 2 done, 1 failed, 1 skipped, 2 running, 294 waiting; 0:01:40")
    assert "left (" in text
    assert len(lines) == 5
    assert max(map(len, lines)) <= 80


def test_many_runs_stay_on_the_screen(screen):
    with LiveTable(screen, runs(500)) as table:
        for position in range(1, 65):
            table.start_run(position, run(position, "a-method-with-a-very-long-name-indeed"))
        lines = drawn(table)
    assert len(lines) <= 24
    assert lines[-2] == "and 46 more"
    assert lines[-1].startswith("500 runs: 64 running, 436 waiting")
    assert max(map(len, lines)) <= 80


@pytest.mark.usefixtures("clock")
def test_lines_without_a_terminal():
    console = Console(file=io.StringIO(), width=80)
    with LiveTable(console, runs(2, method="erm")) as table:
        reporter = table.start_run(1, run(0, "erm"))
        reporter.begin("train", 20)
        reporter.end()
        table.end_run(1, Result(run(0, "erm"), "done"))
    assert console.file.getvalue().splitlines() == [
        "[1/2] erm on streets-mini (quick, seed 0): train 0/20 in 0.0 s",
        "[1/2] erm on streets-mini (quick, seed 0): done. 2 runs: 1 done, 1 waiting",
    ]


def test_the_time_of_all_runs_follows_those_that_are_done(screen, clock):
    specs = [run(0, "erm"), run(0, "mada"), run(1, "erm"), run(1, "mada")]
    with LiveTable(screen, specs) as table:
        assert table.seconds_left() is None
        table.start_run(1, specs[0])
        clock.passed = 10.0
        table.end_run(1, Result(specs[0], "done"))
        assert table.seconds_left() == pytest.approx(30)  # nothing else is known yet
        row = table.start_run(2, specs[1])
        row.plan([PlannedStage("train", 1.0)])
        row.begin("train", 4)
        clock.passed = 30.0
        row.update(1, None, 0.0)  # 20 s for a quarter
        assert table.seconds_left() == pytest.approx(60 + 10 + 10)
        clock.passed = 90.0
        table.end_run(2, Result(specs[1], "done"))
        assert table.seconds_left() == pytest.approx(10 + 80)
        assert "about 0:01:30 left (50%)" in " ".join(drawn(table))


def test_a_stop_is_announced_once_inside_the_table(screen, capsys):
    with LiveTable(screen, runs(1)) as table:
        table.start_run(1, run(1))
        table.show_stopping()
        assert drawn(table)[-1].startswith("Stopping after this step and saving")
    assert capsys.readouterr().err == ""
    plain = LiveTable(Console(file=io.StringIO()), runs(1))
    with plain:
        plain.show_stopping()
    assert capsys.readouterr().err.count("Stopping after this step") == 1
