"""What every registered method must do on every dataset's tiny twin, with no data at all."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
import torch

from sdgbench import checkpoint, registry, settings, spec
from sdgbench.device import Device
from sdgbench.errors import Interrupted
from sdgbench.progress import Silent
from sdgbench.runner import build_method
from sdgbench.train import Trainer

PAIRS = [(m, d) for m in registry.entries("method") for d in registry.entries("dataset")]
pairs = pytest.mark.parametrize(("method_name", "dataset_name"), PAIRS)


class World:
    """One method on one twin, cut to a few steps."""

    def __init__(self, method_name, dataset_name, folder):
        self.spec = spec.resolve(
            method_name, dataset_name, "smoke", 0,
            [("recipe.steps", "6"), ("recipe.epochs", "0"), ("recipe.batch", "4"),
             ("recipe.eval_batch", "16")],
        )  # fmt: skip
        if reason := self.spec.skipped():
            pytest.skip(reason)
        cls = self.spec.dataset_class
        self.twin = cls.tiny(self.spec.build_options(), self.spec.build_recipe())
        self.folder = folder

    def method(self, folder=None):
        source = self.twin.source("train")
        return build_method(
            self.spec, self.twin, Device("cpu"), source, (folder or self.folder) / "pool"
        )

    def train(self, method, folder=None, should_stop=lambda: False):
        folder = folder or self.folder
        folder.mkdir(exist_ok=True, parents=True)
        Trainer(
            method, self.twin.source("train"), self.twin.source("val"), folder, "run", Silent(),
            checkpoint_seconds=1e9, should_stop=should_stop,
        ).run()  # fmt: skip
        return method


def state_of(method):
    return {
        f"{name}.{key}": value
        for name, module in checkpoint.modules(method).items()
        for key, value in module.state_dict().items()
    }


def assert_same(first, second):
    assert first.keys() == second.keys()
    for key in first:
        assert torch.equal(first[key], second[key]), key


@pairs
def test_it_learns_repeatably_and_resumes_anywhere(method_name, dataset_name, tmp_path):
    world = World(method_name, dataset_name, tmp_path)
    start = state_of(world.method())
    trained = state_of(world.train(world.method(tmp_path / "a"), tmp_path / "a"))
    assert any(not torch.equal(start[key], trained[key]) for key in start)
    while True:  # one step per start
        method = world.method(tmp_path / "b")
        try:
            seen = iter([False])
            world.train(method, tmp_path / "b", lambda seen=seen: next(seen, True))
            break
        except Interrupted:
            continue
    assert_same(trained, state_of(method))


@pairs
def test_predictions_are_pure(method_name, dataset_name, tmp_path):
    world = World(method_name, dataset_name, tmp_path)
    method = world.train(world.method())
    for module in checkpoint.modules(method).values():
        module.eval()
    images = torch.from_numpy(world.twin.source("val").images[:12]).float() / 255
    before = {key: value.clone() for key, value in state_of(method).items()}
    with torch.inference_mode():
        whole = method.predict(images)
        single = torch.cat([method.predict(image[None]) for image in images])
        order = torch.randperm(12)
        shuffled = method.predict(images[order])
    assert torch.allclose(whole, single, atol=1e-4)
    assert torch.allclose(whole[order], shuffled, atol=1e-4)
    assert whole.shape[1] == world.twin.task.classes
    assert_same(before, state_of(method))


@pairs
def test_the_plan_is_a_pure_function(method_name, dataset_name, tmp_path):
    world = World(method_name, dataset_name, tmp_path)
    method = world.method()
    plan = list(method.plan())
    assert plan == list(method.plan()) == list(world.method().plan())
    assert all(dataclasses.is_dataclass(phase) for phase in plan)
    assert any(phase.name == "train" for phase in plan)


@pytest.mark.parametrize("name", registry.entries("method"))
def test_every_parameter_is_documented(name):
    entry = registry.get("method", name)
    assert entry.doc
    cls = entry.load()
    for field in settings.fields(cls.Params).values():
        assert len(field.doc) > 5, field.name
        assert field.default is not dataclasses.MISSING, field.name
    known = set(settings.fields(cls.Params))
    for values in cls.per_dataset.values():
        assert set(values) <= known


@pairs
def test_its_weights_can_be_swapped_for_evaluation(method_name, dataset_name, tmp_path):
    world = World(method_name, dataset_name, tmp_path)
    method = world.method()
    first = checkpoint.copy_weights(method)
    world.train(method)
    images = torch.from_numpy(world.twin.source("val").images[:4]).float() / 255
    for module in checkpoint.modules(method).values():
        module.eval()
    with torch.inference_mode():
        trained = method.predict(images)
        checkpoint.assign_weights(method, first)
        fresh = method.predict(images)
    assert not np.allclose(trained, fresh)
    assert replace(world.spec, seed=1).id != world.spec.id
