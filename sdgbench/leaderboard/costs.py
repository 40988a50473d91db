"""What using and training a model costs, read from a run: the one reader of efficiency and cost."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from sdgbench.leaderboard.runs import Run


def number(source: Literal["efficiency", "cost"], *keys: str) -> Callable[[Run], float | None]:
    """A reader of one number of a run, by its path; None: the record does not have it."""

    def read(run: Run) -> float | None:
        value: Any = getattr(run, source)
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
        return float(value) if value is not None and math.isfinite(value) and value >= 0 else None

    return read


def other_seconds(run: Run) -> float | None:
    """Seconds of validation, evaluation, checkpoints and so on; None: not recorded."""
    seconds = run.cost.other_seconds.values()
    return math.fsum(seconds) if seconds else None


def with_search(
    read: Callable[[Run], float | None], key: Literal["images_forward", "seconds"]
) -> Callable[[Run], float | None]:
    """A reader of a run's cost plus that of the search that chose its setting, if one did."""

    def total(run: Run) -> float | None:
        value = read(run)
        if run.tuned is None or value is None:
            return value
        searched = getattr(run.tuned, key)
        return None if searched is None else value + searched

    return total


def all_seconds(run: Run) -> float | None:
    """Seconds of training and everything else; None: not recorded."""
    return run.cost.seconds if run.cost.train_seconds is not None else None
