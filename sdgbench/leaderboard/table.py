"""What a table is made of, whatever format it is printed in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Better = Literal["higher", "lower", ""]
TIE = "≈"
BADGE = "badge"  # the column that says how far a row is confirmed


@dataclass(frozen=True)
class Cell:
    """The mean over seeds and the half-width of its 95% interval, or a word."""

    mean: float | None
    half: float | None = None
    digits: int = 1  # per cent need one, ratios more
    text: str = ""  # a word: instead of a number where there is none, else after it
    rank: int = 0  # 1: best of its column, 2: second; 0: neither, or not ranked
    ties: bool = False  # its paired difference from the best has an interval that covers 0
    signed: bool = False  # a difference: shown with its sign
    samples: Mapping[int, float | None] = field(default_factory=dict, repr=False)  # by seed

    @property
    def number(self) -> str:
        """The number alone, without marks."""
        if self.mean is None:
            return ""
        half = f" ±{self.half:,.{self.digits}f}" if self.half is not None else ""
        # z: a small loss that is rounded to nothing is no "-0.0".
        return f"{self.mean:{'+' if self.signed else '-'}z,.{self.digits}f}{half}"

    def __str__(self) -> str:
        words = [self.number, TIE if self.ties else "", self.text]
        return " ".join(word for word in words if word) or "-"

    def marked(self, rank: int, ties: bool) -> "Cell":
        """The same cell with its rank in the column."""
        return replace(self, rank=rank, ties=ties)


@dataclass(frozen=True)
class Column:
    """One column: what its numbers are, in full."""

    name: str
    definition: str = ""
    better: Better = ""  # which end is best; empty: the column is not ranked
    group: str = ""  # columns of one group share one heading
    is_text: bool = False
    is_key: bool = False  # identifies a line together with the method: part of every block


@dataclass(frozen=True)
class Line:
    """A row as it is shown."""

    method: str
    n: int | None  # seeds; None: not known
    cells: dict[str, Cell]
    seeds: tuple[int, ...] = ()
    missing_seeds: tuple[int, ...] = ()  # that ranked rows have; with any, the row is not ranked


@dataclass(frozen=True)
class Table:
    """A finished table: a format prints it and adds nothing."""

    kind: str  # the view, or "paper", "published", "later"
    title: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    reduced: str = ""  # what is at reduced scale; empty: nothing
    notes: tuple[str, ...] = ()  # what a reader must know
    legend: tuple[str, ...] = ()  # how to read it
    facts: dict[str, object] = field(default_factory=dict)  # the same for each row in CSV and JSON
    label: str = "method"  # heading of the first column
    spread: str = "±"  # what follows a mean is called in CSV and JSON

    @property
    def is_counted(self) -> bool:
        """Whether the number of seeds is known."""
        return any(line.n is not None for line in self.lines)

    def column(self, name: str) -> Column | None:
        """Find a column by name."""
        return next((column for column in self.columns if column.name == name), None)

    def groups(self) -> list[tuple[str, Sequence[Column]]]:
        """Neighbouring columns of one group together."""
        groups: list[tuple[str, list[Column]]] = []
        for column in self.columns:
            if not groups or groups[-1][0] != column.group:
                groups.append((column.group, []))
            groups[-1][1].append(column)
        return [(name, columns) for name, columns in groups]


def facts(
    *,
    dataset: str,
    metric: str,
    view: str,
    preset: str = "",
    remark: str = "",
    reduced_scale: str = "",
    choice: str = "",
    **more: object,
) -> dict[str, object]:
    """What every row of a table has in common in CSV and JSON, in the order of the columns."""
    return {
        "dataset": dataset,
        "preset": preset,
        "remark": remark,
        "metric": metric,
        "reduced_scale": reduced_scale,
        "choice": choice,
        "view": view,
        **more,
    }


# The columns of every CSV and JSON file: no column of a table may be named like one of them.
FIELDS = (
    *facts(dataset="", metric="", view=""),
    "table",
    "method",
    "n",
    "seeds",
    "ties_with_best",
    "notes",
    BADGE,
)
