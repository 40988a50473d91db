"""Published numbers next to ours, over the same domains only."""

import math
from collections.abc import Iterator, Sequence

from sdgbench.leaderboard import corruption_metrics
from sdgbench.leaderboard.grouping import Leaderboard, Row, shorten
from sdgbench.leaderboard.notes import data_notes
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import Cell, Column, Line, Table
from sdgbench.paper import later, side_tables
from sdgbench.paper.published import TAGS, PublishedRow, PublishedTable, tables_for
from sdgbench.paper.verdicts import (
    RULE,
    Pair,
    as_line,
    comparison_table,
    obstacle,
    published_facts,
    sources_of,
)
from sdgbench.registry import BASELINE

ROUNDING = 0.0051  # between a mean of cells and the same as printed


def paper_tables(
    board: Leaderboard, choice: str = "last", methods: Sequence[str] = ()
) -> list[Table]:
    """Ours against the paper's and later papers', then their own tables; empty: none known."""
    known = tables_for(board.dataset, board.protocol.source.name)
    known.sort(key=lambda table: table.kind == "later")
    of_paper = [table for table in known if table.kind == "paper"]
    of_later = [table for table in known if table.kind == "later"]
    rows = board.rows_of(methods)
    lines = [line for table in of_paper for row in rows for line in _compare(table, row, choice)]
    lines += [line for t in of_paper for row in rows for line in _ratios(t, board, row, choice)]
    lines.sort(key=lambda line: [row.name for row in rows].index(line.method))
    compared = [_comparison(board, choice, of_paper, rows, lines)] if lines else []
    others = side_tables.tables(board, choice, rows, methods)
    others += later.comparison(board, choice, of_later, rows)
    return [*compared, *others, *(_published(table) for table in known)]


def _compare(table: PublishedTable, row: Row, choice: str) -> Iterator[Line]:
    published = table.row(row.method)
    runs = [run for run in row.runs.values() if choice in run.scores]
    if published is None or not runs:
        return
    pairs = list(_pairs(table, published, runs, choice))
    if table.cells == "domains" and len(pairs) > 1:
        count, every = len(pairs), len(table.columns)
        short = "" if count == every else f" of {every}"
        means = [math.fsum(values) / count for values in zip(*(p.ours for p in pairs), strict=True)]
        theirs = math.fsum(pair.theirs for pair in pairs) / count
        pairs.append(Pair(f"average over {count}{short}", means, theirs))
    for pair in pairs:
        yield as_line(row, pair, obstacle(row, table))


def _pairs(
    table: PublishedTable, published: PublishedRow, runs: Sequence[Run], choice: str
) -> Iterator[Pair]:
    protocol = runs[0].protocol
    averages = list(protocol.averages)
    for name in table.columns:
        if name not in published.cells:
            continue
        domain = table.domain.format(name)
        if table.cells == "domains" and domain in protocol.domains:
            values = [run.score(domain, choice) for run in runs]
        elif table.cells == "averages" and protocol.averages.get(name) == _promised(name):
            index = averages.index(name)
            values = [run.scores[choice].averages[index] for run in runs]
        else:
            continue
        shown = domain if table.cells == "domains" else name
        yield Pair(shown, [100 * value for value in values], published.cells[name])


def _promised(name: str) -> int:
    """How many corruptions an average is over, by its name."""
    digits = name.removeprefix("acc").partition("_")[0]
    return int(digits) if digits.isdigit() else -1


def _ratios(table: PublishedTable, board: Leaderboard, row: Row, choice: str) -> Iterator[Line]:
    """MCE and RmCE, where both sides cover the same corruptions and have their own ERM."""
    published, reference = table.row(row.method), board.row(BASELINE)
    if published is None or reference is None or "mce" not in published.printed:
        return
    if set(corruption_metrics.indices(board.protocol, corruption_metrics.HIGHEST)) != set(
        table.columns
    ):
        return
    runs = [run for run in row.runs.values() if choice in run.scores]
    partners = [reference.runs.get(run.seed) for run in runs]
    if not runs or any(p is None or choice not in p.scores for p in partners):
        return
    ratios = [
        corruption_metrics.relative_errors(run, partner, choice)
        for run, partner in zip(runs, partners, strict=True)
    ]
    plain, relative = corruption_metrics.relative_names(board.protocol, BASELINE)
    theirs = {plain: table.mce(row.method), relative: published.printed.get("rmce")}
    for name, value in theirs.items():
        ours = [of_run[name] for of_run in ratios]
        if value is not None and not any(map(math.isnan, ours)):
            yield as_line(row, Pair(name, ours, value, 3), obstacle(row, table) or "-")


def _comparison(
    board: Leaderboard,
    choice: str,
    known: Sequence[PublishedTable],
    rows: Sequence[Row],
    lines: Sequence[Line],
) -> Table:
    compared = {line.method for line in lines}
    without = [row.name for row in rows if row.name not in compared]
    notes = [*data_notes(board, rows), RULE, *sources_of(known)]
    if any("mCE" in line.cells["domain"].text for line in lines):
        notes.append(
            "mCE and RmCE are ratios, each to its own ERM: no verdict; the paper's mCE is "
            "computed from its cells, its RmCE is as printed"
        )
    if without:
        notes.append(f"nothing is published there for: {shorten(without)}")
    return comparison_table(board, choice, lines, notes)


def _published(table: PublishedTable) -> Table:
    """A published table as a block of its own: never ranked."""
    is_later = table.kind == "later"
    with_mean = table.cells != "averages" or any("average" in row.printed for row in table.rows)
    extra = [n for n in dict.fromkeys(n for r in table.rows for n in r.printed) if n != "average"]
    columns = [Column(name) for name in table.columns]
    if with_mean:
        columns.append(Column("average", "of the cells; as printed where there are none"))
    columns += [Column(name, "as printed") for name in extra]
    erm = next((row for row in table.rows if row.method.lower() == BASELINE), None)
    if erm and with_mean and not is_later:  # one table of many sources has no ERM of its own
        columns.append(Column("gain", "average above the ERM of this table"))
    columns.append(Column("from", "tag and source", is_text=True))
    lines = [_published_line(row, table, columns, erm) for row in table.rows]
    tags = dict.fromkeys(row.tag for row in table.rows)
    notes = [
        f"metric: {table.metric}",
        *sources_of([table]),
        *(f"{row.method}: {remark}" for row in table.rows for remark in row.remarks),
    ]
    what = "later methods, other protocols" if is_later else "the paper's own table"
    return Table(
        "later" if is_later else "published",
        f"{table.name}, published: {what}, not ranked",
        tuple(columns),
        tuple(lines),
        "",
        tuple(notes),
        tuple(f"{tag}: {TAGS[tag]}" for tag in tags),
        published_facts(table),
    )


def _published_line(
    row: PublishedRow, table: PublishedTable, columns: Sequence[Column], erm: PublishedRow | None
) -> Line:
    digits = table.digits
    cells: dict[str, Cell] = {}
    average = row.mean(table.columns)
    text = ""
    if average is None and row.cells:
        average, text = row.mean(), f"({len(row.cells)} of {len(table.columns)})"
    elif average is None:
        average, text = row.printed.get("average"), "printed"
    elif abs(average - row.printed.get("average", math.inf)) < ROUNDING:
        average = row.printed["average"]  # 49.285 may be printed as 49.28 or 49.29
    base = erm.mean(table.columns) if erm else None
    for column in columns:
        if column.name in table.columns:
            cells[column.name] = Cell(row.cells.get(column.name), digits=digits)
        elif column.name == "average":
            cells["average"] = Cell(average, digits=digits, text=text)
        elif column.name == "gain":
            known = average is not None and base is not None
            gain = Cell(average - base, digits=digits, signed=True) if known else Cell(None)  # type: ignore[operator]
            cells["gain"] = gain if row is not erm else Cell(None, text="ERM")
        elif column.name == "from":
            reference = row.source if table.kind == "later" else next(iter(table.references))
            cells["from"] = Cell(None, text=f"{row.tag} {reference}")
        else:
            cells[column.name] = Cell(row.printed.get(column.name), digits=2)
    name = f"{row.method} ({row.venue})" if row.venue else row.method
    return Line(name, None, cells)
