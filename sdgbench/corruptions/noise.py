"""Noise on single values: Gaussian, shot, impulse and speckle.

A value has 256 levels before and after, so each noise is exactly a 256x256 matrix: the chance of
every level to become every other one. Drawing from its rows by Walker's alias method costs one
look-up per value, whatever the distribution.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from scipy.special import ndtr
from scipy.stats import poisson

from sdgbench.corruptions.common import Corruption
from sdgbench.corruptions.rng import Draws

LEVELS = np.arange(256)
FRACTION_BITS = 24


def gaussian_matrix(sigma: float) -> np.ndarray:
    """Return the chances under x + n with n ~ N(0, sigma)."""
    return _normal_matrix(np.full(256, 255 * sigma))


def speckle_matrix(sigma: float) -> np.ndarray:
    """Return the chances under x + x * n with n ~ N(0, sigma)."""
    return _normal_matrix(LEVELS * sigma)


def _normal_matrix(spread: np.ndarray) -> np.ndarray:
    # Level j takes [j, j + 1), since results are cut off; clipping gives 0 and 255 the tails.
    bounds = np.arange(1, 256)
    with np.errstate(divide="ignore"):  # black has no speckle: its step is infinitely steep
        below = ndtr((bounds - LEVELS[:, None]) / spread[:, None])
    return np.diff(below, axis=1, prepend=0.0, append=1.0)


def shot_matrix(photons: float) -> np.ndarray:
    """Return the chances under Poisson(x * photons) / photons."""
    most = int(photons + 12 * np.sqrt(photons) + 12)  # beyond lies less than 1e-20
    counts = np.arange(most + 1)
    target = (np.clip(counts / float(photons), 0, 1) * 255).astype(np.uint8)
    chances = poisson.pmf(counts, LEVELS[:, None] / 255 * photons)
    matrix = np.zeros((256, 256))
    np.add.at(matrix.T, target, chances.T)
    return matrix


def impulse_matrix(amount: float) -> np.ndarray:
    """Return the chances of salt and pepper: ``amount`` of the values turn black or white."""
    matrix = np.eye(256) * (1 - amount)
    matrix[:, [0, 255]] += amount / 2
    return matrix


def alias_table(matrix: np.ndarray) -> np.ndarray:
    """Build Walker's table: per row and column a threshold (high bits) and an alias (low byte).

    Draw a column and a fraction, both uniform; stay below the threshold, else go to the alias.
    """
    size = matrix.shape[1]
    scale = 1 << FRACTION_BITS
    table = np.empty(matrix.shape, np.uint32)
    for row, chances in enumerate(matrix):
        left = chances / chances.sum() * size
        alias = np.arange(size)
        poor = [int(column) for column in np.flatnonzero(left < 1)]
        rich = [int(column) for column in np.flatnonzero(left >= 1)]
        while poor and rich:
            receiver, donor = poor.pop(), rich[-1]
            alias[receiver] = donor
            left[donor] -= 1 - left[receiver]
            if left[donor] < 1:
                poor.append(rich.pop())
        # What remains is full but for rounding: it is its own alias, so its threshold is idle.
        threshold = np.minimum(np.rint(left * scale), scale - 1).astype(np.uint32)
        table[row] = threshold << 8 | alias.astype(np.uint32)
    return table


@lru_cache(maxsize=20)
def _table(matrix: Callable[[float], np.ndarray], level: float) -> np.ndarray:
    return alias_table(matrix(level)).ravel()


def sample(values: np.ndarray, table: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Move each byte to a level drawn from its row of the alias table, by one word per byte."""
    column = words & np.uint32(255)
    entry = table[(values.astype(np.uint32) << np.uint32(8)) | column]
    stays = words >> np.uint32(8) < entry >> np.uint32(8)
    return np.where(stays, column.astype(np.uint8), entry.astype(np.uint8))


def _noise(
    images: np.ndarray, level: float, draws: Draws, matrix: Callable[[float], np.ndarray]
) -> np.ndarray:
    values = images.reshape(len(images), -1)
    table = _table(matrix, level)
    return sample(values, table, draws.words(values.shape[1])).reshape(images.shape)


CORRUPTIONS = {
    "gaussian_noise": Corruption(
        partial(_noise, matrix=gaussian_matrix), (0.04, 0.06, 0.08, 0.09, 0.10)
    ),
    "shot_noise": Corruption(partial(_noise, matrix=shot_matrix), (500, 250, 100, 75, 50)),
    "impulse_noise": Corruption(
        partial(_noise, matrix=impulse_matrix), (0.01, 0.02, 0.03, 0.05, 0.07)
    ),
    "speckle_noise": Corruption(
        partial(_noise, matrix=speckle_matrix), (0.06, 0.10, 0.12, 0.16, 0.20)
    ),
}
