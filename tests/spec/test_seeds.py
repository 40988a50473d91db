"""Seeds of steps: the same numbers whichever way they are derived."""

import random

import numpy as np
import torch

from sdgbench.spec.seeds import Seeder, derive, seed_everything


def draws():
    """A number of each generator, and one that Python keeps half of for the next call."""
    return torch.rand(1).item(), np.random.rand(), random.random(), random.gauss(0, 1)


def states():
    """The whole state of each generator."""
    name, words, *rest = np.random.get_state()
    return torch.get_rng_state().tolist(), (name, words.tolist(), *rest), random.getstate()


def test_a_seeder_seeds_as_seed_everything_does():
    seed_step = Seeder(3, "method", 2)
    for step in (0, 9, 10, 12345):
        seed_everything(3, "method", 2, step)
        expected = draws()
        seed_step(step)
        assert draws() == expected
    assert Seeder(3)(0) is None
    assert torch.initial_seed() == derive(3, 0)


def test_seeding_is_that_of_the_libraries():
    """Without their checks, but to the same state; records depend on it."""
    value = derive(7, "begin", 1)
    random.gauss(0, 1), np.random.randn()  # leave a second number, which seeding must drop
    seed_everything(7, "begin", 1)
    ours = states()
    torch.manual_seed(value)
    np.random.seed(value % 2**32)
    random.seed(value)
    assert states() == ours
