"""A number of ours against a published one: whether they compare, and the verdict."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from sdgbench.leaderboard import statistics
from sdgbench.leaderboard.grouping import Leaderboard, Row, shorten
from sdgbench.leaderboard.table import Cell, Column, Line, Table, facts
from sdgbench.leaderboard.views import CHOSEN, WEIGHTS
from sdgbench.paper.published import PublishedTable
from sdgbench.spec.parameters import show

MARGIN = 1.0  # points around our mean that still count as reproduced
RULE = (
    "reproduced: the published value lies within our 95% interval or within "
    f"{MARGIN:.1f} point of our mean; better: our mean is above that; not reproduced: below"
)
REDUCED = "reduced scale: not comparable"
CHANGED = "changed recipe: not comparable"
UNRECORDED = "parameters not recorded: no verdict"  # by a record of an earlier version
NO_RUNS = "no runs yet"
ONE_SEED = "one seed: no verdict"
MOST_CHANGES = 2  # that a verdict names


@dataclass(frozen=True)
class Pair:
    """A number of ours, seed by seed, and the published one."""

    name: str
    ours: Sequence[float]
    theirs: float
    digits: int = 1


def verdict(mean: float, half: float | None, published: float) -> str:
    """Whether our mean reproduces a published value, both in per cent; one seed cannot tell."""
    if half is None:
        return ONE_SEED
    if abs(mean - published) <= max(MARGIN, half) + 1e-9:
        return "reproduced"
    return "better" if mean > published else "not reproduced"


def obstacle(row: Row, table: PublishedTable, studied: Collection[str] = ()) -> str:
    """Why a row cannot be compared with a table; empty: it can.

    ``studied`` are parameters whose values are what the table is about.
    """
    runs = list(row.runs.values())
    protocol = runs[0].protocol
    incomplete = any(run.flags.incomplete_source for run in runs)
    if protocol.preset != "paper" or protocol.reduced or row.reductions or incomplete:
        return REDUCED
    if protocol.recipe_changes:
        return CHANGED
    free = {"source", *table.leaves_open}  # a source has published rows of its own, or none
    options = {key: protocol.options.get(key) for key in protocol.option_changes if key not in free}
    if options:
        return f"changed options: {_values(options)}"
    if row.changed is None:
        return UNRECORDED
    changed = {key: value for key, value in row.changed.items() if key not in studied}
    return f"changed parameters: {_values(changed)}" if changed else ""


def _values(changed: dict[str, object]) -> str:
    return shorten([f"{key}={show(value)}" for key, value in changed.items()], MOST_CHANGES)


def as_line(row: Row, pair: Pair, remark: str) -> Line:
    """A line of ``comparison_table``: with a remark, or else with the verdict."""
    mean, half = statistics.mean_interval(pair.ours)
    digits = pair.digits
    return Line(
        row.name,
        len(pair.ours),
        {
            "domain": Cell(None, text=pair.name),
            "ours": Cell(mean, half, digits),
            "paper": Cell(pair.theirs, digits=max(2, digits)),
            "gap": Cell(mean - pair.theirs, digits=digits, signed=True),
            "verdict": Cell(None, text=remark or verdict(mean, half, pair.theirs)),
        },
        tuple(row.runs),
    )


def without_runs(method: str, name: str, theirs: float) -> Line:
    """A published number that we have no runs for."""
    return Line(
        method,
        None,
        {
            "domain": Cell(None, text=name),
            "ours": Cell(None, text=NO_RUNS),
            "paper": Cell(theirs, digits=2),
            "gap": Cell(None),
            "verdict": Cell(None),
        },
    )


def comparison_table(
    board: Leaderboard, choice: str, lines: Sequence[Line], notes: Sequence[str], about: str = ""
) -> Table:
    """Ours next to the paper's, with a verdict; ``about`` names another of the paper's tables."""
    first = "what" if about else "domain"
    lines = [replace(line, cells={first: line.cells["domain"], **line.cells}) for line in lines]
    columns = (
        Column(first, is_text=True, is_key=True),
        Column("ours", "ours, with its 95% interval"),
        Column("paper", "as printed; averages computed from its cells over our domains"),
        Column("gap", "ours - paper"),
        Column("verdict", RULE, is_text=True),
    )
    return Table(
        "paper",
        f"{board.title}{about}, compared with the paper{CHOSEN[choice]}",
        columns,
        tuple(lines),
        board.reduced,
        tuple(notes),
        (WEIGHTS[choice], f"gap: ours - paper{'' if about else ', in points'}"),
        board.facts("paper", choice),
    )


def published_facts(table: PublishedTable, **more: str) -> dict[str, object]:
    """What every row of a published table has in common in CSV and JSON."""
    return facts(
        dataset=table.dataset, remark=table.protocol, metric=table.metric, view="published", **more
    )


def sources_of(known: Sequence[PublishedTable]) -> Iterator[str]:
    """Where published numbers come from, and how they were made."""
    notes: dict[str, None] = {}
    for table in known:
        for short, full in table.references.items():
            notes[f"[{short}] {full}"] = None
        notes[f"protocol of {table.name}: {table.protocol}"] = None
    yield from notes
