"""Fine-tuning itself, of every method."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from helpers import RECIPE, assert_same_weights, make, toy_domain
from rich.console import Console

from sdgbench import registry
from sdgbench.adapt.loop import AdaptOptions, adapt_all
from sdgbench.adapt.tune import fine_tune
from sdgbench.errors import Interrupted, UserError
from sdgbench.records.adaptations import Asked
from sdgbench.task import Classification
from sdgbench.training import checkpoint
from sdgbench.training.device import Device
from sdgbench.training.streaming import open_images

METHODS = [
    name
    for name, entry in registry.entries("method").items()
    if entry.load().skip(Classification(10)) is None
]


def asked(**changes):
    values = {
        "run": "r",
        "target": "toy",
        "drawn_from": "train",
        "held_out": 0,
        "shots": 4,
        "draw": 0,
        "iterations": 3,
        "lr": 1e-3,
        "batch": 16,
    }
    return Asked(**{**values, **changes})


def images(count=40):
    return open_images(toy_domain(count=count), Device("cpu"))


def everything(method):
    return {
        f"{name}.{key}": tensor.clone()
        for name, module in checkpoint.modules(method).items()
        for key, tensor in module.state_dict().items()
    }


@pytest.mark.parametrize("name", METHODS)
def test_every_method_adapts_what_it_predicts_with_and_nothing_else(name, tmp_path):
    method = make(registry.get("method", name).load(), tmp_path)
    parts = {id(w) for module in method.inference_modules() for w in module.parameters()}
    used = {
        f"{part}.{key}"
        for part, module in checkpoint.modules(method).items()
        for key, weight in module.named_parameters()
        if id(weight) in parts
    }
    if name == "gud-ensemble":
        method.divided = True  # as it is after training
    before = everything(method)
    fine_tune(method, images(), asked(), seed=0)
    after = everything(method)
    changed = {key for key in before if not torch.equal(before[key], after[key])}
    assert changed == used
    assert all(torch.isfinite(tensor).all() for tensor in after.values())


def test_the_ensemble_adapts_each_member_by_itself(tmp_path):
    """A member that never decides learns as it would alone."""
    cls = registry.get("method", "gud-ensemble").load()
    method = make(cls, tmp_path, params=cls.Params(members=2, K=1))
    method.divided = True
    other = method.others[0]
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(0.3)
    alone = make(registry.get("method", "erm").load(), tmp_path)
    alone.network.load_state_dict(other.state_dict())
    for one in (method, alone):
        fine_tune(one, images(), asked(), seed=0)
    assert_same_weights(dict(alone.network.state_dict()), dict(method.others[0].state_dict()))


def test_it_is_adam_on_the_cross_entropy_of_shuffled_batches(tmp_path):
    """The same weights as a loop written by hand."""
    from sdgbench.spec.seeds import permutation

    erm = registry.get("method", "erm").load()
    method, twin = make(erm, tmp_path / "a"), make(erm, tmp_path / "b")
    fine_tune(method, images(), asked(iterations=5), seed=7)
    domain = toy_domain()
    x, y = torch.from_numpy(domain.images) / 255.0, torch.from_numpy(domain.labels).long()
    optimizer = torch.optim.Adam(twin.network.parameters(), 1e-3)
    orders = [permutation(7, 40, "order", "adapt/toy/0/4", epoch) for epoch in (1, 2, 3)]
    batches = [order[start : start + 16] for order in orders for start in (0, 16)]  # 8 are dropped
    for batch in batches[:5]:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(twin.network(x[batch]), y[batch]).backward()
        optimizer.step()
    assert_same_weights(dict(twin.network.state_dict()), dict(method.network.state_dict()))


def test_a_learning_rate_of_0_changes_nothing(tmp_path):
    method = make(registry.get("method", "erm").load(), tmp_path)
    before = everything(method)
    fine_tune(method, images(), asked(lr=0.0), seed=0)
    assert_same_weights(before, everything(method))


def test_fewer_images_than_a_batch_are_one_batch(tmp_path):
    method = make(registry.get("method", "erm").load(), tmp_path)
    sizes = []
    step = type(method).adapt_step

    class Watched(type(method)):
        def adapt_step(self, x, y, optimizer):
            sizes.append(len(x))
            return step(self, x, y, optimizer)

    fine_tune(make(Watched, tmp_path), images(10), asked(), seed=0)
    assert sizes == [10, 10, 10]


def test_a_stop_is_heard_at_each_step(tmp_path):
    method = make(registry.get("method", "erm").load(), tmp_path)
    seen = []
    with pytest.raises(Interrupted, match="4 shots, draw 0 of toy"):
        fine_tune(
            method,
            images(),
            asked(),
            0,
            lambda step, loss: seen.append(step),
            lambda: len(seen) == 2,
        )
    assert seen == [1, 2]


def test_a_method_that_predicts_without_gradient_is_told_what_to_write(tmp_path):
    class Closed(registry.get("method", "erm").load()):
        name = "closed"

        @torch.no_grad()
        def predict(self, x):
            return self.network(x)

    with pytest.raises(UserError, match='"closed" predicts without gradient.*adapt_step'):
        fine_tune(make(Closed, tmp_path), images(), asked(), seed=0)


def test_the_recipe_is_not_followed_beyond_its_end(tmp_path):
    """Adaptation leaves the schedule alone: its learning rate is its own."""
    method = make(registry.get("method", "erm").load(), tmp_path, RECIPE)
    fine_tune(method, images(), asked(), seed=0)
    assert method.updates == 0
    assert np.isclose(method.learning_rate(), RECIPE.lr)


def test_adaptation_computes_with_the_settings_of_the_device(monkeypatch, tmp_path):
    """On a GPU they switch TF32 off, which results in float32 must be made without."""
    device, events = Device("cpu"), []

    @contextmanager
    def settings(warn):
        events.append("entered")
        yield
        events.append("left")

    def find():
        assert events == ["entered"]
        raise UserError("no such run")

    monkeypatch.setattr(device, "settings", settings)
    options = AdaptOptions(["svhn"], [0], 1, 1, 1e-4, 1, tmp_path, tmp_path)
    (ending,) = adapt_all([find], options, device, Console(quiet=True))
    assert ending.remark == "no such run"
    assert events == ["entered", "left"]
