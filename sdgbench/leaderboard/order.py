"""The order of rows: methods by what they are ranked by, the variants of one method by the grid."""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sdgbench.leaderboard.grouping import Row

CHOOSING = (
    "variants of one method: the best of them by this column is chosen on targets: not a result "
    "(sdgbench tune chooses on the source)"
)


def with_variants(rows: Sequence[Row]) -> list[str]:
    """The methods that have several rows, not counting those that a search chose on the source."""
    methods = [row.method for row in rows if not row.tuned]
    return [method for method in dict.fromkeys(methods) if methods.count(method) > 1]


def default_order(
    rows: Sequence[Row], means: Mapping[str, float | None], unranked: Mapping[str, Sequence[int]]
) -> list[str]:
    """The names of the rows: best first; those that lack seeds last; a grid in its own order.

    Variants of a method stay together, where the variant with the method's defaults belongs, or
    the first of the grid: their order says nothing about which of them is best on the targets.
    """
    groups: dict[tuple[bool, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[bool(unranked[row.name]), row.method].append(row)
    for group in groups.values():
        varying = _varying(group)
        group.sort(
            key=lambda row: (row.tuned is not None, _grid_key(row.params, varying), row.version)
        )
    ranked = sorted(groups.items(), key=lambda item: _rank(item[0][0], item[1], means))
    return [row.name for _, group in ranked for row in group]


def _rank(
    is_unranked: bool, group: Sequence[Row], means: Mapping[str, float | None]
) -> tuple[bool, bool, float]:
    anchor = next((row for row in group if not row.variant), group[0])
    mean = means[anchor.name]
    return (is_unranked, mean is None, -mean if mean is not None else 0.0)


def _varying(rows: Sequence[Row]) -> list[str]:
    """The parameters in which rows differ."""
    every = [row.params for row in rows]
    keys = sorted({key for params in every for key in params})
    return [key for key in keys if len({json.dumps(params.get(key)) for params in every}) > 1]


def _grid_key(params: Mapping[str, Any], keys: Sequence[str]) -> list[tuple[bool, float, str]]:
    """Numbers by their size, then words by the alphabet."""
    return [by_size(params.get(key)) for key in keys]


def by_size(value: object) -> tuple[bool, float, str]:
    """A key that sorts numbers by their size, and words after them by the alphabet."""
    if value is None:  # a parameter that the method did not have yet
        return (False, -math.inf, "")
    if isinstance(value, (int, float)):
        return (False, float(value), "")
    return (True, 0.0, str(value))
