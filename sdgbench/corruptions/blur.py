"""Blurs: Gaussian, glass, defocus, motion and zoom."""

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from scipy import ndimage, sparse

from sdgbench.corruptions.common import Corruption, gauss, to_bytes
from sdgbench.corruptions.rng import Draws


def gaussian_blur(images: np.ndarray, sigma: float, draws: Draws) -> np.ndarray:
    """Blur by a Gaussian."""
    return to_bytes(gauss(images / 255.0, sigma))


def glass_blur(images: np.ndarray, level: tuple[float, int], draws: Draws) -> np.ndarray:
    """Shift each pixel by up to one, between two Gaussian blurs."""
    steps = draws.octets(images.shape[1] * images.shape[2]).reshape(images.shape[:3])
    return glass(images, level[0], [steps >> 2 * turn for turn in range(level[1])])


def glass(images: np.ndarray, sigma: float, turns: list[np.ndarray]) -> np.ndarray:
    """Blur by glass; in each turn, a pixel looks up if bit 1 of its step is set, left if bit 0.

    The original means to swap pixels from the last one backwards, but its swap assigns views of
    one array, so both pixels end with the value of the one above or to the left. That one has
    not been written yet in this turn, so a turn is a single look-up for all pixels at once.
    """
    count, height, width, _ = images.shape
    pixels = to_bytes(gauss(images / 255.0, sigma)).reshape(-1, 3)
    here = np.arange(count * height * width, dtype=np.int32).reshape(count, height, width)
    for steps in turns:
        source = here.copy()
        moving = steps[:, 2:, 2:].astype(np.int32)  # the first two rows and columns stay
        source[:, 2:, 2:] -= (moving >> 1 & 1) * width + (moving & 1)
        pixels = pixels.take(source.ravel(), axis=0)
    return to_bytes(gauss(pixels.reshape(images.shape) / 255.0, sigma))


@lru_cache
def defocus_kernel(radius: float, alias: float) -> np.ndarray:
    """Return a disc of 17x17 whose rim is softened by a 3x3 Gaussian, in single precision."""
    grid = np.arange(-8, 9)
    disc = (grid[:, None] ** 2 + grid**2 <= radius**2).astype(np.float32)
    disc /= disc.sum()
    side = math.exp(-1 / (2 * alias**2))
    taps = np.array([side, 1, side]) / (1 + 2 * side)
    for axis in (1, 0):
        disc = ndimage.correlate1d(disc, taps.astype(np.float32), axis=axis, output=np.float32)
    return disc


def defocus_blur(images: np.ndarray, level: tuple[float, float], draws: Draws) -> np.ndarray:
    """Correlate with a soft disc; the border is mirrored without repeating its pixels."""
    kernel = defocus_kernel(*level)
    used = np.argwhere(kernel > 1e-12)
    reach = int(abs(used - 8).max())
    count, height, width, _ = images.shape
    padded = np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="reflect")
    source = torch.from_numpy(padded.reshape(count, height + 2 * reach, -1) / 255.0)
    total = torch.zeros(count, height, width * 3, dtype=torch.float64)
    for y, x in used:
        top, left = y - 8 + reach, x - 8 + reach
        window = source[:, top : top + height, left * 3 : (left + width) * 3]
        total.add_(window, alpha=float(kernel[y, x]))
    return to_bytes(total.numpy()).reshape(images.shape)


def motion_blur(images: np.ndarray, level: tuple[float, float], draws: Draws) -> np.ndarray:
    """Blur along a line of random direction, 45 degrees around the horizontal."""
    return motion(images, *level, draws.uniform(low=-45, high=45))


def motion(images: np.ndarray, radius: float, sigma: float, angles: np.ndarray) -> np.ndarray:
    """Blur bytes (N, H, W, C) along lines at the angles (degrees), as ImageMagick does.

    The weights fall off to one side only; the offsets are whole pixels; outside the image its
    border is repeated; the result is rounded.
    """
    count, height, width, channels = images.shape
    steps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    steps = steps[weights > 1e-9]  # the rest cannot change a byte
    direction = np.radians(angles)[:, None]
    dx = np.ceil(steps * np.cos(direction) - 0.5).astype(np.int64)
    dy = np.ceil(steps * np.sin(direction) - 0.5).astype(np.int64)

    # Images with the same offsets are shifted together. Neighbours in angle are: sort by it.
    order = np.argsort(angles, kind="stable")
    offsets = np.concatenate([dx, dy], axis=1)[order]
    changes = (offsets[1:] != offsets[:-1]).any(axis=1)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), count]
    reach = len(steps) - 1
    border = ((0, 0), (reach, reach), (reach, reach), (0, 0))
    padded = torch.from_numpy(np.pad(images[order], border, mode="edge"))
    padded = padded.reshape(count, height + 2 * reach, -1)
    result = np.empty_like(images)
    for start, stop in pairwise(starts):
        source = padded[start:stop].float()
        total = torch.full((stop - start, height, width * channels), 0.5)  # to round, not to cut
        tops, lefts = (reach + offsets[start].reshape(2, -1)[::-1]).tolist()
        for top, left, weight in zip(tops, lefts, weights.tolist(), strict=False):
            window = source[:, top : top + height, left * channels : (left + width) * channels]
            total.add_(window, alpha=weight)
        blurred = total.to(torch.uint8).numpy()
        result[order[start:stop]] = blurred.reshape(-1, height, width, channels)
    return result


@lru_cache(maxsize=128)
def zoom_matrix(size: int, factor: float) -> np.ndarray:
    """Return the matrix that crops the middle of a line, stretches it and trims it to size."""
    crop = math.ceil(size / factor)
    first = (size - crop) // 2
    stretched = ndimage.zoom(np.eye(crop), (factor, 1), order=1)
    trim = (len(stretched) - size) // 2
    matrix = np.zeros((size, size))
    matrix[:, first : first + crop] = stretched[trim : trim + size]
    return matrix


@lru_cache(maxsize=10)
def _zoom_operator(height: int, width: int, top: float) -> sparse.csr_matrix:
    """Return the mean over the image itself and all zooms, as one sparse matrix over pixels."""
    factors = np.arange(1, top, 0.01)  # its float end is the original's: 7, 12, 16, 21, 26 factors
    total = sparse.eye(height * width, format="csr")
    for factor in factors:
        rows = sparse.csr_matrix(zoom_matrix(height, float(factor)))
        total = total + sparse.kron(rows, zoom_matrix(width, float(factor)), format="csr")
    return (total / (len(factors) + 1)).astype(np.float32)


def zoom_blur(images: np.ndarray, top: float, draws: Draws) -> np.ndarray:
    """Average over growing magnifications."""
    count, height, width, _ = images.shape
    pixels = images.reshape(count, height * width, 3).swapaxes(0, 1)
    values = np.ascontiguousarray(pixels, dtype=np.float32).reshape(height * width, -1)
    values /= 255
    blurred = to_bytes(_zoom_operator(height, width, top) @ values)
    return blurred.reshape(height * width, count, 3).swapaxes(0, 1).reshape(images.shape)


CORRUPTIONS = {
    "gaussian_blur": Corruption(gaussian_blur, (0.4, 0.6, 0.7, 0.8, 1.0)),
    "glass_blur": Corruption(glass_blur, ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))),
    "defocus_blur": Corruption(
        defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))
    ),
    "motion_blur": Corruption(
        motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)), batch=2048
    ),
    "zoom_blur": Corruption(zoom_blur, (1.06, 1.11, 1.16, 1.21, 1.26)),
}
