"""Statistics over seeds: one seed is one unit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LEVEL = 0.95
SIGNIFICANCE = 0.05
MOST_EXACT = 15  # differences whose 2^n sign patterns are all counted
DRAWS = 20_000  # random sign patterns above that: p = 0.05 comes out to within 0.003


@cache
def t_quantile(level: float, freedom: int) -> float:
    """The t that a share of Student's distribution lies within, on both sides of 0.

    By the finite series for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4):
    a table must not wait for SciPy, whose import takes as long as reading 2,000 records.
    """
    low, high = 0.0, math.pi / 2  # of the angle whose tangent is t / sqrt(freedom)
    while low < (middle := (low + high) / 2) < high:
        if _share_within(middle, freedom) < level:
            low = middle
        else:
            high = middle
    return math.tan(low) * math.sqrt(freedom)


def _share_within(angle: float, freedom: int) -> float:
    cosine = math.cos(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    if freedom == 1:
        total = 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= (k - 1) / k * cosine**2
        total += term
    share = math.sin(angle) * total
    return 2 / math.pi * (angle + share) if odd else share


def mean_interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float | None]:
    """The mean and the half-width of its t-interval; None where there is only one value."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return mean, None
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return mean, t_quantile(level, count - 1) * math.sqrt(variance / count)


@dataclass(frozen=True)
class Gain:
    """A mean of paired differences, seed by seed, and the half-width of its interval."""

    n: int
    mean: float
    half: float | None  # None: one pair has no interval
    p: float | None  # two-sided sign-flip; None: too few pairs to be significant
    exact: bool = True  # all sign patterns were counted

    @property
    def is_tie(self) -> bool:
        """Whether the interval covers 0."""
        return self.half is not None and abs(self.mean) <= self.half


def paired_gain(
    ours: Mapping[int, float], theirs: Mapping[int, float], with_p: bool = True
) -> Gain | None:
    """How much better the first is over the seeds that both have; None: they share no seed."""
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        return None
    differences = [ours[seed] - theirs[seed] for seed in seeds]
    mean, half = mean_interval(differences)
    p = sign_flip_p(differences) if with_p and len(seeds) >= FEWEST_SEEDS else None
    return Gain(len(seeds), mean, half, p, len(seeds) <= MOST_EXACT)


def sign_flip_p(differences: Sequence[float]) -> float:
    """How often random signs give a mean as far from 0 as the observed one, two-sided.

    Exact up to MOST_EXACT differences; above, DRAWS random sign patterns (always the same) and the
    observed one are counted.
    """
    observed = abs(math.fsum(differences))
    # Sums in another order differ in the last digits; a pattern must not be lost by that.
    bar = observed - 1e-9 * math.fsum(abs(value) for value in differences)
    if len(differences) <= MOST_EXACT:
        sums = [differences[0]]  # a pattern and its mirror image count alike: half will do
        for value in differences[1:]:
            sums = [total + value for total in sums] + [total - value for total in sums]
        return sum(abs(total) >= bar for total in sums) / len(sums)
    import numpy as np

    ordered = np.sort(np.abs(np.asarray(differences, dtype=float)))
    sums = np.abs(_sign_patterns(len(ordered)) @ ordered)
    return float((1 + np.count_nonzero(sums >= bar)) / (1 + DRAWS))


@lru_cache(maxsize=1)  # most methods of a table have as many seeds as the others
def _sign_patterns(count: int) -> "np.ndarray":
    import numpy as np

    return np.random.default_rng(0).integers(0, 2, (DRAWS, count)) * 2.0 - 1


def smallest_p(count: int) -> float:
    """The smallest two-sided sign-flip p that this number of differences can reach."""
    return float(2.0 ** (1 - count))


FEWEST_SEEDS = next(n for n in range(1, 99) if smallest_p(n) < SIGNIFICANCE)


def holm(values: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction of p-values for how many were looked at."""
    adjusted, highest = {}, 0.0
    for position, name in enumerate(sorted(values, key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - position) * values[name]))
        adjusted[name] = highest
    return {name: adjusted[name] for name in values}
