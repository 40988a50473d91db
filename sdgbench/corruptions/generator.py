"""CIFAR-10-C's 19 corruptions at 5 severities, from Hendrycks and Dietterich (ICLR 2019).

The constants are those of the 32x32 data set. The released files were made without a seed, so
this does not reproduce them bit by bit: the corruptions are the same, the random numbers are not.
Prefer the released files where numbers are to be compared with published ones.
"""

from functools import partial

import numpy as np

from sdgbench.corruptions import blur, digital, noise, spatter, weather
from sdgbench.corruptions.common import Corruption
from sdgbench.corruptions.frost import FrostOverlays
from sdgbench.corruptions.names import ALL_19, SEVERITIES
from sdgbench.corruptions.rng import Draws
from sdgbench.errors import UserError, unknown

_CORRUPTIONS: dict[str, Corruption] = {
    **noise.CORRUPTIONS,
    **blur.CORRUPTIONS,
    **weather.CORRUPTIONS,
    **digital.CORRUPTIONS,
    **spatter.CORRUPTIONS,
}


def corrupt(
    images: np.ndarray,
    name: str,
    severity: int,
    *,
    seed: int = 0,
    indices: np.ndarray | None = None,
    frost: FrostOverlays | None = None,
) -> np.ndarray:
    """Corrupt uint8 images (N, H, W, 3) of 32x32 or more; returns new ones of the same shape.

    All randomness derives from ``seed``, ``name``, ``severity`` and each image's position in its
    data set, ``indices`` (0 to N-1 if not given), so batches and their order do not matter.
    ``frost`` are the overlays of the frost corruption, drawn ones if not given.
    """
    if name not in _CORRUPTIONS:
        raise unknown("corruption", name, ALL_19)
    if severity not in SEVERITIES:
        raise unknown("severity", str(severity), map(str, SEVERITIES))
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise ValueError(f"Need uint8 (N, H, W, 3), not {images.dtype} {images.shape}.")
    count, height, width, _ = images.shape
    if min(height, width) < 32:
        raise UserError(f"Corruptions need images of 32x32 or more, not {height}x{width}.")
    positions = np.arange(count) if indices is None else np.asarray(indices)
    if positions.shape != (count,):
        raise ValueError(f"Need one index per image: {count}, not {positions.shape}.")

    entry = _CORRUPTIONS[name]
    apply = partial(weather.frost, overlays=frost) if name == "frost" else entry.apply
    result = np.empty(images.shape, np.uint8)
    batch = max(1, entry.batch * 32 * 32 // (height * width))
    for start in range(0, count, batch):
        block = slice(start, start + batch)
        draws = Draws(seed, str(name), int(severity), positions[block])
        result[block] = apply(images[block], entry.levels[int(severity) - 1], draws)
    return result
