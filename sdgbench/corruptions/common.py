"""What the corruptions share: their type, the cast to bytes and the Gaussian filter."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import ndimage

from sdgbench.corruptions.rng import Draws

Apply = Callable[[np.ndarray, Any, Draws], np.ndarray]


@dataclass(frozen=True)
class Corruption:
    """A function that corrupts uint8 images, and its constants for each severity."""

    apply: Apply
    levels: tuple[Any, ...]  # the constants of severities 1 to 5
    batch: int = 64  # images of 32x32 at once; a small batch stays in the processor's cache


def to_bytes(values: np.ndarray) -> np.ndarray:
    """Cast values in [0, 1] to bytes: cut off, not rounded, as the released files were made.

    Overwrites its argument.
    """
    np.clip(values, 0, 1, out=values)
    values *= 255
    return values.astype(np.uint8)


def gauss(values: np.ndarray, sigma: float) -> np.ndarray:
    """Blur axes 1 and 2 by a Gaussian that repeats the border pixels."""
    blurred: np.ndarray = ndimage.gaussian_filter(
        values, sigma, axes=(1, 2), mode="nearest", truncate=4.0
    )
    return blurred
