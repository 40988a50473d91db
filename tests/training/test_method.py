from dataclasses import replace

import pytest
import torch
from helpers import RECIPE, assert_same_weights, erm, make, trainer, weights

from sdgbench.method import Method


def test_all_methods_of_a_seed_start_from_the_same_weights(tmp_path):
    class Other(Method):
        def setup(self):
            self.extra = torch.nn.Linear(3, 3)

    first, second = make(erm(), tmp_path), make(Other, tmp_path)
    assert_same_weights(weights(first), weights(second))
    other_seed = weights(make(erm(), tmp_path, seed=1))
    assert not torch.equal(weights(first)["body.0.weight"], other_seed["body.0.weight"])


def test_what_a_method_adds_is_seeded_too(tmp_path):
    class Other(Method):
        def setup(self):
            self.extra = torch.nn.Linear(3, 3)

    first, second = make(Other, tmp_path), make(Other, tmp_path)
    assert torch.equal(first.extra.weight, second.extra.weight)
    assert not torch.equal(first.extra.weight, make(Other, tmp_path, seed=1).extra.weight)


def test_members_differ_but_the_first_is_everybodys(tmp_path):
    method = make(erm(), tmp_path)
    first, second = method.new_network(0), method.new_network(1)
    assert_same_weights(weights(method), first.state_dict())
    assert not torch.equal(first.body[0].weight, second.body[0].weight)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "step"])
def test_schedules_against_torch(schedule, tmp_path):
    recipe = replace(RECIPE, steps=20, lr=0.1, schedule=schedule, optimiser="sgd")
    method = make(erm(), tmp_path, recipe)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], 0.1)
    reference = {
        "constant": torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0),
        "linear": torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-12, 20),
        "cosine": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20),
        "step": torch.optim.lr_scheduler.MultiStepLR(optimizer, [10], 0.1),
    }[schedule]
    for _ in range(20):
        assert method.learning_rate() == pytest.approx(reference.get_last_lr()[0], abs=1e-7)
        method.updates += 1
        optimizer.step()
        reference.step()


@pytest.mark.parametrize(
    "recipe",
    [
        RECIPE,
        replace(
            RECIPE, optimiser="sgd", lr=0.05, momentum=0.9, weight_decay=5e-4, schedule="linear"
        ),
        replace(RECIPE, network="wrn-10-1", optimiser="sgd", lr=0.05, momentum=0.9),
    ],
    ids=["adam", "sgd", "batch-norm"],
)
def test_erm_is_a_plain_loop_bit_for_bit(recipe, tmp_path):
    """The harness adds nothing: the same steps written by hand give the same weights."""
    method = make(erm(), tmp_path, recipe)
    network = make(erm(), tmp_path, recipe).network
    run = trainer(method, tmp_path / "run")
    feed = run._feeds_of(run.plan[0])[0]
    batches = [feed.next() for _ in range(12)]

    if recipe.optimiser == "adam":
        optimizer = torch.optim.Adam(network.parameters(), recipe.lr, fused=True)
    else:
        optimizer = torch.optim.SGD(
            network.parameters(),
            recipe.lr,
            momentum=0.9,
            nesterov=True,
            weight_decay=recipe.weight_decay,
            fused=True,
        )
    network.train()
    for step, (x, y) in enumerate(batches):
        if recipe.schedule == "linear":
            optimizer.param_groups[0]["lr"] = recipe.lr * (1 - step / 12)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()

    trainer(method, tmp_path / "run").run()
    assert_same_weights(dict(network.state_dict()), weights(method))


def test_a_method_has_no_way_to_the_targets(tmp_path):
    """Whatever hangs on a method: no dataset, no domain, no path to the data."""
    from sdgbench.data.domain import Domain
    from sdgbench.dataset import Dataset

    method = make(erm(), tmp_path)
    trainer(method, tmp_path / "run").run()
    seen, queue = set(), [method]
    while queue:
        thing = queue.pop()
        if id(thing) in seen or isinstance(thing, (type, torch.Tensor, str, bytes)):
            continue
        seen.add(id(thing))
        assert not isinstance(thing, (Dataset, Domain)), thing
        if isinstance(thing, dict):
            queue.extend(thing.values())
        elif isinstance(thing, (list, tuple, set)):
            queue.extend(thing)
        elif hasattr(thing, "__dict__"):
            queue.extend(vars(thing).values())
    assert len(seen) > 20
