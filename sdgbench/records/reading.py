"""Decode and encode records; what is damaged, foreign or too new is named."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from sdgbench import storage
from sdgbench.errors import UserError, explain_os_errors
from sdgbench.records.migration import migrate
from sdgbench.records.schema import SCHEMA, Record
from sdgbench.spec.labels import run_labels

_major, _, _minor = SCHEMA.partition(".")
_decoder = msgspec.json.Decoder(Record)


def read(path: Path | str) -> Record:
    """Read and check a record."""
    try:
        data = storage.read_bytes(path)  # a text: a Path for each costs a tenth of the time
    except OSError:
        with explain_os_errors("read", Path(path)):
            raise
    return decode(data, path)


def decode(data: bytes, path: Path | str = "The record") -> Record:
    """The record in some JSON; ``path`` is named in errors."""
    try:
        record = _decoder.decode(data)
    except (msgspec.ValidationError, RecursionError) as error:
        return _decode_other_version(data, path, error)
    except (msgspec.DecodeError, ValueError) as error:
        raise UserError(f"{path} is damaged or half-written ({error}). Delete it.") from error
    if _version(record.schema) != _version(SCHEMA):
        _checked({"schema": record.schema}, path)
    if _version(record.schema) > _version(SCHEMA):
        raw = _checked(msgspec.json.decode(data), path)
        record = msgspec.structs.replace(record, unknown=_unknown(raw, _plain(record)))
    if "last" not in record.results or not record.last.averages:
        raise UserError(f"{path} has no results of the last iterate: it is damaged. Delete it.")
    return record


def label_records(paths: Iterable[Path]) -> dict[Path, str]:
    """The names of the runs behind some records; those that cannot be read are left out."""
    records: dict[Path, Record] = {}
    for path in paths:
        with suppress(UserError):
            records[path] = read(path)
    labels = run_labels(
        [vars(record.spec) for record in records.values()],
        [record.flags.params_changed or () for record in records.values()],
    )
    return dict(zip(records, labels, strict=True))


def _decode_other_version(data: bytes, path: Path | str, error: Exception) -> Record:
    """Migrate an older record; anything else is refused with what is wrong."""
    try:
        raw = _checked(msgspec.json.decode(data), path)
        if (migrated := migrate(raw)) is not raw:
            return decode(msgspec.json.encode(migrated), path)
    except RecursionError:
        raise UserError(f"{path} is nested too deeply: it is not a record.") from error
    except (msgspec.DecodeError, ValueError) as damage:
        raise UserError(f"{path} is damaged or half-written ({damage}). Delete it.") from damage
    raise UserError(f"{path} does not hold what a record holds ({error}). Move it away.") from error


def _version(stated: object) -> tuple[int, int]:
    """Major and minor version; (-1, -1) for what is none. Schema 1 was a number."""
    major, dot, minor = f"{stated}{'.0' if type(stated) is int else ''}".partition(".")
    known = dot and major.isdecimal() and minor.isdecimal() and len(major + minor) < 10
    return (int(major), int(minor)) if known else (-1, -1)


def _checked(raw: Any, path: Path | str) -> dict[str, Any]:
    """Refuse what is not a record, or newer than this sdgbench knows."""
    stated = raw.get("schema") if isinstance(raw, dict) else None
    version = _version(stated) if isinstance(stated, (int, str)) else (-1, -1)
    if version < (1, 0):
        raise UserError(f"{path} is not a record of sdgbench. Move it out of the runs folder.")
    if version[0] > _version(SCHEMA)[0]:
        raise UserError(
            f"{path} has schema {version[0]}.{version[1]}, newer than this sdgbench knows "
            f"({SCHEMA}). Upgrade sdgbench to read it."
        )
    checked: dict[str, Any] = raw
    return checked


def encode(record: Record) -> dict[str, Any]:
    """The record as plain values for JSON, with the unknown fields that it was read with."""
    return _merged(_plain(record), record.unknown)


def _plain(record: Record) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(record)
    del values["unknown"]
    return values


def _unknown(raw: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The fields of ``raw`` that are not in ``known``, at any depth."""
    extra = {}
    for key, value in raw.items():
        if key not in known:
            extra[key] = value
            continue
        both = isinstance(value, dict) and isinstance(known[key], dict)
        if both and (inner := _unknown(value, known[key])):
            extra[key] = inner
    return extra


def _merged(values: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for key, value in extra.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
