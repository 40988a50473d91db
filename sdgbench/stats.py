"""Statistics over seeds: one seed is one unit."""

import math
from collections.abc import Sequence

from scipy import stats


def mean_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float | None]:
    """The mean and the half-width of its t-interval; None where there is only one value."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return mean, None
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return mean, float(stats.t.ppf((1 + level) / 2, count - 1)) * math.sqrt(variance / count)
