"""What a page or a figure is about: the boards of some runs folders."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sdgbench.errors import UserError, unknown
from sdgbench.leaderboard import Board, Run, boards, load


@dataclass(frozen=True)
class Gathered:
    """Boards, and what could not be read."""

    boards: list[Board]
    problems: list[UserError]
    empty: list[Path]

    def remarks(self, most: int = 20) -> list[str]:
        """What a person at the terminal must be told."""
        said = [f"Skipped: {problem}" for problem in self.problems[:most]]
        if len(self.problems) > most:
            said.append(f"Skipped: {len(self.problems) - most} more records.")
        return [*said, *(f"There are no finished runs in {folder}." for folder in self.empty)]


def gather(
    folders: Sequence[Path],
    datasets: Sequence[str] = (),
    presets: Sequence[str] = (),
    methods: Sequence[str] = (),
) -> Gathered:
    """Read folders and keep what was asked for; empty: all."""
    loaded = load(folders)
    if not loaded.runs and loaded.problems:
        raise loaded.problems[0]
    if not loaded.runs:
        raise UserError(
            f"There are no finished runs in {', '.join(map(str, folders))}. Make one first: "
            "sdgbench run --method erm --dataset digits-mini --preset quick"
        )
    runs = _keep(_keep(loaded.runs, "dataset", datasets), "preset", presets)
    found = [_only(board, methods) for board in boards(runs)]
    known = {row.method for board in boards(runs) for row in board.rows}
    for method in methods:
        if method not in known:
            raise unknown("finished run of the method", method, known)
    return Gathered([board for board in found if board.rows], loaded.problems, loaded.empty)


def _keep(runs: list[Run], what: str, names: Sequence[str]) -> list[Run]:
    known = {getattr(run.ground, what) for run in runs}
    for name in names:
        if name not in known:
            raise unknown(f"finished run with the {what}", name, known)
    return [run for run in runs if not names or getattr(run.ground, what) in names]


def _only(board: Board, methods: Sequence[str]) -> Board:
    rows = [row for row in board.rows if not methods or row.method in methods]
    return replace(board, rows=rows)
