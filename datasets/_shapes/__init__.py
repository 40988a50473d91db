"""The clean images of `shapes10c`, a small embedded twin of CIFAR-10.

Toys of ten kinds, in many builds, poses, colours and materials, in varied surroundings. As in
CIFAR-10, neither colour nor outline alone gives a class away: every class comes in every colour,
each prefers some surfaces but is met in all of them, and much of what tells two classes apart
(legs, windows, fins, masts) is one or two pixels wide. All randomness comes from the generator
that is passed in, so the same generator state gives the same images.
"""

import numpy as np
from numpy.random import Generator

from sdgbench.datasets._shapes.drawings import CLASSES, SIZE
from sdgbench.datasets._shapes.photographs import noise_tiles, photograph

__all__ = ["CLASSES", "render"]

CHUNK = 100  # images composed at once: enough to vectorise over, small enough for the cache


def render(count: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Balanced, shuffled images (count, 3, 32, 32) of uint8, and their labels."""
    labels = rng.permutation(np.arange(count) % len(CLASSES)).astype(np.uint8)
    images = np.empty((count, 3, SIZE, SIZE), dtype=np.uint8)
    tiles = noise_tiles(rng)
    for start in range(0, count, CHUNK):
        images[start : start + CHUNK] = photograph(labels[start : start + CHUNK], tiles, rng)
    return images, labels
