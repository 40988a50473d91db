"""Older records, brought to the current schema when they are read."""

from typing import Any

KNOWN_FLAGS_1 = (
    "reduced_scale",
    "recipe_changed",
    "params_changed",
    "reduced_parameters",
    "pretrained",
    "unverified_data",
    "regenerated",
    "frost_overlays",
    "incomplete_source",
)
SECTIONS_1 = ("efficiency", "cost", "flags", "code", "machine", "source")  # null: not recorded


def migrate(raw: dict[str, Any]) -> dict[str, Any]:
    """Bring the JSON of a record of any older version to the current one."""
    if raw.get("schema") == 1:
        raw = from_1(raw)
    return raw


def from_1(raw: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 to 2.0: a method's own flags get a list, a dataset's own flags an object."""
    new = {key: value for key, value in raw.items() if value is not None or key not in SECTIONS_1}
    new["schema"] = "2.0"
    flags = dict(new.get("flags") or {})
    others = {name: flags.pop(name) for name in list(flags) if name not in KNOWN_FLAGS_1}
    flags["method"] = sorted(name for name, value in others.items() if value is True)
    flags["other"] = {name: value for name, value in others.items() if value is not True}
    new["flags"] = flags
    new["results"] = {k: v for k, v in (raw.get("results") or {}).items() if v is not None}
    return new
