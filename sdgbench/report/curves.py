"""Training curves from ``train.jsonl``: the loss of the task network and the source validation."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_POINTS = 200


@dataclass(frozen=True)
class Curve:
    """Steps of training with the loss, and with the score on held-out source in per cent."""

    loss: list[tuple[int, float]] = field(default_factory=list)
    validation: list[tuple[int, float]] = field(default_factory=list)


def read(folder: Path | None) -> Curve:
    """Read a run's curve; what is not there or not readable is left out."""
    curve = Curve()
    if folder is None:
        return curve
    try:
        text = (folder / "train.jsonl").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return curve
    before: dict[int, int] = {}  # the last step of each training phase
    for line in text.splitlines():
        try:
            _add(json.loads(line), curve, before)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # a line that was cut off tells nothing
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
    """Means of neighbours, so that at most so many points are left."""
    if len(points) <= most:
        return points
    thinned = []
    for number in range(most):
        part = points[number * len(points) // most : (number + 1) * len(points) // most]
        thinned.append((part[-1][0], math.fsum(value for _, value in part) / len(part)))
    return thinned
