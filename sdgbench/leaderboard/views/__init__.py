"""All views of a leaderboard, and the table of one. To add a view: an object in VIEWS."""

import re
from collections.abc import Iterator, Mapping, Sequence

from sdgbench import registry
from sdgbench.errors import UserError, unknown
from sdgbench.leaderboard import cells, corruption_metrics
from sdgbench.leaderboard.cells import Measure
from sdgbench.leaderboard.grouping import Leaderboard, Row, shorten
from sdgbench.leaderboard.notes import data_notes
from sdgbench.leaderboard.order import CHOOSING, default_order, with_variants
from sdgbench.leaderboard.table import Column, Line, Table
from sdgbench.leaderboard.views.corruptions import CORRUPTIONS, SEVERITY
from sdgbench.leaderboard.views.resources import COST, EFFICIENCY
from sdgbench.leaderboard.views.scores import CLASSES, DOMAINS
from sdgbench.leaderboard.views.transport import TRANSPORT
from sdgbench.leaderboard.views.view import Query, View, ranked

Views = Mapping[str, View]
VIEWS: Views = {
    view.name: view
    for view in (DOMAINS, SEVERITY, CORRUPTIONS, CLASSES, EFFICIENCY, COST, TRANSPORT)
}
LEVEL_AVERAGE = re.compile(r"acc(\d+)_L\d$")
CHOSEN = {"last": "", "val": " (weights chosen on held-out source: not the ranked ones)"}
ELSEWHERE = "models that were trained elsewhere: scored here, not paired and not ranked"
WEIGHTS = {"last": "weights of the last iterate", "val": "weights chosen on held-out source"}


def available(board: Leaderboard, views: Views = VIEWS) -> list[str]:
    """The names of the views that make sense for a leaderboard."""
    return [name for name, view in views.items() if view.is_available(board)]


def make_table(
    board: Leaderboard,
    view: str = DOMAINS.name,
    choice: str = "last",
    baseline: str = registry.BASELINE,
    sort: str = "",
    methods: Sequence[str] = (),
    views: Views = VIEWS,
) -> Table:
    """One view of a leaderboard; ``methods`` limits the rows, empty: all."""
    if view not in views:
        raise unknown("view", view, views)
    if view not in available(board, views):
        names = ", ".join(available(board, views))
        raise UserError(f"{board.dataset} has no view {view}. It has: {names}.")
    rows = board.rows_of(methods)
    if not rows:
        raise UserError(f"No run on {board.dataset} is by {', '.join(methods)}.")
    shown, query = views[view], Query(board, tuple(rows), choice, baseline)
    by = ranked(board, choice)
    elsewhere = board.protocol.elsewhere
    reference = query.reference if shown.compares and not elsewhere else None
    measures = list(shown.measures(query))
    assembled = cells.assemble(rows, measures, by, reference, baseline, ranks=not elsewhere)
    if shown.compares:
        cells.add_badges(assembled, rows)
    sort = sort or ("method" if elsewhere else "")
    lines = sort_lines(assembled.lines, assembled.columns, sort, rows, by)
    notes = [*data_notes(board, rows), *assembled.notes, *_notes(query, shown, methods)]
    score = "IoU" if board.protocol.task == "segmentation" else "accuracy"
    return Table(
        kind=view,
        title=board.title + shown.title.format(score=score) + CHOSEN[choice],
        columns=tuple(assembled.columns),
        lines=tuple(lines),
        reduced=board.reduced,
        notes=tuple(notes),
        legend=(
            ELSEWHERE if elsewhere else WEIGHTS[choice],
            *shown.legend(query),
            *_definitions(assembled.columns),
            *assembled.legend,
        ),
        facts=board.facts(view, choice),
    )


def sort_lines(
    lines: Sequence[Line],
    columns: Sequence[Column],
    sort: str,
    rows: Sequence[Row],
    by: Measure,
) -> list[Line]:
    """Best first by a column, or by name; without one, in the default order."""
    if sort == "method":
        return sorted(lines, key=lambda line: line.method)
    column = next((column for column in columns if column.name == sort), None)
    if sort and column is None:
        raise unknown("column", sort, ["method", *(column.name for column in columns)])
    if column is None:
        means = {name: cells.mean(values) for name, values in by.samples(rows).items()}
        unranked = {line.method: line.missing_seeds for line in lines}
        order = default_order(rows, means, unranked)
        return sorted(lines, key=lambda line: order.index(line.method))
    sign = -1 if column.better == "higher" or column.name.startswith("gain") else 1
    return sorted(lines, key=lambda line: _key(line, line.cells[column.name].mean, sign))


def _key(line: Line, mean: float | None, sign: int) -> tuple[bool, bool, float]:
    """Rows that lack seeds come last: their means are over other seeds."""
    return (bool(line.missing_seeds), mean is None, sign * mean if mean is not None else 0.0)


def _definitions(columns: Sequence[Column]) -> Iterator[str]:
    by_level = [column for column in columns if LEVEL_AVERAGE.match(column.name)]
    if by_level:
        yield "accN_Lk: mean over N corruptions at level k"
    for column in columns:
        if column.definition and column not in by_level:
            yield f"{column.name}: {column.definition}"


def _notes(query: Query, view: View, asked: Sequence[str]) -> Iterator[str]:
    for name, covered in query.board.protocol.averages.items():
        promised = LEVEL_AVERAGE.match(name)
        if promised and int(promised[1]) != covered:
            yield f"{name} covers {covered} of {promised[1]} corruptions"
    without = [
        row.name
        for row in query.rows
        if any(query.choice not in run.scores for run in row.runs.values())
    ]
    if without:
        yield f"no weights were chosen on held-out source for: {shorten(without)}"
    if variants := with_variants(query.rows):
        yield f"{shorten(variants)}: {CHOOSING}"
    yield from view.notes(query)
    if (
        view.compares
        and not query.board.protocol.elsewhere
        and (missing := missing_baseline(query))
    ):
        yield missing
    yield from _skipped(query.board, asked)


def missing_baseline(query: Query) -> str | None:
    """What to run before gains, mCE and RmCE can be shown, if anything."""
    board, baseline = query.board, query.baseline
    wanted = {seed for row in query.rows for seed in row.runs}
    if reference := query.reference:
        wanted -= set(reference.runs)
    elif several := [r.name for r in board.rows if r.method == baseline and not r.tuned]:
        return f"{baseline} has several variants here; --baseline takes one of: " + "; ".join(
            several
        )
    if not wanted:
        return None
    seeds = ",".join(str(seed) for seed in sorted(wanted))
    noun = "seeds" if len(wanted) > 1 else "seed"
    corrupted = corruption_metrics.is_corrupted(board.protocol)
    return (
        f"{'gain, mCE and RmCE need' if corrupted else 'the gain needs'} {baseline} for the {noun} "
        f"{seeds}: sdgbench run --method {baseline} "
        f"--dataset {board.dataset} --preset {board.preset} --seeds {seeds}"
    )


def _skipped(board: Leaderboard, asked: Sequence[str]) -> Iterator[str]:
    """Methods that were asked for, but make no sense for the task, with their reason."""
    try:
        entries = registry.entries("method")
    except UserError:  # a broken plugin is no reason to show no table
        return
    shown = {row.method for row in board.rows}
    for name, entry in entries.items():
        skips = entry.details.get("skips") or {}
        if name in asked and name not in shown and board.protocol.task in skips:
            yield f"{name} makes no sense for {board.protocol.task}: {skips[board.protocol.task]}"
