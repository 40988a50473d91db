"""Random numbers by counting: each one is a hash of where it is used, so there is no state.

A number depends on the seed, the corruption, its severity, the image's position in the data set,
the stream and the position within the stream. So it does not matter in which batches, in which
order or how often images are corrupted, and whole batches are drawn at once.
"""

import copy
import math

import numpy as np

from sdgbench.spec.seeds import derive

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the step of SplitMix64's counter


def mix(values: np.ndarray) -> np.ndarray:
    """Scramble 64-bit words in place (the finaliser of SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values ^= values >> np.uint64(shift)
        values *= np.uint64(factor)
    values ^= values >> np.uint64(31)
    return values


class Draws:
    """The random numbers of some images under one corruption; one row per image."""

    def __init__(self, seed: int, name: str, severity: int, indices: np.ndarray):
        key = np.uint64(derive(seed, "corruption", name, severity))
        starts = np.asarray(indices).astype(np.uint64)
        starts *= GOLDEN
        self._starts = mix(mix(starts + key) + key)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, rows: slice) -> "Draws":
        """Return the same numbers for a slice of the images."""
        draws = copy.copy(self)
        draws._starts = self._starts[rows]
        return draws

    def bits(self, count: int, stream: int = 0) -> np.ndarray:
        """Return ``count`` random 64-bit words per image."""
        counter = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(stream << 32)
        counter *= GOLDEN
        return mix(self._starts[:, None] + counter)

    def words(self, count: int, stream: int = 0) -> np.ndarray:
        """Return ``count`` random 32-bit words per image."""
        return self.bits((count + 1) // 2, stream).view(np.uint32)[:, :count]

    def octets(self, count: int, stream: int = 0) -> np.ndarray:
        """Return ``count`` random bytes per image."""
        return self.bits((count + 7) // 8, stream).view(np.uint8)[:, :count]

    def uniform(
        self, shape: tuple[int, ...] = (), low: float = 0.0, high: float = 1.0, stream: int = 0
    ) -> np.ndarray:
        """Return float64 numbers between the bounds, of the given shape per image."""
        values = self.words(math.prod(shape), stream).astype(np.float64)
        values += 0.5  # excludes both bounds
        values *= (high - low) * 2.0**-32
        values += low
        return values.reshape(len(self), *shape)

    def normal(
        self, shape: tuple[int, ...], mean: float = 0.0, std: float = 1.0, stream: int = 0
    ) -> np.ndarray:
        """Return float32 normal numbers of the given shape per image."""
        count = math.prod(shape)
        half = (count + 1) // 2
        # Box and Muller: a radius and an angle make two normal numbers.
        unit = self.words(2 * half, stream).astype(np.float32)
        unit += np.float32(0.5)
        unit *= np.float32(2.0**-32)
        radius = np.sqrt(np.float32(-2) * np.log(unit[:, :half]))
        angle = unit[:, half:] * np.float32(2 * math.pi)
        values = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        values *= np.float32(std)
        values += np.float32(mean)
        return values[:, :count].reshape(len(self), *shape)
