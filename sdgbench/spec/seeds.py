"""Named random streams, all derived from the run's one seed.

Nothing here keeps state: what is drawn depends on the seed and on the name of the stream (such as
purpose, phase and step), never on what was drawn before. So a resumed run draws what an
uninterrupted one would, and all methods of one seed see the same initial weights and batches.
"""

import hashlib
import random
from typing import Any

import numpy as np
import torch


def derive(seed: int, *stream: Any) -> int:
    """Hash the run's seed and a stream's name into a 63-bit seed."""
    text = repr((int(seed), *stream)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def permutation(seed: int, size: int, *stream: Any) -> np.ndarray:
    """A random order of the numbers below ``size``."""
    return np.random.default_rng(derive(seed, *stream)).permutation(size)


def seed_everything(seed: int, *stream: Any) -> None:
    """Seed torch, NumPy and Python, so that any way of drawing a number is reproducible."""
    _seed_all(derive(seed, *stream))


class Seeder:
    """``Seeder(seed, *stream)(n)`` is ``seed_everything(seed, *stream, n)`` in half the time.

    For loops: what all steps of a stream share is hashed once.
    """

    def __init__(self, seed: int, *stream: Any) -> None:
        text = repr((int(seed), *stream, 0)).removesuffix("0)").encode()
        self._hash = hashlib.blake2b(text, digest_size=8)

    def __call__(self, number: int) -> None:
        """Seed all generators for this step."""
        digest = self._hash.copy()
        digest.update(b"%d)" % number)
        _seed_all(int.from_bytes(digest.digest(), "little") >> 1)


_PYTHON: random.Random = random.seed.__self__  # type: ignore[attr-defined]  # the global one
_HAS_MPS = torch.backends.mps.is_available()


def _seed_all(value: int) -> None:
    # All of them, each time: a generator cannot say that somebody is about to draw from it.
    # Not torch.manual_seed: without a GPU it queues a call and a stack trace each time.
    torch.default_generator.manual_seed(value)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(value)
    if _HAS_MPS:
        torch.mps.manual_seed(value)
    np.random.seed(value % 2**32)
    # What random.seed does with an integer, without its checks.
    super(random.Random, _PYTHON).seed(value)
    _PYTHON.gauss_next = None  # type: ignore[attr-defined]
