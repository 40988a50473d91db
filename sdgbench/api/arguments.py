"""Arguments as people write them: names with commas, ranges of seeds, Python values."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sdgbench.errors import UserError
from sdgbench.spec.parameters import as_text

Folder = str | Path
Names = str | Iterable[str]
Numbers = str | int | Iterable[int]


def names(text: str, option: str) -> list[str]:
    """Split comma-separated names and drop repeated ones."""
    stripped = [name.strip() for name in text.split(",") if name.strip()]
    if not stripped:
        raise UserError(f"{option} is empty. See: sdgbench list")
    return list(dict.fromkeys(stripped))


def some_names(given: Names, what: str) -> list[str]:
    """Names as a text with commas or as several texts; none are an error."""
    parts = [given] if isinstance(given, str) else list(given)
    for part in parts:
        if not isinstance(part, str):
            raise UserError(f"{what} takes names, not {part!r}.")
    return names(",".join(parts), what)


def any_names(given: Names, what: str) -> list[str]:
    """The same, where nothing means all."""
    return some_names(given, what) if given else []


def numbers(text: str, what: str = "seed", how: str = "--seeds 0, 0,3 or 0-4") -> list[int]:
    """Read seeds or other numbers: ``0``, ``0,3``, ``0-4`` or a mixture."""
    values: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            if not first and dash:
                raise UserError(f"The {what} {part.strip()} is negative. Write {how}.")
            start, stop = int(first), int(last) if dash else int(first)
        except ValueError:
            raise UserError(f'"{part}" is not a {what}. Write {how}.') from None
        if stop < start or stop - start >= 10_000:
            raise UserError(f'"{part}" is not a range of {what}s. Write the smaller one first.')
        values.extend(range(start, stop + 1))
    return list(dict.fromkeys(values))


def some_numbers(given: Numbers) -> list[int]:
    """Seeds as a number, several numbers, or a text such as "0-4"; none are an error."""
    if isinstance(given, str):
        return numbers(given, how='seeds="0-4" or seeds=range(5)')
    values = [given] if isinstance(given, int) else list(given)
    for value in values:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise UserError(f"{value!r} is not a seed. Write seeds=0 or seeds=range(5).")
    if not values:
        raise UserError("There are no seeds. Write seeds=0 or seeds=range(5).")
    return list(dict.fromkeys(value.__index__() for value in values))


def processes(given: str | int) -> int | None:
    """A number of processes, or None for ``auto``."""
    text = str(given)
    if text == "auto":
        return None
    if not text.isdecimal() or not int(text):
        raise UserError(f'"{text}" is not a number of processes. Write --jobs 2 or --jobs auto.')
    return int(text)


def assignments(given: Mapping[str, Any] | None, what: str) -> list[tuple[str, str]]:
    """Settings by key as the command line has them."""
    if given is not None and not isinstance(given, Mapping):
        raise UserError(f"{what} takes a dictionary, such as {{'beta': 10}}, not {given!r}.")
    return [(key, as_text(value)) for key, value in (given or {}).items()]


def axes(given: Mapping[str, Iterable[Any]] | None) -> list[tuple[str, list[str]]]:
    """A grid by key as the command line has it."""
    grid: list[tuple[str, list[str]]] = []
    for key, values in (given or {}).items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise UserError(f"grid takes lists, such as {{'{key}': [1, 2]}}, not {values!r}.")
        texts = [as_text(value) for value in values]
        if not texts:
            raise UserError(f"The grid of {key} is empty.")
        grid.append((key, texts))
    return grid
