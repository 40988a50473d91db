"""The numbers behind the figures, in per cent: means over seeds with their 95% intervals."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sdgbench import stats
from sdgbench.leaderboard import Board, Row, Run, corruption

CHOICE = "last"  # figures show what is ranked
ALL_CORRUPTIONS = "mean over all"


@dataclass(frozen=True)
class Estimate:
    """A mean and the half-width of its interval; None: one seed has no interval."""

    mean: float
    half: float | None


def estimate(values: Iterable[float]) -> Estimate:
    """The mean over seeds."""
    return Estimate(*stats.mean_interval(list(values)))


def domain_estimates(row: Row) -> list[Estimate]:
    """A row's score on each domain."""
    seeds = [run.scores[CHOICE].values for run in row.runs.values()]
    return [estimate(100 * value for value in values) for values in zip(*seeds, strict=True)]


def ranked_estimate(row: Row) -> Estimate:
    """A row's ranked average."""
    return estimate(100 * run.scores[CHOICE].averages[0] for run in row.runs.values())


def ordered(board: Board) -> list[Row]:
    """The rows, best ranked average first."""
    return sorted(board.rows, key=lambda row: -ranked_estimate(row).mean)


# Severities


@dataclass(frozen=True)
class Panel:
    """One corruption: the domains at its severities; 0 is clean."""

    name: str
    group: str
    levels: list[int]
    places: list[list[int]]  # per level, the domains that its score is a mean over

    def estimates(self, row: Row) -> list[Estimate]:
        """A row's score at each severity."""
        return [
            estimate(100 * _mean(run, places) for run in row.runs.values())
            for places in self.places
        ]


def _mean(run: Run, places: Sequence[int]) -> float:
    values = run.scores[CHOICE].values
    return math.fsum(values[place] for place in places) / len(places)


def severity_panels(board: Board) -> list[Panel]:
    """The mean over all corruptions first, then each; empty: the domains are no corruptions."""
    ground = board.ground
    if not corruption.is_corrupted(ground):
        return []
    levels = corruption.severities(ground)
    clean = ground.place(None, 0)
    start = [(0, [clean])] if clean is not None else []
    by_level = {level: corruption.places(ground, level) for level in levels}
    every = [*start, *((level, list(by_level[level].values())) for level in levels)]
    panels = [_panel(ALL_CORRUPTIONS, "", every)]
    for name in by_level[corruption.HIGHEST]:
        there = [(level, [by_level[level][name]]) for level in levels if name in by_level[level]]
        panels.append(_panel(name, corruption.category(name), [*start, *there]))
    return panels


def _panel(name: str, group: str, found: Sequence[tuple[int, list[int]]]) -> Panel:
    return Panel(name, group, [level for level, _ in found], [places for _, places in found])


# What using and training a model costs


@dataclass(frozen=True)
class Cloud:
    """Scores against one kind of cost: rows by name, and those that no other row beats in both."""

    name: str
    label: str
    costs: dict[str, float]
    scores: dict[str, Estimate]
    front: list[str]


COSTS = (
    ("latency", "median latency, batch of 1 (ms)", ("efficiency", "latency", "batch_1", "p50_ms"),
     1.0),
    ("parameters", "parameters at inference (millions)", ("efficiency", "parameters_inference"),
     1e-6),
    ("training", "seconds of training", ("cost", "train_seconds"), 1.0),
)  # fmt: skip


def clouds(board: Board) -> list[Cloud]:
    """One per kind of cost that the records tell."""
    found = []
    for name, label, keys, scale in COSTS:
        costs = {}
        for row in board.rows:
            known = [_number(run, keys) for run in row.runs.values()]
            values = [value for value in known if value is not None]
            if values and len(values) == len(known):
                costs[row.name] = scale * math.fsum(values) / len(values)
        scores = {row.name: ranked_estimate(row) for row in board.rows if row.name in costs}
        if costs:
            front = pareto({name: (costs[name], score.mean) for name, score in scores.items()})
            found.append(Cloud(name, label, costs, scores, front))
    return found


def _number(run: Run, keys: Sequence[str]) -> float | None:
    found = getattr(run, keys[0])
    for key in keys[1:]:
        found = found.get(key) if isinstance(found, dict) else None
    usable = isinstance(found, (int, float)) and not isinstance(found, bool)
    return float(found) if usable and math.isfinite(found) and found >= 0 else None


def pareto(points: dict[str, tuple[float, float]]) -> list[str]:
    """Names of (cost, score) that none beats: cheaper and as good, or better and as cheap."""
    front = [
        name
        for name, (cost, score) in points.items()
        if not any(
            other[0] <= cost and other[1] >= score and other != (cost, score)
            for other in points.values()
        )
    ]
    return sorted(front, key=points.__getitem__)
