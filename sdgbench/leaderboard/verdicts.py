"""A number of ours beside a published one: what may be said of the pair."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from sdgbench import stats
from sdgbench.leaderboard.grouping import Board, Row, shorten
from sdgbench.leaderboard.table import Cell, Column, Line, Table
from sdgbench.leaderboard.views import CHOSEN, WEIGHTS
from sdgbench.published import PublishedTable
from sdgbench.settings import show

MARGIN = 1.0  # points around our mean that still count as reproduced
RULE = (
    "reproduced: the published value lies within our 95% interval or within "
    f"{MARGIN:.1f} point of our mean; better: our mean is above that; not reproduced: below"
)
REDUCED = "reduced scale: not comparable"
CHANGED = "changed recipe: not comparable"
UNTOLD = "parameters not told: no verdict"  # by a record of an earlier version
NO_RUNS = "no runs yet"
MOST_CHANGES = 2  # that a verdict names


@dataclass(frozen=True)
class Pair:
    """A number of ours, seed by seed, and the published one."""

    name: str
    ours: Sequence[float]
    theirs: float
    digits: int = 1


def verdict(mean: float, half: float | None, published: float) -> str:
    """What our mean says about a published value, both in per cent."""
    if abs(mean - published) <= max(MARGIN, half or 0.0) + 1e-9:
        found = "reproduced"
    else:
        found = "better" if mean > published else "not reproduced"
    return found if half is not None else f"{found} (n=1: no interval)"


def obstacle(row: Row, table: PublishedTable, asked: Collection[str] = ()) -> str:
    """Why a row cannot be held against a table; empty: it can.

    ``asked`` are parameters whose values are what the table is about.
    """
    runs = list(row.runs.values())
    ground = runs[0].ground
    incomplete = any(run.flags.get("incomplete_source") for run in runs)
    if ground.preset != "paper" or ground.reduced or row.reductions or incomplete:
        return REDUCED
    if ground.recipe_changes:
        return CHANGED
    free = {"source", *table.leaves_open}  # a source has published rows of its own, or none
    options = {key: ground.options.get(key) for key in ground.option_changes if key not in free}
    if options:
        return f"changed options: {_values(options)}"
    if row.changed is None:
        return UNTOLD
    changed = {key: value for key, value in row.changed.items() if key not in asked}
    return f"changed parameters: {_values(changed)}" if changed else ""


def _values(changed: dict[str, object]) -> str:
    return shorten([f"{key}={show(value)}" for key, value in changed.items()], MOST_CHANGES)


def as_line(row: Row, pair: Pair, said: str) -> Line:
    """A line of ``beside``; where nothing else is said, it carries the verdict."""
    mean, half = stats.mean_interval(pair.ours)
    digits = pair.digits
    return Line(row.name, len(pair.ours), {
        "domain": Cell(None, text=pair.name),
        "ours": Cell(mean, half, digits),
        "paper": Cell(pair.theirs, digits=max(2, digits)),
        "gap": Cell(mean - pair.theirs, digits=digits, signed=True),
        "verdict": Cell(None, text=said or verdict(mean, half, pair.theirs)),
    }, tuple(row.runs))  # fmt: skip


def without_runs(method: str, name: str, theirs: float) -> Line:
    """A published number that we have nothing to hold against."""
    return Line(method, None, {
        "domain": Cell(None, text=name), "ours": Cell(None, text=NO_RUNS),
        "paper": Cell(theirs, digits=2), "gap": Cell(None), "verdict": Cell(None),
    })  # fmt: skip


def beside(
    board: Board, choice: str, lines: Sequence[Line], notes: Sequence[str], about: str = ""
) -> Table:
    """Ours beside the paper's, with a verdict; ``about``: another of the paper's questions."""
    first = "what" if about else "domain"
    lines = [replace(line, cells={first: line.cells["domain"], **line.cells}) for line in lines]
    columns = (
        Column(first, is_text=True, is_key=True),
        Column("ours", "ours, with its 95% interval"),
        Column("paper", "as printed; averages computed from its cells over our domains"),
        Column("gap", "ours - paper"), Column("verdict", RULE, is_text=True),
    )  # fmt: skip
    return Table(
        "paper", f"{board.title}{about}, beside the paper{CHOSEN[choice]}", columns, tuple(lines),
        board.reduced, tuple(notes),
        f"{WEIGHTS[choice]}; gap: ours - paper{'' if about else ', in points'}",
        {"dataset": board.dataset, "preset": board.preset, "remark": board.remark,
         "metric": board.metric, "reduced_scale": board.reduced, "choice": choice, "view": "paper"},
    )  # fmt: skip


def sources_of(known: Sequence[PublishedTable]) -> Iterator[str]:
    """Where published numbers come from, and how they were made."""
    said: dict[str, None] = {}
    for table in known:
        for short, full in table.references.items():
            said[f"[{short}] {full}"] = None
        said[f"protocol of {table.name}: {table.protocol}"] = None
    yield from said
