"""All that the page shows, as plain values for one JSON block; nothing is computed here."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sdgbench.leaderboard import (
    VIEWS,
    Cell,
    Column,
    Leaderboard,
    Row,
    Run,
    Table,
    available,
    corruption_metrics,
    make_table,
)
from sdgbench.leaderboard.order import with_variants
from sdgbench.leaderboard.runs import CHOICES
from sdgbench.leaderboard.table import BADGE
from sdgbench.leaderboard.views import Views
from sdgbench.records import badges
from sdgbench.registry import BASELINE
from sdgbench.report import curves, palette, series
from sdgbench.report.record_settings import Records
from sdgbench.report.series import CHOICE, Estimate
from sdgbench.version import version

Collect = Callable[[Leaderboard], dict[str, Any]]
Publish = Callable[[Leaderboard], Sequence[Table]]


def no_tables(_: Leaderboard) -> Sequence[Table]:
    """Nothing is published."""
    return ()


def content(
    boards: Sequence[Leaderboard],
    collect: Collect,
    skipped: int = 0,
    publish: Publish = no_tables,
    views: Views = VIEWS,
    usual: Sequence[str] = (),
) -> dict[str, Any]:
    """The whole page as plain values.

    ``collect`` gives the sample images of a leaderboard, ``publish`` the published tables next to
    it; ``usual`` methods have the colours in this order.
    """
    records = Records()
    looks = palette.looks(boards, usual)
    shown = [
        _board(board, looks, records, views, publish(board), collect(board)) for board in boards
    ]
    return {
        "version": version(),
        "baseline": BASELINE,
        "skipped": skipped,
        "boards": shown,
        "records": records.entries,
        "pool": records.pool,
    }


def rounded(value: float | None, digits: int = 5) -> float | None:
    """A number that is short in JSON; what is no number becomes null."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def _board(
    board: Leaderboard,
    looks: dict[str, palette.Look],
    records: Records,
    views: Views,
    published: Sequence[Table],
    samples: dict[str, Any],
) -> dict[str, Any]:
    rows = series.ordered(board)
    name = title(board)
    shown = [
        {
            "name": row.name,
            "look": [looks[row.name].colour, looks[row.name].marker, looks[row.name].dash],
            "seeds": list(row.runs),
            "records": [records.add(run, row.name, name) for run in row.runs.values()],
        }
        for row in rows
    ]
    names = [row.name for row in rows]
    return {
        "key": _key(board),
        "title": name,
        "dataset": board.dataset,
        "preset": board.preset,
        "remark": board.remark,
        "metric": board.metric,
        "reduced": board.reduced,
        "ranked": board.ranked,
        "source": board.protocol.source.name,
        "has_variants": bool(with_variants(board.rows)),
        "rows": shown,
        "domains": list(board.domains),
        "tables": _tables(board, views, names),
        "published": [_published(table, names) for table in published],
        "panels": [
            {
                "name": panel.name,
                "group": panel.group,
                "levels": panel.levels,
                "indices": panel.indices,
            }
            for panel in series.severity_panels(board)
        ],
        "highest": corruption_metrics.HIGHEST,
        "choices": {
            choice: _figures(board, rows, choice)
            for choice in CHOICES
            if _has_choice(board, choice)
        },
        "machines": sorted({run.machine for row in rows for run in row.runs.values()} - {""}),
        "curves": [
            curve
            for index, row in enumerate(rows)
            for number, run in enumerate(row.runs.values())
            if (curve := _curve(run, index, number))
        ],
        "mean_curves": [
            curve for index, row in enumerate(rows) if (curve := _mean_curve(row, index))
        ],
        "samples": samples,
    }


def _key(board: Leaderboard) -> str:
    """What addresses call a leaderboard: it stays the same when others are added."""
    words = f"{board.dataset}-{board.preset}-{board.protocol.id}"
    return re.sub(r"[^A-Za-z0-9-]+", "-", words)


def title(board: Leaderboard) -> str:
    """The name of a leaderboard."""
    return ", ".join(filter(None, [board.dataset, board.preset, board.remark]))


def _pair(estimate: Estimate) -> list[float | None]:
    return [rounded(estimate.mean), rounded(estimate.half, 3)]


def _has_choice(board: Leaderboard, choice: str) -> bool:
    return any(choice in run.scores for row in board.rows for run in row.runs.values())


def _figures(board: Leaderboard, rows: Sequence[Row], choice: str) -> dict[str, Any]:
    """What the figures show of one choice of weights; null: the row has no such weights."""
    names = [row.name for row in rows]
    known = {row.name for row in rows if series.has_choice(row, choice)}
    panels = series.severity_panels(board)
    return {
        "scores": [
            [_pair(e) for e in series.domain_estimates(row, choice)] if row.name in known else None
            for row in rows
        ],
        "by_seed": [
            [[rounded(100 * v, 4) for v in run.scores[choice].values] for run in row.runs.values()]
            if row.name in known
            else None
            for row in rows
        ],
        "panels": [
            [
                [_pair(e) for e in panel.estimates(row, choice)] if row.name in known else None
                for row in rows
            ]
            for panel in panels
        ],
        "clouds": [
            {
                "name": cloud.name,
                "label": cloud.label,
                "points": [
                    {"row": names.index(name), "x": _pair(cost), "y": _pair(cloud.scores[name])}
                    for name, cost in cloud.costs.items()
                ],
                "front": [names.index(name) for name in cloud.front],
            }
            for cloud in series.clouds(board, choice)
        ],
    }


def _curve(run: Run, row: int, number: int) -> dict[str, Any] | None:
    curve = curves.read(run.folder)
    if not curve.loss and not curve.validation:
        return None
    return {
        "row": row,
        "seed": number,
        **{
            name: [[step for step, _ in points], [rounded(value, 4) for _, value in points]]
            for name, points in (("loss", curve.loss), ("validation", curve.validation))
        },
    }


def _mean_curve(row: Row, index: int) -> dict[str, Any] | None:
    loss, validation = curves.means([curves.read(run.folder) for run in row.runs.values()])
    if not loss and not validation:
        return None
    return {
        "row": index,
        **{
            name: [
                [point.step for point in points],
                [rounded(point.mean, 4) for point in points],
                [rounded(point.low, 4) for point in points],
                [rounded(point.high, 4) for point in points],
            ]
            for name, points in (("loss", loss), ("validation", validation))
        },
    }


# Tables


def _tables(board: Leaderboard, views: Views, names: list[str]) -> list[dict[str, Any]]:
    ranked = board.ranked
    tables = [
        _table(make_table(board, name, CHOICE, views=views), views[name].tab, CHOICE, names, ranked)
        for name in available(board, views)
    ]
    if _has_choice(board, "val"):
        chosen = make_table(board, choice="val", views=views)
        tables.append(_table(chosen, "Chosen on source", "val", names, ranked))
    return tables


def _table(table: Table, tab: str, choice: str, names: list[str], ranked: str) -> dict[str, Any]:
    """A table of the leaderboard, with the value of each seed behind each number."""
    table = ranked_first(table, ranked)
    shown = plain_table(table)
    shown["name"] = tab
    shown["choice"] = choice
    for line, cells in zip(table.lines, shown["lines"], strict=True):
        cells["row"] = names.index(line.method)
        cells["unranked"] = bool(line.missing_seeds)
        if badge := line.cells.get(BADGE):
            cells["badge"] = badges.explain(badge.text)
        for column, plain in zip(table.columns, cells["cells"], strict=True):
            cell = line.cells[column.name]
            values, digits = cell.samples.values(), cell.digits + 1
            if any(value is not None for value in values):
                plain["seeds"] = [None if v is None else round(v, digits) for v in values]
    return shown


def ranked_first(table: Table, ranked: str) -> Table:
    """The table with the ranked column first: a narrow screen shows no other.

    Then what it gains over the baseline and the badge, and only then what fewer readers look for.
    """

    def place(column: Column) -> int:
        name = column.name
        first = (name == ranked, name.startswith(("gain_vs_", "p_vs_")), name == BADGE)
        return first.index(True) if any(first) else len(first)

    return replace(table, columns=tuple(sorted(table.columns, key=place)))


def _published(table: Table, names: list[str]) -> dict[str, Any]:
    shown = plain_table(table)
    if table.kind == "paper":  # ours next to theirs: ours have records
        for line in shown["lines"]:
            if line["name"] in names:  # else there are no runs of it
                line["row"] = names.index(line["name"])
    return shown


def plain_table(table: Table) -> dict[str, Any]:
    """A table as plain values."""
    return {
        "kind": table.kind,
        "title": table.title,
        "label": table.label,
        "counted": table.is_counted,
        "reduced": table.reduced,
        "notes": list(table.notes),
        "legend": "; ".join(table.legend),
        "facts": table.facts,
        "spread": table.spread,
        "columns": [
            {
                "name": c.name,
                "definition": c.definition,
                "better": c.better,
                "group": c.group,
                "text": c.is_text,
            }
            for c in table.columns
        ],
        "lines": [
            {
                "name": line.method,
                "n": line.n,
                "cells": [_cell(line.cells[column.name]) for column in table.columns],
            }
            for line in table.lines
        ],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    plain = {
        "shown": str(cell),
        "mean": rounded(cell.mean, 8),
        "half": rounded(cell.half, 8),
        "text": cell.text or None,
        "ties": cell.ties or None,
        "rank": cell.rank or None,
    }
    return {key: value for key, value in plain.items() if value is not None}
