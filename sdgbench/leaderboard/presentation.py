"""The same tables with other columns, or with standard deviations instead of intervals."""

import math
from collections.abc import Sequence
from dataclasses import replace

from sdgbench.errors import unknown
from sdgbench.leaderboard.cells import INTERVAL
from sdgbench.leaderboard.table import Cell, Table

DEVIATION = "±: standard deviation over n seeds"


def with_columns(tables: Sequence[Table], names: Sequence[str]) -> list[Table]:
    """Only these columns, in this order; a table that has none of them stays as it is."""
    known = dict.fromkeys(column.name for table in tables for column in table.columns)
    for name in names:
        if name not in known:
            raise unknown("column", name, known)
    return [_with_columns(table, names) for table in tables]


def _with_columns(table: Table, names: Sequence[str]) -> Table:
    columns = tuple(column for name in names if (column := table.column(name)) is not None)
    if not columns:
        return table
    gone = {f"{column.name}: " for column in table.columns if column.name not in names}
    legend = tuple(item for item in table.legend if not item.startswith(tuple(gone)))
    return replace(table, columns=columns, legend=legend)


def with_deviations(tables: Sequence[Table]) -> list[Table]:
    """Standard deviations over seeds instead of the half-widths of intervals."""
    return [
        replace(
            table,
            lines=tuple(
                replace(line, cells={name: _deviated(cell) for name, cell in line.cells.items()})
                for line in table.lines
            ),
            legend=tuple(DEVIATION if item == INTERVAL else item for item in table.legend),
            spread="std",
        )
        for table in tables
    ]


def _deviated(cell: Cell) -> Cell:
    values = [value for value in cell.samples.values() if value is not None]
    if cell.half is None or len(values) < 2:
        return cell
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return replace(cell, half=math.sqrt(variance))
