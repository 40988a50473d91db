"""AdvST: its plan and ring, its losses, its ascent, its reduction to ERM."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import RECIPE, assert_same_weights, erm, make, trainer, watch, weights_at_each_step

from sdgbench import registry
from sdgbench.method import Read
from sdgbench.methods import _advst_ops as ops
from sdgbench.methods import advst
from sdgbench.methods._ascent import frozen

ADVST = registry.get("method", "advst").load()
QUICKLY = {"domains": 2, "ascent_steps": 2, "ascent_batch": 16}


def built(folder, recipe=RECIPE, **params):
    return make(ADVST, folder, recipe, params=ADVST.Params(**(QUICKLY | params)))


def batch(count=6):
    torch.manual_seed(3)
    return torch.rand(count, 3, 32, 32), torch.arange(count) % 3


def test_without_domains_it_is_erm_step_by_step(tmp_path):
    recipe = replace(RECIPE, network="wrn-10-1", optimiser="sgd", lr=0.05, augment="crop-flip")
    ours = weights_at_each_step(built(tmp_path / "a", recipe, domains=0), tmp_path / "a")
    plain = weights_at_each_step(make(erm(), tmp_path / "b", recipe), tmp_path / "b")
    assert len(ours) == len(plain) == 12
    for first, second in zip(ours, plain, strict=True):
        assert_same_weights(first, second)


def test_the_plan_on_digits(tmp_path):
    """A pass over the growing set, then a domain of the source's size in batches of 256."""
    method = make(ADVST, tmp_path, replace(RECIPE, steps=10_000, batch=32))
    object.__setattr__(method._context, "source_size", 10_000)
    plan = method.plan()
    train = [phase for phase in plan if phase.name == "train"]
    assert [phase.steps for phase in train[:6]] == [312, 625, 937, 1250, 1562, 1666]
    assert sum(phase.steps for phase in train) == 10_000
    assert {p.reads[0].what for p in plan if p.name == "generate"} == {"source"}
    assert {(p.reads[0].images, p.steps) for p in plan if p.name == "generate"} == {(10_000, 40)}
    n = 10_000
    assert train[0].reads == (Read("source+pool", only=()),)
    kept = tuple((k * n, (k + 1) * n) for k in range(2, 7))
    assert train[7].reads == (Read("source+pool", only=kept),)  # the newest five of seven


def test_the_published_recipe_is_50_passes(tmp_path):
    method = make(ADVST, tmp_path, replace(RECIPE, steps=89_061, batch=32))
    object.__setattr__(method._context, "source_size", 10_000)
    steps = [phase.steps for phase in method.plan() if phase.name == "train"]
    assert steps == [312, 625, 937, 1250, 1562, *45 * [1875]]
    assert ADVST.recipes["digits"]["steps"] == sum(steps)


def test_compat_overwrites_the_source_and_keeps_the_order(tmp_path):
    """Six slots: item 6 goes to slot 0, where the source was, item 7 to slot 1."""
    method = built(tmp_path, domains=5, compat=True)
    n = method.domain_size()
    at = lambda k: ((k - 1) * n, k * n)  # noqa: E731
    ordered = {"shuffle": False}
    assert method.training_set(0) == Read("source+pool", only=(), **ordered)
    assert method.training_set(2) == Read("source+pool", only=(at(1), at(2)), **ordered)
    first = tuple(at(k) for k in (6, 1, 2, 3, 4, 5))
    assert method.training_set(6) == Read("pool", only=first, **ordered)
    second = tuple(at(k) for k in (6, 7, 2, 3, 4, 5))
    assert method.training_set(7) == Read("pool", only=second, **ordered)


def test_a_short_training_makes_all_domains(tmp_path):
    method = built(tmp_path)
    sizes = []
    watch(method, "begin", lambda phase: sizes.append((phase.name, len(method.pool))))
    trainer(method, tmp_path).run()
    assert sizes == [("train", 0), ("generate", 0), ("train", 40), ("generate", 40), ("train", 80)]
    assert [phase.steps for phase in method.plan()] == [4, 3, 4, 3, 4]


def test_the_training_loss_by_hand(tmp_path):
    """Cross-entropy + contrast - 10 * entropy."""
    method = built(tmp_path, contrast=0.5)
    x, y = batch()
    with torch.no_grad():
        z = method.network.features(x)
        log_p = method.network.head(z).log_softmax(1).double().numpy()
        u = torch.nn.functional.normalize(method.projection(z), dim=1).double().numpy()
    loss = -np.mean([log_p[i, y[i]] for i in range(6)])
    entropy = np.mean(-(np.exp(log_p) * log_p).sum(1))
    contrast = 0.0
    for i in range(6):
        others = [j for j in range(6) if j != i]
        normaliser = np.log(sum(np.exp(u[i] @ u[j] / 0.07) for j in others))
        positives = [j for j in others if y[j] == y[i]]
        contrast -= np.mean([u[i] @ u[j] / 0.07 - normaliser for j in positives]) / 6
    found = method.train_step(x, y).item()
    assert found == pytest.approx(loss + 0.5 * contrast - 10 * entropy, rel=1e-4)


@pytest.mark.parametrize("eta", [0.0, 10.0])
def test_the_objective_by_hand(eta, tmp_path):
    method = built(tmp_path, eta=eta)
    x, y = batch()
    other = torch.rand(6, 3, 32, 32)
    with torch.no_grad():
        z, z_plus = method.network.features(x), method.network.features(other)
        found = method.objective(other, z, y).item()
        log_p = method.network.head(z_plus).log_softmax(1)
    expected = 0.0
    for i in range(6):
        distance = (z[i] - z_plus[i]).square().sum() / z.shape[1]
        uncertainty = -(log_p[i].exp() * log_p[i]).sum()
        expected += (-log_p[i, y[i]] - 100 * distance + eta * uncertainty).item() / 6
    assert found == pytest.approx(expected, rel=1e-4)


def climb(method, names, x, y):
    torch.manual_seed(0)
    chain = [ops.draw_link(name, len(x), x.device) for name in names]
    start = [link.values.detach().clone() for link in chain]
    with frozen(method.network):
        z = method.network.features(x)
        before = method.objective(ops.apply(chain, x), z, y).item()
        method.ascend(chain, x, y)
        after = method.objective(ops.apply(chain, x), z, y).item()
    return before, after, start, [link.values.detach() for link in chain]


def test_the_ascent_raises_its_objective(tmp_path):
    method = built(tmp_path, rate=0.0003, ascent_steps=10, tolerance=0.0)
    x, y = batch()
    for names in (["contrast"], ["hsv", "scale"], ["invert", "translate"]):
        before, after, *_ = climb(method, names, x, y)
        assert after > before


def test_one_ascent_step_is_rmsprop(tmp_path):
    """The first step of RMSprop divides the gradient by a tenth of its size."""
    method = built(tmp_path, rate=0.001, ascent_steps=1)
    x, y = batch()
    _, _, (start,), (end,) = climb(method, ["contrast"], x, y)
    assert (end - start).abs().flatten().tolist() == pytest.approx([0.01] * 6, rel=1e-2)


def test_the_ascent_stops_when_its_objective_changes_little(tmp_path):
    method = built(tmp_path, rate=0.001, ascent_steps=20, tolerance=1e9)
    x, y = batch()
    _, _, (start,), (end,) = climb(method, ["contrast"], x, y)
    assert (end - start).abs().max() < 0.011  # one step; the second evaluation ended it


def test_values_stay_in_their_range(tmp_path):
    method = built(tmp_path, rate=50.0, ascent_steps=3, tolerance=0.0)
    x, y = batch()
    *_, (rotation, translation) = climb(method, ["rotate", "translate"], x, y)
    assert ((rotation >= 0.01) & (rotation <= 1)).all()
    assert (translation.abs() <= 0.1 + 1e-6).all()


def test_a_batch_shares_a_chain_and_labels_are_kept(tmp_path, monkeypatch):
    method = built(tmp_path)
    chains = []
    draw = advst.draw_chain
    monkeypatch.setattr(advst, "draw_chain", lambda n: chains.append(draw(n)) or chains[-1])
    x, y = batch()
    for _ in range(2):
        method.generate_step(x, y)
    assert len(chains) == 2
    _, labels = method.pool.gather(np.arange(12))
    assert labels.tolist() == 2 * y.tolist()
    assert all(weight.grad is None for weight in method.network.parameters())


def test_a_chain_without_values_is_applied_as_it_is(tmp_path, monkeypatch):
    method = built(tmp_path)
    monkeypatch.setattr(advst, "draw_chain", lambda n: ["equalize"])
    x, y = batch()
    method.generate_step(x, y)
    images, _ = method.pool.gather(np.arange(6))
    torch.testing.assert_close(images, ops.equalize(x, x, x))


def test_the_variant_with_entropy_has_the_published_weight():
    variant = registry.get("method", "advst-me").load()
    assert (ADVST.Params().eta, variant.Params().eta) == (0, 10)
