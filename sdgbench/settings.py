"""Settings: frozen dataclasses with a doc line per field, and ``key=value`` for the command line.

A method's ``Params``, a dataset's ``Options`` and the ``Recipe`` are all settings.
"""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

from sdgbench.errors import UserError


def param(default: Any, doc: str) -> Any:
    """Declare a field of a settings class: its default and one line that says what it does."""
    return dataclasses.field(default=default, metadata={"doc": doc})


@dataclasses.dataclass(frozen=True)
class Field:
    """What is known of one setting."""

    name: str
    type: Any
    default: Any
    doc: str

    @property
    def type_name(self) -> str:
        """The type as a person would write it."""
        return describe(self.type)


def fields(cls: type) -> dict[str, Field]:
    """List the settings of a class, in order."""
    hints = typing.get_type_hints(cls)
    return {
        field.name: Field(
            field.name, hints[field.name], field.default, field.metadata.get("doc", "")
        )
        for field in dataclasses.fields(cls)
    }


def describe(kind: Any) -> str:
    """Name a type in words."""
    if get_origin(kind) is Literal:
        return " | ".join(str(choice) for choice in get_args(kind))
    if get_origin(kind) in (Union, types.UnionType):
        return " | ".join(describe(part) for part in get_args(kind))
    if get_origin(kind) is tuple:
        return ",".join(describe(part) for part in get_args(kind) if part is not Ellipsis)
    return {int: "integer", float: "number", bool: "true | false", str: "text"}.get(
        kind, "none" if kind is types.NoneType else str(kind)
    )


def parse(text: str, kind: Any) -> Any:
    """Read a setting's value from the command line; raises ValueError when it does not fit."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        for choice in args:
            if text == str(choice):
                return choice
        raise ValueError(text)
    if origin in (Union, types.UnionType):
        for part in args:
            try:
                return parse(text, part)
            except ValueError:
                continue
        raise ValueError(text)
    if origin is tuple:
        parts = [part for part in text.split(",") if part.strip()]
        kinds = [args[0]] * len(parts) if args[-1] is Ellipsis else list(args)
        if len(kinds) != len(parts):
            raise ValueError(text)
        return tuple(parse(part.strip(), one) for part, one in zip(parts, kinds, strict=True))
    if kind is types.NoneType:
        if text.lower() in ("none", "null"):
            return None
        raise ValueError(text)
    if kind is bool:
        if text.lower() in ("true", "yes", "on", "1"):
            return True
        if text.lower() in ("false", "no", "off", "0"):
            return False
        raise ValueError(text)
    if kind is int:
        return int(text.replace("_", ""))
    if kind is float:
        value = float(text)
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(text)
        return value
    return text


def parse_field(owner: str, field: Field, text: str) -> Any:
    """Read one setting and explain a value that does not fit."""
    try:
        return parse(text, field.type)
    except ValueError:
        raise UserError(
            f'"{text}" does not fit {owner}.{field.name}, which takes: {field.type_name}. '
            f"Default: {show(field.default)}."
        ) from None


def build(cls: type, values: Mapping[str, Any]) -> Any:
    """Make the settings object; its own ``__post_init__`` may refuse a value with ValueError."""
    try:
        return cls(**values)
    except ValueError as error:
        raise UserError(f"Bad setting: {error}") from None


def as_plain(settings: Any) -> dict[str, Any]:
    """Turn settings into plain values that JSON keeps (tuples become lists)."""
    return {
        field.name: _plain(getattr(settings, field.name)) for field in dataclasses.fields(settings)
    }


def _plain(value: Any) -> Any:
    return [_plain(part) for part in value] if isinstance(value, (tuple, list)) else value


def show(value: Any) -> str:
    """Write a value as it would be typed on the command line."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return ",".join(show(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
