"""The live table of a matrix, drawn on a screen of 80 by 24."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from sdgbench.launch.attempt import Result
from sdgbench.launch.live_table import LiveTable
from sdgbench.reporter import PlannedStage
from sdgbench.spec.run_spec import RunSpec


def runs(count, **values):
    return [run(seed, **values) for seed in range(1, count + 1)]


def run(seed, method="mada-no-relax", **recipe):
    changes = tuple(recipe)
    return RunSpec(method, {}, "streets-mini", 1, {}, (), "quick", recipe, changes, seed)


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
            table.start_run(position)
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
        "seed",
        "3",
        "train",
        "2/2",
        "43%",
        "0.123",
        "1234",
        "0:05:00",
    ]
    assert lines[2].split() == ["4", "mada-no-relax", "seed", "4", "render", "3/7"]
    # A line that is too long breaks where its second half begins, not before its last word.
    assert lines[3] == "300 runs: 2 done, 1 failed, 1 skipped, 2 running, 294 waiting"
    assert lines[4].startswith("1% done in 0:01:40, about ")
    assert len(lines) == 5
    assert max(map(len, lines)) <= 80


def test_many_runs_stay_on_the_screen(screen):
    with LiveTable(screen, runs(500, method="a-method-with-a-very-long-name-indeed")) as table:
        for position in range(1, 65):
            table.start_run(position)
        lines = drawn(table)
    assert len(lines) <= 24
    assert lines[-2] == "and 46 more"
    assert lines[-1].startswith("500 runs: 64 running, 436 waiting")
    assert max(map(len, lines)) <= 80


def test_columns_of_numbers_are_never_cut(screen, clock):
    """The points of a grid are told apart by their setting, however much else there is to show."""
    specs = [run(0, "gud-ensemble", lr=lr, weight_decay=0.0001234) for lr in (0.0001, 0.00025)]
    with LiveTable(screen, specs) as table:
        for position in (1, 2):
            row = table.start_run(position)
            row.plan([PlannedStage("generate", 1.0)] * 13, over=9)
            row.begin("generate", 100)
            clock.passed += 4000.0
            row.update(50, 12.3456, 12345.6)
        lines = drawn(table)
    assert lines[0].split() == ["run", "phase", "done", "loss", "img/s", "left"]
    assert lines[1].startswith("1  gud-ensemble recipe.lr=0.0001 ")
    assert lines[2].startswith("2  gud-ensemble recipe.lr=0.00025 ")
    assert [line.split()[3:] for line in lines[1:3]] == [
        ["generate", "10/13", "73%", "12.346", "12346", "15:33:20"],
        ["generate", "10/13", "73%", "12.346", "12346", "7:46:40"],
    ]
    assert max(map(len, lines)) <= 80


@pytest.mark.usefixtures("clock")
def test_lines_without_a_terminal():
    console = Console(file=io.StringIO(), width=80)
    with LiveTable(console, runs(2, method="erm")) as table:
        reporter = table.start_run(1)
        reporter.begin("train", 20)
        reporter.end()
        table.end_run(1, Result(run(0, "erm"), "done"))
    assert console.file.getvalue().splitlines() == [
        "[1/2] erm on streets-mini (quick, seed 1): train 0/20 in 0.0 s",
        "[1/2] erm on streets-mini (quick, seed 1): done. 2 runs: 1 done, 1 waiting; 50% done",
    ]


def test_the_time_of_all_runs_follows_those_that_are_done(screen, clock):
    specs = [run(0, "erm"), run(0, "mada"), run(1, "erm"), run(1, "mada")]
    with LiveTable(screen, specs) as table:
        assert table.seconds_left() is None
        table.start_run(1)
        clock.passed = 10.0
        table.end_run(1, Result(specs[0], "done"))
        assert table.seconds_left() == pytest.approx(30)  # nothing else is known yet
        row = table.start_run(2)
        row.plan([PlannedStage("train", 1.0)])
        row.begin("train", 4)
        clock.passed = 30.0
        row.update(1, None, 0.0)  # 20 s for a quarter
        assert table.seconds_left() == pytest.approx(60 + 10 + 80)
        # mada will take 80 s, erm took 10 s.
        assert table.share() == pytest.approx((10 + 0.25 * 80) / (2 * 10 + 2 * 80))
        clock.passed = 90.0
        table.end_run(2, Result(specs[1], "done"))
        assert table.seconds_left() == pytest.approx(10 + 80)
        assert (
            drawn(table)[-1] == "4 runs: 2 done, 2 waiting; 50% done in 0:01:30, about 0:01:30 left"
        )
        table.end_run(3, Result(specs[2], "stopped"))
        assert table.share() == pytest.approx(0.5)  # what was stopped is not done


def test_a_stop_is_announced_once_inside_the_table(screen, capsys):
    with LiveTable(screen, runs(1)) as table:
        table.start_run(1)
        table.show_stopping()
        assert drawn(table)[-1].startswith("Stopping after this step and saving")
        assert "left" not in drawn(table)[-2]
    assert capsys.readouterr().err == ""
    plain = LiveTable(Console(file=io.StringIO()), runs(1))
    with plain:
        plain.show_stopping()
    assert capsys.readouterr().err.count("Stopping after this step") == 1
