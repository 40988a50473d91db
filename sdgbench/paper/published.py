"""Published numbers, as they were printed, with their source and protocol.

Each file of ``leaderboards/published`` begins with ``# key: value`` lines: kind ("paper": the
protocol of this benchmark; "later": other protocols; "context": other questions), dataset, metric,
reference, protocol, and the dataset's options that the protocol leaves open. Averages are computed
from the cells; a row whose printed average does not follow from them is annotated.
"""

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from sdgbench.errors import UserError
from sdgbench.leaderboard.corruption_metrics import mean_corruption_error
from sdgbench.registry import BASELINE

TOLERANCE = 0.05  # points between a printed average and that of its cells
ABOUT = ("method", "venue", "source", "tag", "note", "target_samples_per_class", "dataset", "ours")
TAGS = {
    "P": "read in the paper's own text",
    "S": "read in a later paper's table",
    "N": "read in a third-party note or README",
    "D": "computed here from numbers that were read",
}


@dataclass(frozen=True)
class PublishedRow:
    """A method's numbers as printed, in per cent."""

    method: str
    cells: Mapping[str, float]
    printed: Mapping[str, float] = field(default_factory=dict)  # average, mce, rmce, std_...
    source: str = ""  # the source domain, or for later methods the short name of the reference
    tag: str = ""
    venue: str = ""
    note: str = ""
    shots: str = ""  # labelled images per class of the target, or "all"; empty: not adapted
    complete: bool = True  # no cell is missing
    means_only: bool = False  # the table prints averages, for all rows
    ours: str = ""  # in a table of later methods: the name of this method here; empty: not here

    def mean(self, names: Iterable[str] | None = None) -> float | None:
        """The mean over the named cells, or all; None: one of them is not known."""
        wanted = list(self.cells if names is None else names)
        known = [self.cells[name] for name in wanted if name in self.cells]
        return math.fsum(known) / len(known) if known and len(known) == len(wanted) else None

    @property
    def remarks(self) -> list[str]:
        """What a reader must know of the row."""
        remarks = [self.note] if self.note else []
        printed, mean = self.printed.get("average"), self.mean()
        if printed is not None and mean is None and not self.means_only:
            remarks.append("average as printed; its cells are not known")
        elif printed is not None and mean is not None and abs(mean - printed) > TOLERANCE:
            remarks.append(f"does not add up: printed average {printed:.2f}, its cells {mean:.2f}")
        return remarks


@dataclass(frozen=True)
class PublishedTable:
    """One file of published numbers."""

    name: str
    kind: str
    dataset: str
    metric: str
    protocol: str
    references: Mapping[str, str]  # short name: full text
    columns: tuple[str, ...]  # names of the cells
    rows: tuple[PublishedRow, ...]
    source_domain: str = ""
    domain: str = "{}"  # how a cell's name becomes a domain's
    cells: str = "domains"  # or "averages", "categories", "sources"
    digits: int = 2
    leaves_open: tuple[str, ...] = ()  # options of the dataset that may have any value

    def row(self, method: str) -> PublishedRow | None:
        """Find a method's row."""
        return next((row for row in self.rows if row.method == method), None)

    def of_source(self, source: str) -> "PublishedTable | None":
        """The part for a source domain; None: nothing is published for it."""
        if self.cells == "sources":  # a cell is the mean over the targets of a source
            of_source = tuple(
                replace(row, cells={}, printed={"average": row.cells[source]}, means_only=True)
                for row in self.rows
                if source in row.cells
            )
            return replace(self, columns=(), rows=of_source) if of_source else None
        if self.kind == "paper" and not self.source_domain:
            rows = tuple(row for row in self.rows if row.source == source)
            return PublishedTable(**{**vars(self), "rows": rows}) if rows else None
        return self if self.source_domain == source else None

    def mce(self, method: str, baseline: str = BASELINE) -> float | None:
        """The mean corruption error from the cells; None: a row is missing."""
        ours, theirs = self.row(method), self.row(baseline)
        if ours is None or theirs is None:
            return None
        return mean_corruption_error(
            *(
                {name: 1 - value / 100 for name, value in row.cells.items()}
                for row in (ours, theirs)
            )
        )


FOLDER = Path(__file__).parent / "tables"  # in a checkout a link to leaderboards/published


@cache
def tables(folder: Path | None = None) -> tuple[PublishedTable, ...]:
    """All published tables, by name."""
    return tuple(read(path) for path in sorted((folder or FOLDER).glob("*.csv")))


def tables_for(dataset: str, source: str) -> list[PublishedTable]:
    """The tables that concern a dataset and a source domain."""
    of_source = (table.of_source(source) for table in tables() if table.dataset == dataset)
    return [table for table in of_source if table and table.kind != "context"]


def table(name: str) -> PublishedTable:
    """One table by its name."""
    return next(known for known in tables() if known.name == name)


def read(path: Path) -> PublishedTable:
    """Read one file; one that cannot be read is named."""
    try:
        return _read(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"The published table {path} cannot be read: {error}.") from error


def _read(path: Path) -> PublishedTable:
    about, references, lines = {}, {}, []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            lines.append(line)
            continue
        key, _, value = line.removeprefix("#").partition(":")
        if key.strip() == "reference":
            short, _, full = value.partition(":")
            references[short.strip()] = full.strip()
        else:
            about[key.strip()] = value.strip()
    for key in ("kind", "metric", "protocol"):
        if key not in about:
            raise ValueError(f"it has no {key}")
    if not references:
        raise ValueError("it has no reference")
    reader = csv.DictReader(lines)
    names = tuple(reader.fieldnames or ())
    start = names.index("average") if "average" in names else len(names)
    # Columns after the average were printed in addition to its cells and are no part of it.
    columns = tuple(n for n in names[:start] if n not in ABOUT and not n.startswith("std_"))
    others = [n for n in names if n not in ABOUT and n not in columns]
    rows = tuple(_row(values, columns, others, about, references) for values in reader)
    texts = [values[name] or "" for values in csv.DictReader(lines) for name in columns]
    digits = max((len(text.rpartition(".")[2]) for text in texts if "." in text), default=0)
    return PublishedTable(
        name=path.stem,
        kind=about["kind"],
        dataset=about.get("dataset", ""),
        metric=about["metric"],
        protocol=about["protocol"],
        references=references,
        columns=columns,
        rows=rows,
        source_domain=about.get("source domain", ""),
        domain=about.get("domain", "{}"),
        cells=about.get("cells", "domains"),
        digits=digits,
        leaves_open=tuple(filter(None, map(str.strip, about.get("leaves open", "").split(",")))),
    )


def _row(
    values: Mapping[str, str],
    columns: Iterable[str],
    others: Iterable[str],
    about: Mapping[str, str],
    references: Mapping[str, str],
) -> PublishedRow:
    if None in values or None in values.values():
        raise ValueError(f"a row has too few or too many fields: {values.get('method')}")
    tag = values.get("tag") or about.get("tag", "")
    if tag not in TAGS:
        raise ValueError(f"{values.get('method')} has no provenance tag")
    source = values.get("source", "")
    if about["kind"] == "later" and source not in references:
        raise ValueError(f"{values.get('method')} has no known reference")
    cells = {name: float(values[name]) for name in columns if values[name]}
    return PublishedRow(
        method=values.get("method") or values.get("dataset", ""),
        cells=cells,
        printed={name: float(values[name]) for name in others if values[name]},
        source=source,
        tag=tag,
        venue=values.get("venue", ""),
        note=values.get("note", ""),
        shots=values.get("target_samples_per_class", ""),
        complete=len(cells) == len(list(columns)),
        ours=values.get("ours", ""),
    )
