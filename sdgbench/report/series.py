"""The numbers behind the figures, in per cent: means over seeds with their 95% intervals."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sdgbench.leaderboard import Leaderboard, Row, Run, corruption_metrics, statistics
from sdgbench.leaderboard.cells import missing_seeds
from sdgbench.leaderboard.costs import number
from sdgbench.leaderboard.order import default_order

CHOICE = "last"  # the ranked weights, which figures show unless another choice is asked for
ALL_CORRUPTIONS = "mean over all"


@dataclass(frozen=True)
class Estimate:
    """A mean and the half-width of its interval; None: one seed has no interval."""

    mean: float
    half: float | None


def estimate(values: Iterable[float]) -> Estimate:
    """The mean over seeds."""
    return Estimate(*statistics.mean_interval(list(values)))


def has_choice(row: Row, choice: str) -> bool:
    """Whether all runs of a row have such a choice of weights."""
    return all(choice in run.scores for run in row.runs.values())


def domain_estimates(row: Row, choice: str = CHOICE) -> list[Estimate]:
    """A row's score on each domain."""
    seeds = [run.scores[choice].values for run in row.runs.values()]
    return [estimate(100 * value for value in values) for values in zip(*seeds, strict=True)]


def ranked_by_seed(row: Row, choice: str = CHOICE) -> dict[int, float]:
    """A row's ranked average of each seed."""
    return {seed: 100 * run.scores[choice].averages[0] for seed, run in row.runs.items()}


def ranked_estimate(row: Row, choice: str = CHOICE) -> Estimate:
    """A row's ranked average."""
    return estimate(ranked_by_seed(row, choice).values())


def ordered(board: Leaderboard) -> list[Row]:
    """The rows in the order of the tables."""
    means = {row.name: ranked_estimate(row).mean for row in board.rows}
    order = default_order(board.rows, means, missing_seeds(board.rows))
    return sorted(board.rows, key=lambda row: order.index(row.name))


# Severities


@dataclass(frozen=True)
class Panel:
    """One corruption: the domains at its severities; 0 is clean."""

    name: str
    group: str
    levels: list[int]
    indices: list[list[int]]  # per level, the domains that its score is a mean over

    def estimates(self, row: Row, choice: str = CHOICE) -> list[Estimate]:
        """A row's score at each severity."""
        return [
            estimate(100 * _mean(run, indices, choice) for run in row.runs.values())
            for indices in self.indices
        ]


def _mean(run: Run, indices: Sequence[int], choice: str) -> float:
    values = run.scores[choice].values
    return math.fsum(values[index] for index in indices) / len(indices)


def severity_panels(board: Leaderboard) -> list[Panel]:
    """The mean over all corruptions first, then each; empty: the domains are no corruptions."""
    protocol = board.protocol
    if not corruption_metrics.is_corrupted(protocol):
        return []
    levels = corruption_metrics.severities(protocol)
    clean = protocol.index_of(None, 0)
    start = [(0, [clean])] if clean is not None else []
    by_level = {level: corruption_metrics.indices(protocol, level) for level in levels}
    every = [*start, *((level, list(by_level[level].values())) for level in levels)]
    panels = [_panel(ALL_CORRUPTIONS, "", every)]
    for name in by_level[corruption_metrics.HIGHEST]:
        own = [(level, [by_level[level][name]]) for level in levels if name in by_level[level]]
        panels.append(_panel(name, corruption_metrics.category(name), [*start, *own]))
    return panels


def _panel(name: str, group: str, by_level: Sequence[tuple[int, list[int]]]) -> Panel:
    return Panel(name, group, [level for level, _ in by_level], [i for _, i in by_level])


# What using and training a model costs


@dataclass(frozen=True)
class Cloud:
    """Scores against one kind of cost: rows by name, and those that no other row beats."""

    name: str
    label: str
    costs: dict[str, Estimate]
    scores: dict[str, Estimate]
    front: list[str]


@dataclass(frozen=True)
class CostKind:
    """One kind of cost, and how certain it is."""

    name: str
    label: str
    read: Callable[[Run], float | None]
    scale: float = 1.0
    is_exact: bool = False  # counted, not measured
    within_run: Callable[[Run], float | None] = lambda run: None  # half-width of its own interval

    def estimate(self, row: Row) -> Estimate | None:
        """The mean over seeds with the wider interval: over seeds, or within the runs."""
        known = [self.read(run) for run in row.runs.values()]
        values = [self.scale * value for value in known if value is not None]
        if not values or len(values) < len(known):
            return None
        mean, half = statistics.mean_interval(values)
        if self.is_exact and len(set(values)) == 1:
            return Estimate(mean, 0.0)
        within = [self.within_run(run) for run in row.runs.values()]
        halves = [self.scale * value for value in within if value is not None]
        if len(halves) == len(known):
            half = max(half or 0.0, math.fsum(halves) / len(halves))
        return Estimate(mean, half)


LATENCY = ("latency", "batch_1")
COSTS = (
    CostKind(
        "latency",
        "median latency, batch of 1 (ms)",
        number("efficiency", *LATENCY, "p50_ms"),
        within_run=number("efficiency", *LATENCY, "half_ms"),
    ),
    CostKind(
        "parameters",
        "parameters at inference (millions)",
        number("efficiency", "parameters_inference"),
        1e-6,
        is_exact=True,
    ),
    CostKind("training", "seconds of training", number("cost", "train_seconds")),
)


def clouds(board: Leaderboard, choice: str = CHOICE) -> list[Cloud]:
    """One per kind of cost that the records have."""
    charts = []
    for kind in COSTS:
        shown = [row for row in board.rows if has_choice(row, choice)]
        known = {row.name: cost for row in shown if (cost := kind.estimate(row)) is not None}
        rows = [row for row in shown if row.name in known]
        if rows:
            scores = {row.name: ranked_estimate(row, choice) for row in rows}
            by_seed = {row.name: ranked_by_seed(row, choice) for row in rows}
            charts.append(Cloud(kind.name, kind.label, known, scores, front(known, by_seed)))
    return charts


def front(costs: Mapping[str, Estimate], scores: Mapping[str, Mapping[int, float]]) -> list[str]:
    """The rows that none beats, cheapest first; empty: no difference is supported.

    One row beats another if it is cheaper or better, and not the opposite in the other respect.
    Only differences that the 95% intervals support count: of costs by both intervals, of scores
    by the interval of the paired differences. A row without intervals takes no part.
    """
    names = [n for n in costs if costs[n].half is not None and len(scores[n]) > 1]
    beaten = {
        name: any(
            _beats(costs[other], costs[name], scores[other], scores[name])
            for other in names
            if other != name
        )
        for name in names
    }
    if not any(beaten.values()):
        return []
    return sorted((n for n in names if not beaten[n]), key=lambda name: costs[name].mean)


def _beats(
    cost: Estimate, other_cost: Estimate, score: Mapping[int, float], other: Mapping[int, float]
) -> bool:
    saving = other_cost.mean - cost.mean
    if abs(saving) <= math.hypot(cost.half or 0.0, other_cost.half or 0.0):
        saving = 0.0
    gain = statistics.paired_gain(score, other, with_p=False)
    better = 0.0 if gain is None or gain.half is None or gain.is_tie else gain.mean
    return min(saving, better) >= 0 and max(saving, better) > 0
