"""The live table of a matrix, drawn on a screen of 80 by 24."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from sdgbench.launch.board import Board
from sdgbench.launch.one import Result


def run(seed, method="mada-no-relax"):
    return SimpleNamespace(method=method, dataset="streets-mini", seed=seed,
                           label=f"{method} on streets-mini (quick, seed {seed})")  # fmt: skip


@pytest.fixture
def screen():
    return Console(file=io.StringIO(), width=80, height=24, force_terminal=True, color_system=None)


def drawn(board):
    with board.console.capture() as printed:
        board.console.print(board.picture())
    return [line.rstrip() for line in printed.get().splitlines()]


@pytest.fixture
def _still(monkeypatch):
    """No time passes unless a test says so."""
    monkeypatch.setattr("sdgbench.progress.time", SimpleNamespace(monotonic=lambda: 1000.0))


@pytest.mark.usefixtures("_still")
def test_a_line_for_each_run_under_way(screen):
    with Board(screen, 300) as board:
        for position in range(1, 5):
            board.open(position, run(position))
        board.close(1, Result(run(1), "done"))
        board.close(2, Result(run(2), "failed"))
        board.close(5, Result(run(5), "finished before"))
        board.close(6, Result(run(6), "skipped"))
        row = board.rows[3]
        row.begin("train", 10000)
        row.at.began -= 100
        row.update(2500, 0.12345, 1234.5)
        lines = drawn(board)
    assert lines[0].split() == ["run", "phase", "done", "loss", "img/s", "left"]
    assert lines[1].split() == [
        "3", "mada-no-relax", "streets-mini", "3", "train", "2500/10000", "0.123", "1234", "0:05:00",
    ]  # fmt: skip
    assert lines[2].split() == ["4", "mada-no-relax", "streets-mini", "4", "starting"]
    assert lines[3].startswith("300 runs: 2 done, 1 failed, 1 skipped, 2 running, 294 waiting; 0:")
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80


def test_many_runs_stay_on_the_screen(screen):
    with Board(screen, 500) as board:
        for position in range(1, 65):
            board.open(position, run(position, "a-method-with-a-very-long-name-indeed"))
        lines = drawn(board)
    assert len(lines) == 23
    assert lines[-2] == "and 44 more"
    assert lines[-1].startswith("500 runs: 64 running, 436 waiting")
    assert max(map(len, lines)) <= 80


@pytest.mark.usefixtures("_still")
def test_lines_without_a_terminal():
    console = Console(file=io.StringIO(), width=80)
    with Board(console, 2) as board:
        told = board.open(1, run(0, "erm"))
        told.begin("train", 20)
        told.end()
        board.refresh()
        board.close(1, Result(run(0, "erm"), "done"))
    assert console.file.getvalue().splitlines() == [
        "[1/2] erm on streets-mini (quick, seed 0): train 0/20 in 0.0 s",
        "[1/2] erm on streets-mini (quick, seed 0): done. 2 runs: 1 done, 1 waiting",
    ]
