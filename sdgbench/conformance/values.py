"""Checks that a method's default and per-dataset values fit its parameters."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from sdgbench import registry
from sdgbench.conformance.outcome import Failed
from sdgbench.errors import UserError, unknown
from sdgbench.method import Method
from sdgbench.recipe import PRESETS, Recipe
from sdgbench.spec import parameters, search, shifts


def check(cls: type[Method], fields: Mapping[str, parameters.Field]) -> None:
    """Refuse missing defaults, values of another type, and unknown datasets."""
    for name, field in fields.items():
        if field.default is dataclasses.MISSING:
            raise Failed(
                f"The parameter {name} has no default. Give it the published value: "
                f'{name}: ... = param(default, "what it does").'
            )
        _refuse_unfit(f"The default of {name}", field.default, field)
        _check_search(cls, field)
    parameters.build(cls.Params, {})
    for name in cls.families:
        if name not in shifts.FAMILIES:
            error = unknown("family", name, shifts.FAMILIES)
            raise Failed(f"{cls.__name__}.families is wrong. {error}")
    known = _per_dataset_keys()
    for key, values in cls.per_dataset.items():
        if key not in known:
            raise Failed(
                f"{cls.__name__}.per_dataset has a key that is no known dataset. "
                f"{unknown('dataset or family', key, known)}"
            )
        for name, value in values.items():
            if name not in fields:
                error = unknown("parameter", name, fields)
                raise Failed(f'{cls.__name__}.per_dataset["{key}"] is wrong. {error}')
            _refuse_unfit(f'{cls.__name__}.per_dataset["{key}"]["{name}"]', value, fields[name])
        parameters.build(cls.Params, values)
    for key, values in cls.recipes.items():
        if key not in known:
            raise Failed(f"{cls.__name__}.recipes is wrong. {unknown('dataset', key, known)}")
        for name, value in values.items():
            if name not in parameters.fields(Recipe):
                error = unknown("setting of a recipe", name, parameters.fields(Recipe))
                raise Failed(f'{cls.__name__}.recipes["{key}"] is wrong. {error}')
            field = parameters.fields(Recipe)[name]
            _refuse_unfit(f'{cls.__name__}.recipes["{key}"]["{name}"]', value, field)


def _check_search(cls: type[Method], field: parameters.Field) -> None:
    """Refuse a range whose ends the method does not take."""
    values = field.search
    if values is None:
        return
    if not isinstance(values, search.Declared):
        raise Failed(
            f"The search of {field.name} is {values!r}. Use a range, such as LogUniform(0.1, 10)."
        )
    around = values.around(field.default) if isinstance(values, search.Around) else values
    if around is None:
        return  # such as 0, which is not searched
    try:
        search.check_fits(field.name, field, around)
        for end in (0.0, math.nextafter(1, 0)):
            parameters.build(cls.Params, {field.name: around.at(end)})
    except UserError as error:
        raise Failed(f"The search of {field.name} is wrong. {error}") from None


def _per_dataset_keys() -> list[str]:
    names = set()
    for entry in registry.entries("dataset").values():
        if not entry.error:
            dataset: Any = entry.load()
            names |= {dataset.name, dataset.family or dataset.name}
    return [*names, *PRESETS, *(f"{name}/{preset}" for name in names for preset in PRESETS)]


def _refuse_unfit(what: str, value: Any, field: parameters.Field) -> None:
    if not parameters.fits(value, field.type):
        raise Failed(
            f"{what} is {value!r}, but the parameter takes: {field.type_name}. Change the value "
            "or the type, so that --set can restore it."
        )
