"""Published numbers beside ours, over the same domains only."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sdgbench import stats
from sdgbench.leaderboard import corruption
from sdgbench.leaderboard.grouping import BASELINE, Board, Row, shorten
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import Cell, Column, Line, Table
from sdgbench.leaderboard.views import CHOSEN, WEIGHTS
from sdgbench.published import TAGS, PublishedRow, PublishedTable, tables_for

MARGIN = 1.0  # points around our mean that still count as reproduced
ROUNDING = 0.0051  # between a mean of cells and the same as printed
RULE = (
    "reproduced: the published value lies within our 95% interval or within "
    f"{MARGIN:.1f} point of our mean; better: our mean is above that; not reproduced: below"
)
REDUCED = "reduced scale: not comparable"
CHANGED = "changed recipe: not comparable"


def paper_tables(board: Board, choice: str = "last", methods: Sequence[str] = ()) -> list[Table]:
    """Ours against the paper's, the paper's own table, and later methods; empty: none known."""
    known = tables_for(board.dataset, str(board.ground.source.get("name", "")))
    known.sort(key=lambda table: table.kind == "later")
    of_paper = [table for table in known if table.kind == "paper"]
    rows = [row for row in board.rows if not methods or {row.method, row.name} & set(methods)]
    lines = [line for table in of_paper for row in rows for line in _compare(table, row, choice)]
    lines += [line for t in of_paper for row in rows for line in _ratios(t, board, row, choice)]
    lines.sort(key=lambda line: [row.name for row in rows].index(line.method))
    found = [_comparison(board, choice, of_paper, rows, lines)] if lines else []
    return [*found, *(_published(table) for table in known)]


def verdict(mean: float, half: float | None, published: float) -> str:
    """What our mean says about a published value, both in per cent."""
    if abs(mean - published) <= max(MARGIN, half or 0.0) + 1e-9:
        found = "reproduced"
    else:
        found = "better" if mean > published else "not reproduced"
    return found if half is not None else f"{found} (n=1: no interval)"


def obstacle(row: Row) -> str:
    """Why a row cannot be held against the paper; empty: it can."""
    runs = list(row.runs.values())
    ground = runs[0].ground
    incomplete = any(run.flags.get("incomplete_source") for run in runs)
    if ground.preset != "paper" or ground.reduced or row.reductions or incomplete:
        return REDUCED
    return CHANGED if ground.recipe_changes else ""


@dataclass(frozen=True)
class _Pair:
    """A number of ours, seed by seed, and the published one."""

    name: str
    ours: list[float]
    theirs: float
    digits: int = 1


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
        pairs.append(_Pair(f"average over {count}{short}", means, theirs))
    for pair in pairs:
        yield _line(row, pair, obstacle(row))


def _pairs(
    table: PublishedTable, published: PublishedRow, runs: Sequence[Run], choice: str
) -> Iterator[_Pair]:
    ground = runs[0].ground
    averages = list(ground.averages)
    for name in table.columns:
        if name not in published.cells:
            continue
        domain = table.domain.format(name)
        if table.cells == "domains" and domain in ground.domains:
            values = [run.score(domain, choice) for run in runs]
        elif table.cells == "averages" and ground.averages.get(name) == _promised(name):
            place = averages.index(name)
            values = [run.scores[choice].averages[place] for run in runs]
        else:
            continue
        shown = domain if table.cells == "domains" else name
        yield _Pair(shown, [100 * value for value in values], published.cells[name])


def _promised(name: str) -> int:
    """How many corruptions an average is over, by its name."""
    digits = name.removeprefix("acc").partition("_")[0]
    return int(digits) if digits.isdigit() else -1


def _ratios(table: PublishedTable, board: Board, row: Row, choice: str) -> Iterator[Line]:
    """MCE and RmCE, where both sides cover the same corruptions and have their own ERM."""
    published, reference = table.row(row.method), board.row(BASELINE)
    if published is None or reference is None or "mce" not in published.printed:
        return
    if set(corruption.places(board.ground, corruption.HIGHEST)) != set(table.columns):
        return
    runs = [run for run in row.runs.values() if choice in run.scores]
    partners = [reference.runs.get(run.seed) for run in runs]
    if not runs or any(p is None or choice not in p.scores for p in partners):
        return
    found = [corruption.relative_errors(r, p, choice) for r, p in zip(runs, partners, strict=True)]
    plain, relative = corruption.relative_names(board.ground, BASELINE)
    theirs = {plain: table.mce(row.method), relative: published.printed.get("rmce")}
    for name, value in theirs.items():
        ours = [ratios[name] for ratios in found]
        if value is not None and not any(map(math.isnan, ours)):
            yield _line(row, _Pair(name, ours, value, 3), obstacle(row) or "-")


def _line(row: Row, pair: _Pair, against: str) -> Line:
    mean, half = stats.mean_interval(pair.ours)
    digits = pair.digits
    return Line(row.name, len(pair.ours), {
        "domain": Cell(None, text=pair.name),
        "ours": Cell(mean, half, digits),
        "paper": Cell(pair.theirs, digits=max(2, digits)),
        "gap": Cell(mean - pair.theirs, digits=digits, signed=True),
        "verdict": Cell(None, text=against or verdict(mean, half, pair.theirs)),
    }, tuple(row.runs))  # fmt: skip


def _comparison(
    board: Board,
    choice: str,
    known: Sequence[PublishedTable],
    rows: Sequence[Row],
    lines: Sequence[Line],
) -> Table:
    columns = (
        Column("domain", is_text=True), Column("ours", "ours, with its 95% interval"),
        Column("paper", "as printed; averages computed from its cells over our domains"),
        Column("gap", "ours - paper"), Column("verdict", RULE, is_text=True),
    )  # fmt: skip
    compared = {line.method for line in lines}
    without = [row.name for row in rows if row.name not in compared]
    notes = [*board.data_notes(rows), RULE, *sources(known)]
    if any("mCE" in line.cells["domain"].text for line in lines):
        notes.append("mCE and RmCE are ratios, each to its own ERM: no verdict; the paper's mCE is "
                     "computed from its cells, its RmCE is as printed")  # fmt: skip
    if without:
        notes.append(f"nothing is published there for: {shorten(without)}")
    return Table(
        "paper", f"{board.title}, beside the paper{CHOSEN[choice]}", columns, tuple(lines),
        board.reduced,
        tuple(notes), f"{WEIGHTS[choice]}; gap: ours - paper, in points",
        {"dataset": board.dataset, "preset": board.preset, "remark": board.remark,
         "metric": board.metric, "reduced_scale": board.reduced, "choice": choice, "view": "paper"},
    )  # fmt: skip


def sources(known: Sequence[PublishedTable]) -> Iterator[str]:
    """Where published tables come from, and how their numbers were made."""
    said: dict[str, None] = {}
    for table in known:
        for short, full in table.references.items():
            said[f"[{short}] {full}"] = None
        said[f"protocol of {table.name}: {table.protocol}"] = None
    yield from said


def _published(table: PublishedTable) -> Table:
    """A published table as a block of its own: never ranked."""
    later = table.kind == "later"
    with_mean = table.cells != "averages" or any("average" in row.printed for row in table.rows)
    extra = [n for n in dict.fromkeys(n for r in table.rows for n in r.printed) if n != "average"]
    columns = [Column(name) for name in table.columns]
    if with_mean:
        columns.append(Column("average", "of the cells; as printed where there are none"))
    columns += [Column(name, "as printed") for name in extra]
    erm = next((row for row in table.rows if row.method.lower() == BASELINE), None)
    if erm and with_mean and not later:  # one table of many sources has no ERM of its own
        columns.append(Column("gain", "average above the ERM of this table"))
    columns.append(Column("from", "tag and source", is_text=True))
    lines = [_published_line(row, table, columns, erm) for row in table.rows]
    tags = dict.fromkeys(row.tag for row in table.rows)
    notes = [
        f"metric: {table.metric}",
        *sources([table]),
        *(f"{row.method}: {remark}" for row in table.rows for remark in row.remarks),
    ]
    what = "later methods, other protocols" if later else "the paper's own table"
    return Table(
        "later" if later else "published",
        f"{table.name}, published: {what}, not ranked", tuple(columns), tuple(lines), "",
        tuple(notes), "; ".join(f"{tag}: {TAGS[tag]}" for tag in tags),
        {"dataset": table.dataset, "preset": "", "remark": table.protocol, "metric": table.metric,
         "reduced_scale": "", "choice": "", "view": "published"},
    )  # fmt: skip


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
