"""The paper's other tables next to ours: efficiency and relaxation terms."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sdgbench.leaderboard.costs import number
from sdgbench.leaderboard.grouping import Leaderboard, Row
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import Line, Table
from sdgbench.paper import published
from sdgbench.paper.verdicts import (
    RULE,
    Pair,
    as_line,
    comparison_table,
    obstacle,
    sources_of,
    without_runs,
)

CLOSE = 0.01  # of a printed count of parameters, which is rounded or cut off
HARDWARE = "other hardware: not comparable"
RELAXATIONS = {"pixel_distance": "pixel", "vanilla_ae": "ae", "wae": "wae"}  # printed: ours
RANKED = {"digits": "average", "cifar10c": "acc19_L5"}  # what the paper's averages are over


def tables(
    board: Leaderboard, choice: str, rows: Sequence[Row], methods: Sequence[str] = ()
) -> list[Table]:
    """Those of the paper's tables that are about the leaderboard's dataset and source."""
    if not published.tables_for(board.dataset, board.protocol.source.name):
        return []
    both = (_efficiency(board, choice, rows), _relaxation(board, choice, rows))
    kept = [_only(table, methods) for table in both if table]
    return [table for table in kept if table.lines]


def _only(table: Table, methods: Sequence[str]) -> Table:
    """Drop the lines of methods that are not wanted; lines of our runs were chosen before."""
    names = (re.split(r"[ ,]", line.method)[0] for line in table.lines)
    kept = [
        line
        for line, name in zip(table.lines, names, strict=True)
        if not methods or line.n is not None or name in methods
    ]
    return replace(table, lines=tuple(kept))


def _averages(board: Leaderboard, choice: str, row: Row) -> list[float]:
    """The average that the paper has, in per cent, seed by seed; empty: domains are missing."""
    name = RANKED[board.dataset]
    if name not in board.protocol.averages or board.protocol.missing:
        return []
    index = list(board.protocol.averages).index(name)
    scores = [run.scores[choice] for run in row.runs.values() if choice in run.scores]
    return [100 * score.averages[index] for score in scores]


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


def _efficiency(board: Leaderboard, choice: str, rows: Sequence[Row]) -> Table | None:
    table = published.table("efficiency")
    if board.dataset != table.dataset:
        return None
    lines: list[Line] = []
    for printed in table.rows:
        matching = [row for row in rows if row.method == printed.method]
        if not matching:
            names = {figure.column: figure.name for figure in FIGURES}
            lines += [
                without_runs(printed.method, names.get(column, "average"), value)
                for column, value in printed.cells.items()
            ]
        for row in matching:
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
    return comparison_table(board, choice, lines, notes, ", efficiency")


def _efficiency_lines(
    board: Leaderboard,
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
            remark = HARDWARE
        else:
            values = values[:1] if len(set(values)) == 1 else values
            close = all(abs(value - theirs) <= CLOSE * theirs for value in values)
            remark = against or ("reproduced" if close else "not reproduced")
        line = as_line(row, Pair(figure.name, values, theirs, 2), remark)
        yield replace(line, n=len(row.runs))
    if ours := _averages(board, choice, row):
        yield as_line(row, Pair("average", ours, printed.cells["digits_average"]), against)


def _relaxation(board: Leaderboard, choice: str, rows: Sequence[Row]) -> Table | None:
    table = published.table("relaxation")
    printed = table.row(board.dataset)  # of this table, rows are datasets
    if printed is None:
        return None
    lines: list[Line] = []
    for column, relaxation in RELAXATIONS.items():
        matching = [
            row
            for row in rows
            if row.method == "mada" and _parameter(row, "relaxation") == relaxation
        ]
        shown = [
            as_line(
                row,
                Pair(relaxation, ours, printed.cells[column]),
                obstacle(row, table, studied=("relaxation",)),
            )
            for row in matching
            if (ours := _averages(board, choice, row))
        ]
        lines += shown or [without_runs("mada", relaxation, printed.cells[column])]
    notes = [
        f"what: the parameter relaxation; the numbers are {RANKED[board.dataset]}",
        RULE,
        *sources_of([table]),
    ]
    unprinted = [
        row.name
        for row in rows
        if row.method == "mada-no-relax" or _parameter(row, "relaxation") == "literal"
    ]
    if unprinted:
        notes.append(f"this table of the paper has no such row: {', '.join(unprinted)}")
    return comparison_table(board, choice, lines, notes, ", relaxations")


def _parameter(row: Row, name: str) -> object:
    return json.loads(next(iter(row.runs.values())).params).get(name)
