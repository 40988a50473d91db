"""Training curves from ``train.jsonl``: the loss of the task network and the source validation."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sdgbench.records.curve import read_points
from sdgbench.report.series import Estimate, estimate

MOST_POINTS = 200


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


MeanCurve = list[tuple[int, Estimate]]


def means(curves: Sequence[Curve]) -> tuple[MeanCurve, MeanCurve]:
    """The mean over seeds of loss and of validation, at the steps that all seeds have."""
    return (
        _mean([curve.loss for curve in curves]),
        _mean([curve.validation for curve in curves]),
    )


def _mean(every: Sequence[Sequence[tuple[int, float]]]) -> MeanCurve:
    by_step = [dict(points) for points in every]
    steps = sorted(set.intersection(*(set(points) for points in by_step))) if by_step else []
    return [(step, estimate(points[step] for points in by_step)) for step in steps]
