"""A method against itself without a part or with another parameter, next to the paper's rows."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sdgbench.errors import UserError, unknown
from sdgbench.leaderboard import cells
from sdgbench.leaderboard.grouping import Leaderboard, Row
from sdgbench.leaderboard.table import Cell, Column, Line, Table
from sdgbench.leaderboard.views import CHOSEN, WEIGHTS
from sdgbench.leaderboard.views.view import ranked
from sdgbench.paper import published
from sdgbench.paper.side_tables import RELAXATIONS


def ablate(boards: Sequence[Leaderboard], method: str) -> list[Leaderboard]:
    """The leaderboards that have a method, each with that and its variants only."""
    ablated = []
    for board in boards:
        rows = [r for r in board.rows if r.method == method or r.method.startswith(f"{method}-")]
        if any(row.name == method for row in rows):
            ablated.append(replace(board, rows=rows))
    if ablated:
        return ablated
    known = {row.method for board in boards for row in board.rows}
    if method not in known:
        raise unknown("finished run of the method", method, known)
    raise UserError(
        f"No finished run of {method} has all parameters at their defaults, and an ablation is "
        f"against that. Make one: sdgbench run --method {method} --dataset {boards[0].dataset} "
        f"--preset {boards[0].preset}"
    )


def next_to_paper(board: Leaderboard, method: str, choice: str) -> Table | None:
    """Averages and losses of each variant next to the paper's; None: it has none of them."""
    printed = {row.name: [source.average(row) for source in SOURCES] for row in board.rows}
    if not any(value is not None for values in printed.values() for value in values):
        return None
    measure = ranked(board, choice)
    assembled = cells.assemble(board.rows, [measure], measure, board.row(method), method)
    columns = [column for column in assembled.columns if not column.name.startswith("p_")]
    for source in SOURCES:
        columns += [
            Column(source.name, source.definition, group="paper"),
            Column(f"{source.name}_gain", f"the same above {method}", group="paper"),
        ]
    lines = [_line(line, printed[line.method], printed[method]) for line in assembled.lines]
    return Table(
        "ablation",
        f"{board.title}: {method} and its variants compared with the paper{CHOSEN[choice]}",
        tuple(columns),
        tuple(_sorted(lines, method)),
        board.reduced,
        (*assembled.notes, *_notes(board)),
        (
            WEIGHTS[choice],
            *(f"{c.name}: {c.definition}" for c in columns if c.definition),
            *assembled.legend,
        ),
        board.facts("ablation", choice),
    )


def _line(line: Line, printed: Sequence[float | None], full: Sequence[float | None]) -> Line:
    cells = dict(line.cells)
    for source, value, whole in zip(SOURCES, printed, full, strict=True):
        gain = None if value is None or whole is None else value - whole
        cells[source.name] = Cell(value, digits=2)
        cells[f"{source.name}_gain"] = Cell(gain, digits=2, signed=True)
    return replace(line, cells=cells)


def _sorted(lines: Sequence[Line], method: str) -> list[Line]:
    """The whole method first, then what lacks a part, then what has another."""
    return sorted(lines, key=lambda line: (line.method != method, "(" in line.method, line.method))


def _notes(board: Leaderboard) -> Iterator[str]:
    yield f"paper: {next(iter(published.table('relaxation').references.values()))}"
    if board.dataset not in {source.dataset for source in SOURCES}:
        yield f"the paper has no {board.dataset}: its numbers are of other data"
    if board.preset != "paper" or board.reduced:
        yield "reduced scale: not comparable with the paper's"


@dataclass(frozen=True)
class _Source:
    """Where the paper has averages of M-ADA's variants on a dataset."""

    name: str  # of the column
    dataset: str
    table: str
    definition: str

    def average(self, row: Row) -> float | None:
        """What the paper has for a row: for methods as they are, and M-ADA's relaxation terms."""
        if not row.changed:
            return self._of_method(row.method)
        terms = published.table("relaxation").row(self.dataset)
        if row.method != "mada" or set(row.changed) != {"relaxation"} or terms is None:
            return None
        columns = {term: column for column, term in RELAXATIONS.items()}
        return terms.cells.get(columns.get(row.changed["relaxation"], ""))

    def _of_method(self, method: str) -> float | None:
        table = published.table(self.table)
        row = table.row(method)
        mean = row.mean(table.columns) if row else None
        printed = row.printed.get("average") if row else None
        # Cells add up to the printed average but for rounding, which is then the paper's.
        near = (
            mean is not None and printed is not None and math.isclose(mean, printed, abs_tol=0.01)
        )
        return printed if near else mean


SOURCES = (
    _Source("digits", "digits", "digits", "the paper's average on Digits, in per cent"),
    _Source(
        "cifar10c",
        "cifar10c",
        "cifar10c_level5",
        "the paper's average over 19 corruptions of CIFAR-10-C at level 5, in per cent",
    ),
)
