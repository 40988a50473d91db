"""Scores against one parameter, all others at their defaults; and with a part against without."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sdgbench.leaderboard import Leaderboard, Row, corruption_metrics, statistics
from sdgbench.report.series import CHOICE, Estimate, ranked_estimate

DECADES = 2  # a span from which on an axis is logarithmic


@dataclass(frozen=True)
class Sweep:
    """A method's ranked average at each value of a parameter."""

    method: str
    parameter: str
    values: list[float]  # ascending
    scores: list[Estimate]
    default: float | None  # None: no run has it


def sweeps(board: Leaderboard) -> list[Sweep]:
    """Every parameter of every method that runs differ in alone, with at least two values."""
    swept = []
    for method in dict.fromkeys(row.method for row in board.rows):
        rows = [row for row in board.rows if row.method == method and row.changed is not None]
        plain = next((row for row in rows if not row.changed), None)
        for name in dict.fromkeys(name for row in rows for name in row.changed or ()):
            points = {
                row.changed[name]: ranked_estimate(row)
                for row in rows
                if row.changed is not None and list(row.changed) == [name]
            }
            default = None
            if plain is not None:
                default = json.loads(next(iter(plain.runs.values())).params).get(name)
                points[default] = ranked_estimate(plain)
            if len(points) > 1 and all(map(_is_number, points)):
                ordered = sorted(points)
                scores = [points[value] for value in ordered]
                swept.append(Sweep(method, name, ordered, scores, default))
    return swept


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def scale(values: Sequence[float]) -> str:
    """The kind of axis that shows them best: over decades a logarithmic one."""
    above = [abs(value) for value in values if value]
    if not above or max(above) < 10**DECADES * min(above):
        return "linear"
    return "log" if min(values) > 0 else "symlog"


@dataclass(frozen=True)
class ComponentGain:
    """What a part of a method is worth: the paired gains of the whole over it without the part."""

    whole: Row
    without: Row
    # By domain, or by corruption at the highest severity; and the mean.
    gains: dict[str, statistics.Gain]


def component_gains(board: Leaderboard, suffix: str = "-no-meta") -> list[ComponentGain]:
    """All methods that have runs with and without a part, over the seeds that both have."""
    rows = {row.name: row for row in board.rows}
    gains = []
    for name, without in rows.items():
        whole = rows.get(name.removesuffix(suffix))
        if whole is not None and whole is not without and whole.runs.keys() & without.runs.keys():
            gains.append(ComponentGain(whole, without, _gains(board, whole, without)))
    return gains


def _gains(board: Leaderboard, whole: Row, without: Row) -> dict[str, statistics.Gain]:
    protocol = board.protocol
    shown: Mapping[str, int] = {name: index for index, name in enumerate(protocol.domains)}
    if corruption_metrics.is_corrupted(protocol):
        shown = corruption_metrics.indices(protocol, corruption_metrics.HIGHEST)
    by_name = {name: _gain(whole, without, [index]) for name, index in shown.items()}
    return {**by_name, "mean": _gain(whole, without, list(shown.values()))}


def _gain(whole: Row, without: Row, indices: Sequence[int]) -> statistics.Gain:
    def scores(row: Row) -> dict[int, float]:
        return {
            seed: 100 * sum(run.scores[CHOICE].values[index] for index in indices) / len(indices)
            for seed, run in row.runs.items()
        }

    gain = statistics.paired_gain(scores(whole), scores(without), with_p=False)
    assert gain is not None
    return gain
