"""Pictures to damage: blobs of colour, flat black, white and grey, sharp edges and some texture."""

import numpy as np
from scipy import ndimage

SIZES = [(32, 32), (33, 48), (64, 64)]


def photos(count: int, height: int = 32, width: int = 32, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, height, width, 3))
    values = ndimage.gaussian_filter(values, (0, 3, 3, 0), mode="wrap")
    values += 0.7 * ndimage.gaussian_filter(
        rng.normal(size=(count, height, width, 1)), (0, 2, 2, 0), mode="wrap"
    )
    values = 120 + 60 * values / values.std() + rng.normal(0, 4, values.shape)
    for image in values:
        for colour in (0, 255, rng.integers(30, 220), rng.integers(0, 256, 3)):
            top, left = rng.integers(0, (height - 8, width - 8))
            image[top : top + rng.integers(3, 9), left : left + rng.integers(3, 9)] = colour
    return values.clip(0, 255).astype(np.uint8)


def change(before: np.ndarray, after: np.ndarray) -> float:
    """Mean absolute difference in grey levels."""
    return float(np.abs(before.astype(int) - after).mean())


def assert_near(
    corrupted: np.ndarray, expected: np.ndarray, share: float = 0.0, most: int = 1
) -> None:
    """At most this share of the values may differ, and by no more than this many levels."""
    assert corrupted.dtype == expected.dtype == np.uint8
    assert corrupted.shape == expected.shape
    off = np.abs(corrupted.astype(int) - expected)
    assert off.max() <= most
    assert (off > 0).mean() <= share
