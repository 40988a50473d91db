"""The summary of a matrix on a terminal of 80 columns."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from sdgbench.launch.attempt import Result
from sdgbench.launch.columns import two_widths
from sdgbench.launch.summary import conclude
from sdgbench.spec.run_spec import RunSpec


def run(lr, network="timm:resnet18.a1_in1k"):
    recipe = {"lr": lr, "network": network, "augment": "flip"}
    changes = ("network", *(("lr",) if lr != 0.001 else ()))
    return RunSpec("mada-no-relax", {}, "pacs", 1, {}, (), "paper", recipe, changes, 0)


@pytest.fixture
def shown():
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)

    def show(*results):
        code = conclude(results, console, Path("runs"))
        return code, [line.rstrip() for line in console.file.getvalue().splitlines()]

    return show


def test_runs_of_a_grid_are_told_apart_and_no_word_breaks(shown):
    code, lines = shown(
        Result(run(0.001), "stopped", remark="at generate step 12345/20000"),
        Result(run(0.0002), "not started"),
    )
    assert code == 130
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).split()
    for word in ("recipe.lr=0.001,", "recipe.lr=0.0002,", "recipe.network=timm:resnet18.a1_in1k)"):
        assert word in words
    # Each run once, with where it was stopped.
    assert words.count("mada-no-relax") == 2
    assert "12345/20000" in words
    assert lines[-1] == "Stopped and saved. Run the same command again to go on."


@pytest.mark.parametrize(
    ("left", "right", "widths"),
    [
        (["short"], ["also short"], (5, 60)),
        (["a " * 30], ["b " * 10], (45, 20)),  # all of the right one, the rest for the left
        (["a " * 40], ["b " * 40], (32, 33)),
        ([f"{'x' * 40} a"], ["b " * 40], (40, 25)),  # a long word
        (["a " * 40], [f"{'y' * 50} b"], (15, 50)),
    ],
)
def test_two_columns_share_the_room_without_breaking_words(left, right, widths):
    assert two_widths(65, left, right) == widths
