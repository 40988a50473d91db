"""Ranges that a search draws a setting from: declared beside the setting, or given as text.

Each range turns a number in [0, 1) into a value, so that the drawn value depends on nothing else.
Numbers are rounded to three significant digits: what a table shows is what was run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sdgbench.errors import UserError
from sdgbench.spec import parameters

DIGITS = 3  # significant ones of a drawn number


@dataclass(frozen=True)
class Uniform:
    """Numbers between two bounds, all alike."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _check_bounds(self, self.low, self.high)

    def at(self, share: float) -> float:
        """The value below which this share of the range lies."""
        return _rounded(self.low + share * (self.high - self.low), self.low, self.high)

    def __str__(self) -> str:
        return f"uniform:{self.low:g}:{self.high:g}"


@dataclass(frozen=True)
class LogUniform:
    """Numbers between two bounds above 0, all orders of magnitude alike."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _check_bounds(self, self.low, self.high)
        if self.low <= 0:
            raise UserError(f"The range {self} needs bounds above 0.")

    def at(self, share: float) -> float:
        """The value below which this share of the range lies."""
        return _rounded(self.low * (self.high / self.low) ** share, self.low, self.high)

    def __str__(self) -> str:
        return f"log:{self.low:g}:{self.high:g}"


@dataclass(frozen=True)
class Integers:
    """Whole numbers from one to another, both included, all alike."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _check_bounds(self, self.low, self.high)

    def at(self, share: float) -> int:
        """The value below which this share of the range lies."""
        return self.low + math.floor(share * (self.high - self.low + 1))

    def __str__(self) -> str:
        return f"int:{self.low}:{self.high}"


@dataclass(frozen=True)
class OneOf:
    """A few values, all alike."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)
        if len({repr(value) for value in values}) < max(2, len(values)):
            raise UserError(f"The range {self} needs two values or more, each of them once.")

    def at(self, share: float) -> Any:
        """The value at this share of the list."""
        return self.values[math.floor(share * len(self.values))]

    def __str__(self) -> str:
        return ":".join(["choice", *map(parameters.as_text, self.values)])


@dataclass(frozen=True)
class Around:
    """From the usual value divided by a factor to that value times it: log-uniform.

    The usual value is that of the dataset and preset, so that the range follows it. A setting
    whose usual value is 0 or none is not searched.
    """

    factor: float

    def __post_init__(self) -> None:
        if not self.factor > 1:
            raise UserError(f"The range {self} is empty: its factor must be above 1.")

    def around(self, value: Any) -> LogUniform | None:
        """The range around a value; None: there is none."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            return None
        low, high = value / self.factor, value * self.factor
        return LogUniform(_rounded(low, 0, low * 2), _rounded(high, 0, high * 2))

    def __str__(self) -> str:
        return f"around:{self.factor:g}"


Range = Uniform | LogUniform | Integers | OneOf  # that can be drawn from
Declared = Range | Around
FORMS = "log:LOW:HIGH, uniform:LOW:HIGH, int:LOW:HIGH, choice:A:B or around:FACTOR"


def parse(key: str, text: str, field: parameters.Field) -> Declared:
    """Read a range from the command line."""
    kind, *parts = text.split(":")
    if kind == "choice":
        return OneOf(*(parameters.parse_field(key, field, part) for part in parts))
    kinds: dict[str, tuple[type[Declared], type, int]] = {
        "log": (LogUniform, float, 2),
        "uniform": (Uniform, float, 2),
        "int": (Integers, int, 2),
        "around": (Around, float, 1),
    }
    if kind not in kinds or len(parts) != kinds[kind][2]:
        raise UserError(f'"{text}" is not a range of {key}. Write {FORMS}.')
    make, number, _ = kinds[kind]
    try:
        bounds = [parameters.parse(part, number) for part in parts]
    except ValueError:
        raise UserError(f'"{text}" is not a range of {key}: its bounds are no numbers.') from None
    return make(*bounds)


def check_fits(key: str, field: parameters.Field, values: Range) -> None:
    """Refuse a range with values that the setting does not take."""
    samples: Sequence[Any] = (values.at(0.0), values.at(0.37), values.at(math.nextafter(1, 0)))
    for value in values.values if isinstance(values, OneOf) else samples:
        if not parameters.fits(value, field.type):
            raise UserError(
                f"The range {values} has {parameters.show(value)}, which does not fit {key}: it "
                f"takes {field.type_name}."
            )


def _check_bounds(which: object, low: float, high: float) -> None:
    if not math.isfinite(low) or not math.isfinite(high) or low >= high:
        raise UserError(f"The range {which} is empty: write the smaller bound first.")


def _rounded(value: float, low: float, high: float) -> float:
    return min(max(float(f"{value:.{DIGITS}g}"), low), high)
