"""The record's schema: every field survives, newer versions are handled, older ones migrate."""

import json
import types
import typing

import msgspec
import pytest
import sample_records as records
from conftest import ROOT
from msgspec import Struct

from sdgbench.errors import UserError
from sdgbench.records import schema
from sdgbench.records.migration import from_1
from sdgbench.records.reading import decode, encode
from sdgbench.spec.run_spec import RunSpec

COMMITTED = sorted((ROOT / "leaderboards" / "records").glob("*/*/*/record.json"))
CLASSES = [value for value in vars(schema).values() if isinstance(value, type)]
STRUCTS = [cls for cls in CLASSES if issubclass(cls, Struct) and cls is not Struct]


def sample(kind, name="x"):
    """A value of a type, different from any default."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return sample(arguments[0], name)
    if origin is typing.Literal:
        return arguments[-1]
    if origin in (typing.Union, types.UnionType):
        return sample(next(part for part in arguments if part is not type(None)), name)
    if origin is list:
        return [] if name == "earlier" else [sample(arguments[0], name)]
    if origin is tuple:
        kinds = arguments[:1] if arguments[-1] is Ellipsis else arguments
        return tuple(sample(part, name) for part in kinds)
    if origin is dict:
        key = "last" if typing.get_origin(arguments[0]) is typing.Literal else "k"
        return {key: sample(arguments[1], name)}
    if isinstance(kind, type) and issubclass(kind, Struct):
        return filled(kind)
    if kind is RunSpec:
        hints = typing.get_type_hints(RunSpec)
        return RunSpec(**{name: sample(kind, name) for name, kind in hints.items()})
    return {int: 7, float: 0.25, str: f"some {name}", bool: True}.get(kind, "anything")


def filled(cls):
    """An object all of whose fields are set."""
    hints = typing.get_type_hints(cls, include_extras=True)
    values = {name: sample(kind, name) for name, kind in hints.items() if name != "unknown"}
    return cls(**{**values, "schema": schema.SCHEMA} if cls is schema.Record else values)


@pytest.mark.parametrize("cls", STRUCTS, ids=lambda cls: cls.__name__)
def test_every_field_survives_a_round_trip(cls):
    made = filled(cls)
    for field in msgspec.structs.fields(cls):
        if field.default is not msgspec.NODEFAULT and field.name not in ("schema", "earlier"):
            assert getattr(made, field.name) != field.default, "the sample must differ"
    assert msgspec.json.decode(msgspec.json.encode(made), type=cls) == made


def test_every_field_of_a_record_is_written_and_read():
    made = filled(schema.Record)
    written = encode(made)
    assert set(written) == set(schema.Record.__struct_fields__) - {"unknown"}
    assert decode(json.dumps(written).encode()) == made


def test_the_order_of_keys_does_not_matter():
    written = encode(filled(schema.Record))
    turned = dict(reversed(written.items()))
    assert decode(json.dumps(turned).encode()) == filled(schema.Record)


def test_unknown_fields_of_a_newer_minor_version_are_kept():
    newer = encode(filled(schema.Record))
    newer |= {"schema": "2.7", "weather": {"sky": "clear"}}
    newer["results"]["last"]["calibration"] = 0.5
    newer["domains"]["k"]["licence"] = ["CC BY"]
    record = decode(json.dumps(newer).encode())
    assert record.last.average == 0.25
    assert encode(record) == newer


@pytest.mark.parametrize("version", ["3.0", "10.2", 2, 3])
def test_a_newer_schema_is_refused_by_name(version):
    made = encode(filled(schema.Record)) | {"schema": version}
    if version == 2:  # never written, and so not known
        made["schema"] = "2.x"
    message = "not a record" if version == 2 else "newer than this sdgbench knows"
    with pytest.raises(UserError, match=message):
        decode(json.dumps(made).encode())


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("last", "average"), 1.5, "<= 1.0"),
        (("last", "average"), "0.5", "Expected `float`, got `str`"),
        (("last", "per_domain", "svhn", "accuracy"), -0.1, ">= 0.0"),
        (("last", "per_domain"), [], "Expected `object`, got `array`"),
        (("last", "averages"), {}, "no results of the last iterate"),
    ],
)
def test_wrong_values_are_named(path, value, message):
    made = records.make()
    inner = made["results"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(UserError, match=message):
        decode(json.dumps(made).encode())


def test_committed_records_read_and_round_trip():
    assert len(COMMITTED) > 20
    for path in COMMITTED:
        record = decode(path.read_bytes(), path)
        assert record.id == record.spec.id == path.parent.name
        again = decode(json.dumps(encode(record)).encode())
        assert again == record


def test_migration_from_schema_1_moves_flags_and_nothing_else():
    old = next(r for path in COMMITTED if (r := json.loads(path.read_text()))["schema"] == 1)
    old["flags"] |= {"extra_data": True, "odd": [1]}
    new = from_1(old)
    assert new["schema"] == "2.0"
    assert new["flags"]["method"] == ["extra_data"]
    assert new["flags"]["other"] == {"odd": [1]}
    untouched = set(old) - {"schema", "flags"}
    assert {key: new[key] for key in untouched} == {key: old[key] for key in untouched}
    kept = {k: v for k, v in old["flags"].items() if k not in ("extra_data", "odd")}
    assert {**kept, "method": ["extra_data"], "other": {"odd": [1]}} == new["flags"]


def test_nesting_is_limited():
    deep = b'{"schema": "2.0", "id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(UserError, match="nested too deeply|Expected"):
        decode(deep)
