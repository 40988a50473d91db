"""A sweep over settings that all methods share: leaderboards that differ in them, side by side.

Another recipe or option is another protocol, so each value has a leaderboard of its own. Here the
question is the setting itself: each value of each method is a row, and nothing is ranked.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from sdgbench.leaderboard import statistics
from sdgbench.leaderboard.cells import INTERVAL, Measure
from sdgbench.leaderboard.environment import describe_mixture
from sdgbench.leaderboard.grouping import Leaderboard, Row, shorten
from sdgbench.leaderboard.order import by_size
from sdgbench.leaderboard.table import Cell, Column, Line, Table
from sdgbench.leaderboard.views import CHOSEN, WEIGHTS
from sdgbench.leaderboard.views.scores import DOMAINS
from sdgbench.leaderboard.views.view import Query
from sdgbench.registry import BASELINE
from sdgbench.spec.parameters import show

VIEW = "sweep"  # its name among the views: not one leaderboard, but several
Point = tuple[dict[str, Any], Leaderboard, Row]  # of a sweep: its settings, and where it is


def sweep_tables(
    boards: Sequence[Leaderboard], choice: str = "last", methods: Sequence[str] = ()
) -> list[Table]:
    """One table for each set of leaderboards that differ in recipe or options alone."""
    return [
        _table(sorted(swept, key=lambda p: p[2].name), alone, choice)
        for swept, alone in _sweeps(boards, methods)
    ]


def swept_settings(boards: Sequence[Leaderboard], methods: Sequence[str] = ()) -> list[str]:
    """The settings of which a sweep would show several values."""
    return list(dict.fromkeys(key for swept, _ in _sweeps(boards, methods) for key in swept[0][0]))


def _sweeps(
    boards: Sequence[Leaderboard], methods: Sequence[str]
) -> Iterator[tuple[list[Point], list[str]]]:
    """The points of each sweep, and the rows that have one value alone."""
    for group in _groups(boards):
        points = _ordered(group)
        rows = [(values, board, row) for values, board in points for row in board.rows_of(methods)]
        counts = Counter(row.name for _, _, row in rows)
        if swept := [point for point in rows if counts[point[2].name] > 1]:
            yield swept, [name for name, count in counts.items() if count == 1]


def _groups(boards: Sequence[Leaderboard]) -> list[list[Leaderboard]]:
    """Leaderboards with the same data, domains, metric, preset and precision."""
    groups: dict[bytes, list[Leaderboard]] = defaultdict(list)
    for board in boards:
        p = board.protocol
        same = [p.dataset, p.version, p.preset, p.precision, p.metric, p.source, p.elsewhere]
        key = msgspec.json.encode([*same, p.domains, p.hashes, list(p.averages)], order="sorted")
        groups[key].append(board)
    return [group for group in groups.values() if len(group) > 1]


def _ordered(group: Sequence[Leaderboard]) -> list[tuple[dict[str, Any], Leaderboard]]:
    """Each leaderboard with the settings in which they differ, by their values."""
    every = [_settings(board) for board in group]
    keys = [
        key
        for key in dict.fromkeys(key for settings in every for key in settings)
        if len({json.dumps(settings.get(key), sort_keys=True) for settings in every}) > 1
    ]
    pairs = [
        ({key: settings.get(key) for key in keys}, board)
        for settings, board in zip(every, group, strict=True)
    ]
    return sorted(pairs, key=lambda pair: [by_size(value) for value in pair[0].values()])


def _settings(board: Leaderboard) -> dict[str, Any]:
    protocol = board.protocol
    recipe = {f"recipe.{k}": v for k, v in protocol.recipe.items() if k != "reduced"}
    return {**recipe, **protocol.options}


def _table(points: Sequence[Point], alone: Sequence[str], choice: str) -> Table:
    first = points[0][1]
    measures = list(DOMAINS.measures(Query(first, tuple(first.rows), choice, BASELINE)))
    keys = [Column(key, is_text=True, is_key=True) for key in points[0][0]]
    lines = []
    for values, _, row in points:
        known = {measure.column.name: _cell(measure, row) for measure in measures}
        settings = {key: Cell(None, text=show(value)) for key, value in values.items()}
        lines.append(Line(row.name, len(row.runs), {**settings, **known}, tuple(row.runs)))
    return Table(
        kind=VIEW,
        title=f"{first.dataset}, {first.preset} preset, sweep: {first.metric} in per cent"
        + CHOSEN[choice],
        columns=(*keys, *(replace(measure.column, better="") for measure in measures)),
        lines=tuple(lines),
        reduced=first.reduced,
        notes=tuple(_notes(points, alone, first.ranked)),
        legend=(
            WEIGHTS[choice],
            *(f"{m.column.name}: {m.column.definition}" for m in measures if m.column.definition),
            INTERVAL,
        ),
        facts=first.facts(VIEW, choice),
    )


def _cell(measure: Measure, row: Row) -> Cell:
    values = measure.samples([row])[row.name]
    known = [value for value in values.values() if value is not None]
    if not known or len(known) < len(values):
        return Cell(None, samples=values)
    return Cell(*statistics.mean_interval(known), measure.digits, samples=values)


def _notes(points: Sequence[Point], alone: Sequence[str], average: str) -> Iterator[str]:
    yield "each value is a protocol of its own: these are rows of several tables, not ranked"
    yield (
        f"choosing a value by {average} or another column of unseen domains is choosing on the "
        "targets: not a result; source may be used"
    )
    if alone:
        yield f"at one value only, not shown: {shorten(alone)}"
    runs = {
        f"{row.name} at {'; '.join(map(show, values.values()))}": {
            seed: run.environment for seed, run in row.runs.items()
        }
        for values, _, row in points
    }
    if mixture := describe_mixture(runs):
        yield f"mixed environments (--strict keeps one): {mixture}"
