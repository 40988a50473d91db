"""The paper's other questions beside ours: efficiency and ways to relax."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sdgbench import published
from sdgbench.leaderboard.grouping import Board, Row
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import Line, Table
from sdgbench.leaderboard.verdicts import (
    RULE,
    Pair,
    as_line,
    beside,
    obstacle,
    sources_of,
    without_runs,
)
from sdgbench.leaderboard.views import number

CLOSE = 0.01  # of a printed count of parameters, which is rounded or cut off
HARDWARE = "other hardware: not comparable"
RELAXATIONS = {"pixel_distance": "pixel", "vanilla_ae": "ae", "wae": "wae"}  # printed: ours
RANKED = {"digits": "average", "cifar10c": "acc19_L5"}  # what the paper's averages are over


def tables(
    board: Board, choice: str, rows: Sequence[Row], methods: Sequence[str] = ()
) -> list[Table]:
    """One table per question that was asked of the board's dataset and source."""
    if not published.tables_for(board.dataset, str(board.ground.source.get("name", ""))):
        return []
    found = (make(board, choice, rows) for make in (_efficiency, _relaxation))
    return [_only(table, methods) for table in found if table and _only(table, methods).lines]


def _only(table: Table, methods: Sequence[str]) -> Table:
    """Without the lines of methods that were not asked for."""
    names = (re.split(r"[ ,]", line.method)[0] for line in table.lines)
    kept = [
        line
        for line, name in zip(table.lines, names, strict=True)
        if not methods or line.n is not None or name in methods
    ]
    return replace(table, lines=tuple(kept))


def _averages(board: Board, choice: str, row: Row) -> list[float]:
    """The average that the paper has, in per cent, seed by seed; empty: not all of it is there."""
    name = RANKED[board.dataset]
    if name not in board.ground.averages or board.ground.missing:
        return []
    place = list(board.ground.averages).index(name)
    scores = [run.scores[choice] for run in row.runs.values() if choice in run.scores]
    return [100 * score.averages[place] for score in scores]


@dataclass(frozen=True)
class _Figure:
    """A column of the paper's efficiency table."""

    column: str
    name: str
    read: Callable[[Run], float | None]
    scale: float = 1.0


FIGURES = (
    _Figure("parameters_millions", "params_M", number("efficiency", "parameters_inference"), 1e-6),
    _Figure("inference_ms", "ms per image", number("efficiency", "latency", "batch_1", "p50_ms")),
)


def _efficiency(board: Board, choice: str, rows: Sequence[Row]) -> Table | None:
    table = published.table("efficiency")
    if board.dataset != table.dataset:
        return None
    lines: list[Line] = []
    for printed in table.rows:
        own = [row for row in rows if row.method == printed.method]
        if not own:
            names = {figure.column: figure.name for figure in FIGURES}
            lines += [
                without_runs(printed.method, names.get(column, "average"), value)
                for column, value in printed.cells.items()
            ]
        for row in own:
            lines += _efficiency_lines(board, choice, row, table, printed)
    machines = {run.machine for row in rows for run in row.runs.values() if run.machine}
    notes = [
        f"params_M: million parameters at inference, reproduced: within {CLOSE:.0%} of the printed "
        "number, which is rounded; it has no interval",
        "ms per image: ours is the median of batches of 1; "
        f"ours on {'; '.join(sorted(machines)) or 'a machine that no record tells'}, the paper's "
        "on its own: no verdict",
        RULE,
        *sources_of([table]),
    ]
    return beside(board, choice, lines, notes, ", efficiency")


def _efficiency_lines(
    board: Board,
    choice: str,
    row: Row,
    table: published.PublishedTable,
    printed: published.PublishedRow,
) -> Iterator[Line]:
    against = obstacle(row, table)
    for figure in FIGURES:
        known = [figure.read(run) for run in row.runs.values()]
        values = [figure.scale * value for value in known if value is not None]
        if not values or len(values) < len(known):
            continue
        theirs = printed.cells[figure.column]
        if figure.column == "inference_ms":
            said = HARDWARE
        else:
            values = values[:1] if len(set(values)) == 1 else values
            close = all(abs(value - theirs) <= CLOSE * theirs for value in values)
            said = against or ("reproduced" if close else "not reproduced")
        line = as_line(row, Pair(figure.name, values, theirs, 2), said)
        yield replace(line, n=len(row.runs))
    if ours := _averages(board, choice, row):
        yield as_line(row, Pair("average", ours, printed.cells["digits_average"]), against)


def _relaxation(board: Board, choice: str, rows: Sequence[Row]) -> Table | None:
    table = published.table("relaxation")
    printed = table.row(board.dataset)  # of this table, rows are datasets
    if printed is None:
        return None
    lines: list[Line] = []
    for column, relaxation in RELAXATIONS.items():
        own = [
            row
            for row in rows
            if row.method == "mada" and _parameter(row, "relaxation") == relaxation
        ]
        shown = [
            as_line(row, Pair(relaxation, ours, printed.cells[column]),
                    obstacle(row, table, asked=("relaxation",)))
            for row in own
            if (ours := _averages(board, choice, row))
        ]  # fmt: skip
        lines += shown or [without_runs("mada", relaxation, printed.cells[column])]
    notes = [
        f"what: the parameter relaxation; the numbers are {RANKED[board.dataset]}", RULE,
        *sources_of([table]),
    ]  # fmt: skip
    unprinted = [
        row.name
        for row in rows
        if row.method == "mada-no-relax" or _parameter(row, "relaxation") == "literal"
    ]
    if unprinted:
        notes.append(f"this table of the paper has no such row: {', '.join(unprinted)}")
    return beside(board, choice, lines, notes, ", relaxations")


def _parameter(row: Row, name: str) -> object:
    return json.loads(next(iter(row.runs.values())).params).get(name)
