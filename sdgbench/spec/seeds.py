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
    value = derive(seed, *stream)
    # Not torch.manual_seed: without a GPU it queues a call and a stack trace each time.
    torch.default_generator.manual_seed(value)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(value)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(value)
    np.random.seed(value % 2**32)
    random.seed(value)
