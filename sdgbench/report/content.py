"""All that the page shows, as plain values for one JSON block."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import sdgbench
from sdgbench import storage
from sdgbench.errors import UserError
from sdgbench.leaderboard import BASELINE, VIEWS, Board, Run, Table, corruption, paper_tables
from sdgbench.leaderboard.statistics import Measure, Samples
from sdgbench.report import curves, palette, series
from sdgbench.report.series import CHOICE, Estimate

LABELS = {
    "domains": "Domains", "severity": "Severities", "corruptions": "Corruptions",
    "classes": "Classes", "efficiency": "Efficiency", "cost": "Training cost",
}  # fmt: skip
SECTIONS = (
    "params", "recipe", "options", "flags", "efficiency", "cost", "code", "packages", "machine",
    "source", "files",
)  # fmt: skip
Collect = Callable[[Board], dict[str, Any]]


def content(boards: Sequence[Board], collect: Collect, skipped: int = 0) -> dict[str, Any]:
    """The whole page; ``collect`` finds the sample images of a board."""
    records = Records()
    looks = palette.looks(boards)
    shown = [_board(board, looks, records, collect(board)) for board in boards]
    return {
        "version": sdgbench.__version__,
        "baseline": BASELINE,
        "skipped": skipped,
        "boards": shown,
        "records": records.found,
        "pool": records.pool,
    }


def rounded(value: float | None, digits: int = 5) -> float | None:
    """A number that is short in JSON; what is no number becomes null."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


class Records:
    """The settings of each run; what many runs share is kept once."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self.pool: list[Any] = []
        self._places: dict[str, int] = {}

    def add(self, run: Run, row: str, board: str) -> int:
        """Keep a run's settings and say where."""
        stored: dict[str, Any] = {}
        if run.folder is not None:
            try:
                stored = storage.read_json(run.folder / "record.json")
            except UserError:  # it was there a moment ago; what the table needs is known
                stored = {}
        spec = stored.get("spec") or {}
        known: dict[str, Any] = {
            "params": json.loads(run.params), "recipe": dict(run.ground.recipe),
            "options": dict(run.ground.options), "flags": dict(run.flags),
            "efficiency": dict(run.efficiency), "cost": dict(run.cost),
            "source": dict(run.ground.source),
        }  # fmt: skip
        sections = {name: known.get(name, stored.get(name)) for name in SECTIONS}
        self.found.append({
            "id": run.id, "row": row, "method": run.method, "seed": run.seed, "board": board,
            "dataset": run.ground.dataset, "preset": run.ground.preset,
            "version": run.ground.version, "reduced": run.ground.reduced,
            "place": "/".join(run.folder.parts[-3:]) if run.folder else "",
            "changed": [*map(str, spec.get("option_changes") or ()),
                        *(f"recipe.{key}" for key in run.ground.recipe_changes)],
            "started": stored.get("started"), "finished": stored.get("finished"),
            "sections": {name: self._keep(value) for name, value in sections.items() if value},
        })  # fmt: skip
        return len(self.found) - 1

    def _keep(self, value: Any) -> int:
        key = json.dumps(value, sort_keys=True)
        if key not in self._places:
            self._places[key] = len(self.pool)
            self.pool.append(value)
        return self._places[key]


def _board(
    board: Board, looks: dict[str, palette.Look], records: Records, samples: dict[str, Any]
) -> dict[str, Any]:
    rows = series.ordered(board)
    title = f"{board.dataset}, {board.preset}" + (f" [{board.remark}]" if board.remark else "")
    shown = [
        {
            "name": row.name,
            "look": [looks[row.name].colour, looks[row.name].marker, looks[row.name].dash],
            "seeds": list(row.runs),
            "records": [records.add(run, row.name, title) for run in row.runs.values()],
        }
        for row in rows
    ]
    names = [row.name for row in rows]
    estimates = [series.domain_estimates(row) for row in rows]
    return {
        "title": title, "dataset": board.dataset, "preset": board.preset, "remark": board.remark,
        "metric": board.metric, "reduced": board.reduced, "ranked": board.ranked,
        "source": str(board.ground.source.get("name", "")), "rows": shown,
        "domains": list(board.domains),
        "scores": [[_pair(one) for one in found] for found in estimates],
        "by_seed": [
            [[rounded(100 * v, 4) for v in run.scores[CHOICE].values] for run in row.runs.values()]
            for row in rows
        ],
        "tables": [_table(board, view, names) for view in board.views()]
        + ([_table(board, "domains", names, "val")] if _has_choice(board) else []),
        "published": [_published(table, names) for table in paper_tables(board)],
        "panels": [
            {
                "name": panel.name, "group": panel.group, "levels": panel.levels,
                "places": panel.places,
                "scores": [[_pair(one) for one in panel.estimates(row)] for row in rows],
            }
            for panel in series.severity_panels(board)
        ],
        "highest": corruption.HIGHEST,
        "clouds": [
            {
                "name": cloud.name, "label": cloud.label,
                "points": [
                    {"row": names.index(name), "x": rounded(cost),
                     "y": _pair(cloud.scores[name])}
                    for name, cost in cloud.costs.items()
                ],
                "front": [names.index(name) for name in cloud.front],
            }
            for cloud in series.clouds(board)
        ],
        "machines": sorted({run.machine for row in rows for run in row.runs.values()} - {""}),
        "curves": [
            found
            for place, row in enumerate(rows)
            for number, run in enumerate(row.runs.values())
            if (found := _curve(run, place, number))
        ],
        "samples": samples,
    }  # fmt: skip


def _pair(found: Estimate) -> list[float | None]:
    return [rounded(found.mean), rounded(found.half, 3)]


def _has_choice(board: Board) -> bool:
    return any("val" in run.scores for row in board.rows for run in row.runs.values())


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


# Tables


def _table(board: Board, view: str, names: list[str], choice: str = CHOICE) -> dict[str, Any]:
    """A table of the leaderboard, with what each seed says behind each number."""
    table = board.table(view, choice)
    measures = {m.column.name: m for m in _measures(board, view, choice)}
    samples = {name: measure.samples(board.rows) for name, measure in measures.items()}
    samples |= _gains(board, choice, table)
    shown = _plain_table(table)
    shown["name"] = LABELS.get(view, view) if choice == CHOICE else "Chosen on source"
    shown["choice"] = choice
    for line, cells in zip(table.lines, shown["lines"], strict=True):
        cells["row"] = names.index(line.method)
        for column, cell in zip(table.columns, cells["cells"], strict=True):
            values = samples.get(column.name, {}).get(line.method)
            digits = line.cells[column.name].digits + 1
            if values and any(value is not None for value in values.values()):
                cell["seeds"] = [None if v is None else round(v, digits) for v in values.values()]
    return shown


def _measures(board: Board, view: str, choice: str) -> list[Measure]:
    return list(VIEWS[view](board, choice, BASELINE, board.row(BASELINE)))


def _gains(board: Board, choice: str, table: Table) -> dict[str, Samples]:
    """The paired differences behind the gains, seed by seed."""
    name, reference = f"gain_vs_{BASELINE}", board.row(BASELINE)
    if reference is None or table.column(name) is None:
        return {}
    measures = {m.column.name: m for m in _measures(board, "domains", choice)}
    ranked = measures[board.ranked].samples(board.rows)
    base = ranked[reference.name]
    found: Samples = {
        row: {seed: _difference(value, base.get(seed)) for seed, value in values.items()}
        for row, values in ranked.items()
        if row != reference.name
    }
    return {name: found}


def _difference(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else ours - theirs


def _published(table: Table, names: list[str]) -> dict[str, Any]:
    shown = _plain_table(table)
    if table.kind == "paper":  # ours beside theirs: ours have records
        for line in shown["lines"]:
            if line["name"] in names:  # else it says that there are no runs
                line["row"] = names.index(line["name"])
    return shown


def _plain_table(table: Table) -> dict[str, Any]:
    return {
        "kind": table.kind, "title": table.title, "label": table.label,
        "counted": table.is_counted, "reduced": table.reduced, "notes": list(table.notes),
        "legend": table.legend,
        "columns": [
            {"name": c.name, "definition": c.definition, "better": c.better, "group": c.group,
             "text": c.is_text}
            for c in table.columns
        ],
        "lines": [
            {
                "name": line.method, "n": line.n,
                "cells": [_cell(line.cells[column.name]) for column in table.columns],
            }
            for line in table.lines
        ],
    }  # fmt: skip


def _cell(cell: Any) -> dict[str, Any]:
    found = {"shown": str(cell), "mean": rounded(cell.mean, 8), "rank": cell.rank or None}
    return {key: value for key, value in found.items() if value is not None}
