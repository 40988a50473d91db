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
