"""Whether the values that a method gives its parameters fit them."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

from sdgbench import registry, settings
from sdgbench.conformance.outcome import Failed
from sdgbench.dataset import PRESETS
from sdgbench.errors import unknown
from sdgbench.method import Method


def check(cls: type[Method], fields: Mapping[str, settings.Field]) -> None:
    """Refuse missing defaults, values of another type, and datasets that nobody knows."""
    for name, field in fields.items():
        if field.default is dataclasses.MISSING:
            raise Failed(
                f"The parameter {name} has no default. Give it the published value: "
                f'{name}: ... = param(default, "what it does").'
            )
        _refuse_unfit(f"The default of {name}", field.default, field)
    settings.build(cls.Params, {})
    known = _places()
    for place, values in cls.per_dataset.items():
        if place not in known:
            raise Failed(
                f"{cls.__name__}.per_dataset is for a dataset that is not known here. "
                f"{unknown('dataset or family', place, known)}"
            )
        for name, value in values.items():
            if name not in fields:
                said = unknown("parameter", name, fields)
                raise Failed(f'{cls.__name__}.per_dataset["{place}"] is wrong. {said}')
            _refuse_unfit(f'{cls.__name__}.per_dataset["{place}"]["{name}"]', value, fields[name])
        settings.build(cls.Params, values)


def _places() -> list[str]:
    names = set()
    for entry in registry.entries("dataset").values():
        if not entry.error:
            dataset: Any = entry.load()
            names |= {dataset.name, dataset.family or dataset.name}
    return [*names, *(f"{name}/{preset}" for name in names for preset in PRESETS)]


def _refuse_unfit(what: str, value: Any, field: settings.Field) -> None:
    if not fits(value, field.type):
        raise Failed(
            f"{what} is {value!r}, but the parameter takes: {field.type_name}. Change the value "
            "or the type, so that --set can give it back."
        )


def fits(value: Any, kind: Any) -> bool:
    """Say whether a value is of a parameter's type; a whole number is a number, too."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in parts
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        kinds = [parts[0]] * len(value) if parts[-1] is Ellipsis else list(parts)
        return len(kinds) == len(value) and all(map(fits, value, kinds))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) else True
