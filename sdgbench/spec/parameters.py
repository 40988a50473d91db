"""Settings: frozen dataclasses with a doc line per field, and ``key=value`` for the command line.

A method's ``Params``, a dataset's ``Options`` and the ``Recipe`` are all settings.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

from sdgbench.errors import UserError


def param(default: Any, doc: str, search: Any = None) -> Any:
    """Declare a field of a settings class: its default and one line that says what it does.

    ``search`` is a range of ``sdgbench.spec.search`` that ``sdgbench tune`` draws from; without
    one the field is searched only on request.
    """
    return dataclasses.field(default=default, metadata={"doc": doc, "search": search})


@dataclasses.dataclass(frozen=True)
class Field:
    """Name, type, default, documentation and search range of one setting."""

    name: str
    type: Any
    default: Any
    doc: str
    search: Any = None  # the range that a search draws from; None: it is not searched

    @property
    def type_name(self) -> str:
        """The type as a person would write it."""
        return describe(self.type)


def fields(cls: type) -> dict[str, Field]:
    """List the settings of a class, in order."""
    hints = typing.get_type_hints(cls)
    return {
        field.name: Field(
            field.name,
            hints[field.name],
            field.default,
            field.metadata.get("doc", ""),
            field.metadata.get("search"),
        )
        for field in dataclasses.fields(cls)
    }


def describe(kind: Any) -> str:
    """Name a type in words."""
    if get_origin(kind) is Literal:
        return " | ".join(str(choice) for choice in get_args(kind))
    if get_origin(kind) in (Union, types.UnionType):
        return " | ".join(describe(member) for member in get_args(kind))
    if get_origin(kind) is tuple:
        return ",".join(describe(item) for item in get_args(kind) if item is not Ellipsis)
    return {int: "integer", float: "number", bool: "true | false", str: "text"}.get(
        kind, "none" if kind is types.NoneType else str(kind)
    )


def fits(value: Any, kind: Any) -> bool:
    """Say whether a value is of a setting's type; an integer is a number, and a list a tuple."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in args
    if origin in (Union, types.UnionType):
        return any(fits(value, member) for member in args)
    if origin is tuple:
        if not isinstance(value, (tuple, list)):
            return False
        item_types = _item_types(args, len(value))
        return len(item_types) == len(value) and all(map(fits, value, item_types))
    if kind in (int, float) and isinstance(value, bool):
        return False  # to Python, true is the number 1
    if kind is float:
        return isinstance(value, (int, float))
    return isinstance(value, kind) if isinstance(kind, type) else True


def parse(text: str, kind: Any) -> Any:
    """Read a setting's value from the command line; raises ValueError when it does not fit."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        for choice in args:
            if text == str(choice):
                return choice
        raise ValueError(text)
    if origin in (Union, types.UnionType):
        for member in args:
            try:
                return parse(text, member)
            except ValueError:
                continue
        raise ValueError(text)
    if origin is tuple:
        items = [item.strip() for item in text.split(",") if item.strip()]
        item_types = _item_types(args, len(items))
        if len(item_types) != len(items):
            raise ValueError(text)
        return tuple(map(parse, items, item_types))
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
        if not math.isfinite(value):
            raise ValueError(text)
        return value
    return text


def _item_types(args: tuple[Any, ...], count: int) -> list[Any]:
    """The types of a tuple's items; ``tuple[int, ...]`` has any number of them."""
    return [args[0]] * count if args[-1] is Ellipsis else list(args)


def parse_field(owner: str, field: Field, text: str, usual: Any = None, of: str = "") -> Any:
    """Read one setting and explain a value that does not fit.

    ``usual`` is the value that holds unless it is set; ``of`` says where, such as a preset.
    """
    try:
        return parse(text, field.type)
    except ValueError:
        raise UserError(
            f'"{text}" does not fit {owner}.{field.name}, which takes: {field.type_name}. '
            f"Default: {show(field.default if usual is None else usual)}{of}."
        ) from None


def build(cls: type, values: Mapping[str, Any]) -> Any:
    """Make a settings object from plain values, in which tuples are lists.

    The class may refuse a value by raising ValueError in ``__post_init__``.
    """
    try:
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    except ValueError as error:
        raise UserError(f"Bad setting: {error}") from None


def as_plain(settings: Any) -> dict[str, Any]:
    """Turn settings into plain values that JSON keeps (tuples become lists)."""
    return {
        field.name: _plain(getattr(settings, field.name)) for field in dataclasses.fields(settings)
    }


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def show(value: Any) -> str:
    """Write a value as it would be typed on the command line."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return ",".join(show(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def as_text(value: Any) -> str:
    """The same without loss: what ``parse`` reads is the value again."""
    if isinstance(value, (tuple, list)):
        return ",".join(map(as_text, value))
    return str(value) if isinstance(value, float) else show(value)
