"""What all formats of a table share: clean text, the first cells, blocks of columns."""

from collections.abc import Callable, Sequence

from sdgbench.errors import printable
from sdgbench.leaderboard.table import Column, Line, Table

clean = printable  # of whatever a record holds


def leading(table: Table, line: Line, escape: Callable[[object], str]) -> list[str]:
    """The first cells of a line: its name and, where it is known, the number of seeds."""
    seeds = "-" if line.n is None else str(line.n)
    return [escape(line.method), *([seeds] if table.is_counted else [])]


def blocks(
    columns: Sequence[Column], fits: Callable[[Sequence[Column]], bool]
) -> list[list[Column]]:
    """Divide columns into blocks that fit, at the borders of groups where that is possible."""
    keys = [column for column in columns if column.is_key]
    others = [column for column in columns if not column.is_key]
    divided: list[list[Column]] = [[]]
    for position, column in enumerate(others):
        starts_group = not position or column.group != others[position - 1].group
        group = [c for c in others[position:] if c.group == column.group] if column.group else []
        keeps_together = starts_group and group and fits([*keys, *group])
        wanted = [*keys, *divided[-1], *(group if keeps_together else [column])]
        if divided[-1] and not fits(wanted):
            divided.append([])
        divided[-1].append(column)
    return [[*keys, *block] for block in divided]
