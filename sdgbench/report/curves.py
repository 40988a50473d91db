"""Training curves from ``train.jsonl``: the loss of the task network and the source validation."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sdgbench.records.curve import read_points
from sdgbench.report.series import estimate

MOST_POINTS = 200
MOST_MEANS = 60  # of a mean over seeds: a loss of single steps is mostly noise


@dataclass(frozen=True)
class Curve:
    """Steps of training with the loss, and with the score on held-out source in per cent."""

    loss: list[tuple[int, float]] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)


def read(folder: Path | None) -> Curve:
    """Read a run's curve; what is missing or not readable is omitted."""
    curve = Curve()
    if folder is None:
        return curve
    before: dict[int, int] = {}  # the last step of each training phase
    for point in read_points(folder):
        with suppress(ValueError, KeyError, TypeError, OverflowError):
            _add(point, curve, before)
    return Curve(thin(curve.loss), thin(curve.validation))


def _add(point: dict[str, Any], curve: Curve, before: dict[int, int]) -> None:
    if point["name"] == "validation":
        value = 100 * float(point["score"])
        if math.isfinite(value):
            curve.validation.append((int(point["train_step"]), value))
    elif point["name"] == "train":  # other phases train other things, on other scales
        phase, step = int(point["phase"]), int(point["step"])
        before[phase] = step
        done = sum(last for earlier, last in before.items() if earlier < phase)
        value = float(point["loss"])
        if math.isfinite(value):
            curve.loss.append((done + step, value))


def thin(points: list[tuple[int, float]], most: int = MOST_POINTS) -> list[tuple[int, float]]:
    """Means of neighbours, so that at most ``most`` points are left."""
    if len(points) <= most:
        return points
    thinned = []
    for number in range(most):
        part = points[number * len(points) // most : (number + 1) * len(points) // most]
        thinned.append((part[-1][0], math.fsum(value for _, value in part) / len(part)))
    return thinned


@dataclass(frozen=True)
class MeanPoint:
    """The mean over seeds at a step, and the ends of its 95% interval; None: one seed has none."""

    step: int
    mean: float
    low: float | None
    high: float | None


MeanCurve = list[MeanPoint]


def means(curves: Sequence[Curve]) -> tuple[MeanCurve, MeanCurve]:
    """The mean over seeds of loss and of validation, at the steps that all seeds have.

    Of a positive loss it is the geometric mean: an interval of its logarithms never reaches 0,
    where an axis of logarithms has no end.
    """
    losses = _common([curve.loss for curve in curves])
    positive = all(value > 0 for points in losses for _, value in points)
    loss = _geometric(losses) if positive else _mean(losses)
    return loss, [_score(point) for point in _mean(_common([c.validation for c in curves]))]


Points = list[tuple[int, float]]


def _common(every: Sequence[Points]) -> list[Points]:
    """The points of each seed at the steps that all have, thinned."""
    by_step = [dict(points) for points in every]
    steps = sorted(set.intersection(*map(set, by_step))) if by_step else []
    return [thin([(step, points[step]) for step in steps], MOST_MEANS) for points in by_step]


def _mean(every: Sequence[Points]) -> MeanCurve:
    curve = []
    for points in zip(*every, strict=True):
        of_seeds = estimate(value for _, value in points)
        low, high = None, None
        if of_seeds.half is not None:
            low, high = of_seeds.mean - of_seeds.half, of_seeds.mean + of_seeds.half
        curve.append(MeanPoint(points[0][0], of_seeds.mean, low, high))
    return curve


def _geometric(every: Sequence[Points]) -> MeanCurve:
    logarithms = [[(step, math.log(value)) for step, value in points] for points in every]
    return [
        MeanPoint(point.step, math.exp(point.mean), _exp(point.low), _exp(point.high))
        for point in _mean(logarithms)
    ]


def _exp(value: float | None) -> float | None:
    return None if value is None else math.exp(min(value, 700.0))  # e^710 is no float


def _score(point: MeanPoint) -> MeanPoint:
    """No score is below 0 or above 100, whatever the interval of few seeds says."""
    low = None if point.low is None else max(0.0, point.low)
    return replace(point, low=low, high=None if point.high is None else min(100.0, point.high))
