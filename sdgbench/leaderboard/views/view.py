"""What a view is, and the measures that several views share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sdgbench.leaderboard.cells import Measure
from sdgbench.leaderboard.grouping import Leaderboard, Row
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import FIELDS, Column

RESERVED = {"source", "worst", *FIELDS}


@dataclass(frozen=True)
class Query:
    """What a table is made for: some rows of a leaderboard, a choice of weights, a baseline."""

    board: Leaderboard
    rows: tuple[Row, ...]  # those that are shown
    choice: str  # of weights: "last" or "val"
    baseline: str

    @property
    def reference(self) -> Row | None:
        """The baseline's row, shown or not; None: there is none, or more than one."""
        return self.board.row(self.baseline)


def _nothing(_: Query) -> Iterable[str]:
    return ()


def _always(_: Leaderboard) -> bool:
    return True


@dataclass(frozen=True)
class View:
    """One kind of table of a leaderboard: its columns, its words, and where it makes sense."""

    name: str  # in commands and files
    tab: str  # its label on the page
    measures: Callable[[Query], Iterable[Measure]]  # the columns
    title: str = ""  # follows the leaderboard's; {score} is what a class is scored by
    notes: Callable[[Query], Iterable[str]] = _nothing  # what a reader must know
    legend: Callable[[Query], Iterable[str]] = _nothing  # how to read it, beyond the columns
    compares: bool = True  # its numbers are scores: with gains over the baseline, and badges
    is_available: Callable[[Leaderboard], bool] = _always


def with_choice(choice: str, read: Callable[[Run], float | None]) -> Callable[[Run], float | None]:
    """The same reader, with None for runs that have no such choice of weights."""
    return lambda run: read(run) if choice in run.scores else None


def average(
    board: Leaderboard, name: str, choice: str, definition: str = "", group: str = ""
) -> Measure:
    """One of the protocol's averages over domains."""
    index = list(board.protocol.averages).index(name)
    covered = board.protocol.averages[name]
    text = definition or f"mean over {covered} domain{'s' * (covered != 1)}"
    return Measure(
        Column(name, text, "higher", group),
        with_choice(choice, lambda run: run.scores[choice].averages[index]),
    )


def ranked(board: Leaderboard, choice: str) -> Measure:
    """The average that methods are ranked by."""
    return average(board, board.ranked, choice)


def domain(board: Leaderboard, index: int, choice: str, name: str = "", group: str = "") -> Measure:
    """The score on one domain; ``name`` is the column's, if not the domain's."""
    return Measure(
        Column(unreserved(board, name or board.domains[index], "domain"), "", "higher", group),
        with_choice(choice, lambda run: run.scores[choice].values[index]),
    )


def unreserved(board: Leaderboard, name: str, kind: str) -> str:
    """A column's name that no other column and no field of a CSV file has."""
    return f"{name} ({kind})" if name in RESERVED or name in board.protocol.averages else name
