"""What the parts of GUD and M-ADA cost, against the least that they could."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from helpers import RECIPE, erm, make

from sdgbench import registry
from sdgbench.methods._ascent import frozen

DIGITS = replace(RECIPE, network="convnet", lr=1e-4, batch=32)


def batch(count=32):
    return torch.rand(count, 3, 32, 32), torch.randint(0, 10, (count,))


@pytest.mark.parametrize("network", ["convnet", "convnet-32", "wrn-16-1"])
def test_an_exact_meta_step_over_an_erm_step(network, ratio, tmp_path):
    recipe = replace(DIGITS, network=network)
    mada = make(registry.get("method", "mada").load(), tmp_path / "a", recipe)
    plain = make(erm(), tmp_path / "b", recipe)
    source, augmented = batch(), batch()
    ratio(
        lambda: mada.train_step(*source, *augmented), lambda: plain.train_step(*source), rounds=21
    )


def test_a_meta_step_over_one_with_torchs_second_derivative_of_batch_norm(
    ratio, tmp_path, monkeypatch
):
    recipe = replace(DIGITS, network="wrn-16-1")
    mada = make(registry.get("method", "mada").load(), tmp_path, recipe)
    source, augmented = batch(), batch()

    def before():
        with monkeypatch.context() as patched:
            patched.setattr("sdgbench.method.second_order", nullcontext)
            mada.train_step(*source, *augmented)

    ratio(lambda: mada.train_step(*source, *augmented), before, rounds=21)


def test_an_ascent_step_over_forward_and_input_backward(ratio, tmp_path):
    """The same network and WAE, once forward and backward to the pixels, nothing else."""
    mada = make(registry.get("method", "mada").load(), tmp_path, DIGITS)
    object.__setattr__(mada.params, "T_adv", 10)
    x, y = batch()

    def least():
        for _ in range(10):
            start = x.clone().requires_grad_()
            logits, rebuilt = mada.network(start), mada.wae(start)
            # Ready cotangents: no loss is computed here.
            torch.autograd.grad(
                [logits, rebuilt], start, [torch.ones_like(logits), rebuilt.detach()]
            )

    def ascent():
        mada.ascend(x, mada.objective(x, y))

    with frozen(mada.network, mada.wae):
        ratio(ascent, least, rounds=9)


def test_a_wae_step_over_an_erm_step(ratio, tmp_path):
    mada = make(registry.get("method", "mada").load(), tmp_path / "a", DIGITS)
    plain = make(erm(), tmp_path / "b", DIGITS)
    x, y = batch()
    ratio(lambda: mada.wae_step(x, y), lambda: plain.train_step(x, y), rounds=21)


# Goals: randconv 3.2, augmix 3.6 (three forward passes each), trivialaugment 1.3.
@pytest.mark.parametrize(
    "name",
    [
        *("ccsa", "dsne", "jigen", "randconv", "rc-img", "pro-randconv", "augmix"),
        *("trivialaugment", "randaugment", "advst", "l2d"),
    ],
)
def test_other_methods_over_an_erm_step(name, ratio, tmp_path):
    method = make(registry.get("method", name).load(), tmp_path / "a", DIGITS)
    plain = make(erm(), tmp_path / "b", DIGITS)
    reads = len(method.plan()[0].reads)
    batches = [tensor for _ in range(reads) for tensor in batch()]
    ratio(lambda: method.train_step(*batches), lambda: plain.train_step(*batches[:2]), rounds=15)


@pytest.mark.parametrize("name", ["mixstyle", "dsu"])
@pytest.mark.parametrize("network", ["convnet", "wrn-16-1"])
def test_changed_statistics_over_an_erm_step(name, network, ratio, tmp_path):
    """Two stages in every step; by default each changes in half of the steps. Goal: 1.1."""
    recipe = replace(DIGITS, network=network)
    cls = registry.get("method", name).load()
    method = make(cls, tmp_path / "a", recipe, params=cls.Params(probability=1.0))
    plain = make(erm(), tmp_path / "b", recipe)
    x, y = batch()
    ratio(lambda: method.train_step(x, y), lambda: plain.train_step(x, y), rounds=31)


@pytest.mark.parametrize("steps", [0, 10])
def test_alt_over_an_erm_step(steps, ratio, tmp_path):
    """Three views, and ten ascent steps of the transformation through the task network."""
    cls = registry.get("method", "alt").load()
    params = cls.Params(warmup=0.0, ascent_steps=steps)
    method = make(cls, tmp_path / "a", DIGITS, params=params)
    plain = make(erm(), tmp_path / "b", DIGITS)
    x, y = batch()
    ratio(lambda: method.train_step(x, y), lambda: plain.train_step(x, y), rounds=9)
