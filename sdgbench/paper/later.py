"""Our runs against the papers of later methods, each with its source, protocol and own ERM."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sdgbench.corruptions.names import GROUPS, STANDARD_15
from sdgbench.leaderboard import corruption_metrics
from sdgbench.leaderboard.grouping import Leaderboard, Row
from sdgbench.leaderboard.notes import data_notes
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import Cell, Column, Line, Table
from sdgbench.leaderboard.views import CHOSEN
from sdgbench.paper import published
from sdgbench.paper.published import PublishedRow, PublishedTable
from sdgbench.paper.verdicts import RULE, Pair, as_line, comparison_table, obstacle, sources_of
from sdgbench.registry import BASELINE

OTHER_PROTOCOL = (
    "ours have the recipe that all methods share here; each paper has its own, and some chose "
    "weights on the targets"
)


def comparison(
    board: Leaderboard, choice: str, known: Sequence[PublishedTable], rows: Sequence[Row]
) -> list[Table]:
    """Ours next to what later papers print of the same methods; empty: nothing is printed."""
    lines = [line for row in rows for table in known for line in _lines(table, row, choice)]
    if not lines:
        return []
    used = [table for table in known if any(row.ours for row in table.rows)]
    notes = [*data_notes(board, rows), RULE, OTHER_PROTOCOL, *sources_of(used)]
    table = comparison_table(board, choice, lines, notes, ", later papers")
    columns = (
        *table.columns,
        Column("their_erm", "ERM as printed by the same source; -: it prints none"),
        Column("from", "tag and source", is_text=True, is_key=True),
    )
    title = f"{board.title}, compared with later papers{CHOSEN[choice]}"
    return [replace(table, title=title, columns=columns)]


def _lines(table: PublishedTable, row: Row, choice: str) -> Iterator[Line]:
    runs = [run for run in row.runs.values() if choice in run.scores]
    printed = [theirs for theirs in table.rows if theirs.ours == row.method]
    if not runs:
        return
    for theirs in printed:
        erm = next(
            (r for r in table.rows if r.ours == BASELINE and r.source == theirs.source), None
        )
        erm_numbers = dict(_numbers(table, erm, runs[0])) if erm else {}
        for name, number in _numbers(table, theirs, runs[0]):
            ours = [100 * _score(table, name, run, choice) for run in runs]
            line = as_line(row, Pair(_shown(name), ours, number), obstacle(row, table))
            more = {
                "their_erm": Cell(erm_numbers.get(name), digits=2),
                "from": Cell(None, text=f"{theirs.tag} {theirs.source}"),
            }
            yield replace(line, cells={**line.cells, **more})


Names = tuple[str, ...]  # one column of the table, or several that are averaged


def _numbers(table: PublishedTable, row: PublishedRow, run: Run) -> Iterator[tuple[Names, float]]:
    """What a row prints and our protocol has: each column, and their average."""
    known = [name for name in _columns(table, run) if name in row.cells]
    for name in known:
        yield (name,), row.cells[name]
    if len(known) > 1:
        yield tuple(known), math.fsum(row.cells[name] for name in known) / len(known)
    elif not row.cells and "average" in row.printed:  # its cells are not printed
        every = tuple(_columns(table, run))
        if len(every) == _count(table):
            yield every, row.printed["average"]


def _columns(table: PublishedTable, run: Run) -> list[str]:
    """The columns of a table that our protocol has; the targets, where a table has sources."""
    if table.cells == "categories":
        present = corruption_metrics.indices(run.protocol, corruption_metrics.HIGHEST)
        return [name for name in table.columns if set(_corruptions(name)) <= set(present)]
    if table.cells == "sources":
        return list(run.protocol.domains)
    return [name for name in table.columns if table.domain.format(name) in run.protocol.domains]


def _count(table: PublishedTable) -> int:
    """How many domains or categories a printed average is over."""
    return len(published.table(table.name).columns) - (table.cells == "sources")


def _corruptions(group: str) -> list[str]:
    return [name for name in GROUPS[group] if name in STANDARD_15]


def _score(table: PublishedTable, names: Names, run: Run, choice: str) -> float:
    """Our mean over some columns; a category is the mean over its corruptions."""
    if table.cells == "categories":
        errors: Mapping[str, float] = corruption_metrics.corruption_errors(run, choice=choice)
        groups = [_corruptions(name) for name in names]
        return math.fsum(
            1 - math.fsum(errors[name] for name in group) / len(group) for group in groups
        ) / len(groups)
    domains = [table.domain.format(name) for name in names]
    return math.fsum(run.score(domain, choice) for domain in domains) / len(domains)


def _shown(names: Names) -> str:
    return names[0] if len(names) == 1 else f"average over {len(names)}"
