"""M-ADA on Digits at the paper's settings against a plain implementation of the same mathematics."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import make
from plain_mada import BATCH, Elsewhere

from sdgbench import registry
from sdgbench.data.domain import Domain
from sdgbench.datasets._recipes import DIGITS
from sdgbench.methods._ascent import frozen
from sdgbench.reporter import Silent
from sdgbench.training.trainer import Trainer

SHARE = 20  # the runs have 1/20 of the length of the paper


@pytest.fixture(scope="module")
def plain():
    with Elsewhere() as process:
        yield process


def images(count):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, count).astype(np.uint8)
    return Domain("digits", rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8), labels)


def mada(folder, count, **params):
    cls = registry.get("method", "mada").load()
    recipe = replace(DIGITS, network="convnet", steps=10_000 // SHARE, validations=0)
    method = make(cls, folder, recipe, params=cls.Params(**params))
    object.__setattr__(method._context, "source_size", count)
    return method


@pytest.mark.parametrize("step", ["meta_step", "train_step"])
def test_a_meta_step_over_a_plain(step, ratio, plain, tmp_path):
    """Over a plain meta step, and over an ERM step with torch's defaults."""
    ours = mada(tmp_path, 40)
    x, y = torch.rand(2, BATCH, 3, 32, 32), torch.randint(0, 10, (2, BATCH))
    batches = [x[0], y[0], x[1], y[1]]
    needed = batches if step == "meta_step" else batches[:2]
    ratio(lambda: ours.train_step(*batches), lambda: plain.call(step, *needed), rounds=21)


def test_the_ascent_over_a_plain_one(ratio, plain, tmp_path):
    """Per image, each with the batch size that it uses."""
    ours = mada(tmp_path, 40, T_adv=5)
    count = ours.params.ascent_batch
    x, y = torch.rand(count, 3, 32, 32), torch.randint(0, 10, (count,))

    def climb():
        with frozen(ours.network, ours.wae):
            ours.ascend(x, ours.objective(x, y))

    def plainly():
        for start in range(0, count, BATCH):
            plain.call("ascend", x[start : start + BATCH], y[start : start + BATCH], 5)

    ratio(climb, plainly, rounds=5)


def test_a_whole_run_over_a_plain_one(ratio, plain, tmp_path):
    """WAE, three domains, exact meta steps: a twentieth of the paper's length."""
    count = 10_000
    domain = images(count)
    batches_of = [(count // BATCH - 1) // (k + 1) // SHARE for k in range(3)]
    folders = iter(range(100))

    def ours():
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        method = mada(folder, count, T_min=100 // SHARE, wae_epochs=20 // SHARE)
        own = [BATCH // (k + 1) for k in range(3)]
        sizes = [(n * o, n * (BATCH - o)) for n, o in zip(batches_of, own, strict=True)]
        # On a class of its own: functions among a method's attributes could not be saved.
        short = {"domain_sizes": lambda self, k: sizes[k]}
        method.__class__ = type("MADA", (type(method),), short)
        Trainer(method, domain, domain.subsample(100), folder, "run", Silent()).run()

    def plainly():
        plain.call("run", domain, 10_000 // SHARE, 100 // SHARE, batches_of)

    ratio(ours, plainly, rounds=1, warm=False)
