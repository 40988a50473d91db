"""The settings of each run behind the page, as plain values."""

import json
from typing import Any

import msgspec

from sdgbench.errors import UserError
from sdgbench.leaderboard import Run
from sdgbench.records import badges
from sdgbench.records.reading import read
from sdgbench.records.schema import Record

SECTIONS = (
    "params",
    "recipe",
    "options",
    "flags",
    "efficiency",
    "cost",
    "code",
    "packages",
    "machine",
    "source",
    "files",
)


def _without_gaps(section: Any) -> Any:
    """A section of a record as plain values, without what is absent or empty."""
    values = msgspec.to_builtins(section)
    if not isinstance(section, msgspec.Struct):
        return values
    return {key: value for key, value in values.items() if value not in (None, [], {})}


class Records:
    """The settings of each run; what many runs share is kept once."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.pool: list[Any] = []
        self._indices: dict[str, int] = {}

    def add(self, run: Run, row: str, board: str) -> int:
        """Add a run's settings and return their index in ``entries``."""
        record = self._record(run)
        known: dict[str, Any] = {
            "params": json.loads(run.params),
            "recipe": {**run.protocol.recipe, **_searched_recipe(run)},
            "options": run.protocol.options,
            "flags": run.flags,
            "efficiency": run.efficiency,
            "cost": run.cost,
            "source": run.protocol.source,
        }
        if record is not None:
            known |= {name: getattr(record, name) for name in SECTIONS if name not in known}
        sections = {name: _without_gaps(known[name]) for name in SECTIONS if name in known}
        sections["submission"] = badges.describe(run.folder) if run.badge and run.folder else {}
        self.entries.append(
            {
                "id": run.id,
                "row": row,
                "method": run.method,
                "seed": run.seed,
                "board": board,
                "dataset": run.protocol.dataset,
                "preset": run.protocol.preset,
                "version": run.protocol.version,
                "reduced": run.protocol.reduced,
                "folder": "/".join(run.folder.parts[-3:]) if run.folder else "",
                "changed": [
                    *run.protocol.option_changes,
                    *(f"recipe.{key}" for key in run.protocol.recipe_changes),
                ],
                "started": record.started if record else None,
                "finished": record.finished if record else None,
                "sections": {name: self._keep(value) for name, value in sections.items() if value},
            }
        )
        return len(self.entries) - 1

    def _record(self, run: Run) -> Record | None:
        """The whole record of a run; what the table needs is known without it."""
        try:
            return read(run.folder / "record.json") if run.folder else None
        except UserError:
            return None

    def _keep(self, value: Any) -> int:
        key = json.dumps(value, sort_keys=True)
        if key not in self._indices:
            self._indices[key] = len(self.pool)
            self.pool.append(value)
        return self._indices[key]


def _searched_recipe(run: Run) -> dict[str, Any]:
    """What a search chose of the recipe, which the protocol has as in the preset."""
    values = run.tuned.values if run.tuned else {}
    start = "recipe."
    return {key.removeprefix(start): v for key, v in values.items() if key.startswith(start)}
