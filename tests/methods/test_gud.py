from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import (
    RECIPE,
    assert_same_weights,
    erm,
    make,
    trainer,
    watch,
    weights_at_each_step,
)

from sdgbench import registry
from sdgbench.method import Phase

QUICKLY = {"T_min": 3, "T_adv": 2, "ascent_batch": 7}


def gud(name="gud"):
    return registry.get("method", name).load()


def built(folder, name="gud", recipe=RECIPE, **params):
    return make(gud(name), folder, recipe, params=gud(name).Params(**(QUICKLY | params)))


@pytest.mark.parametrize("name", ["gud", "gud-ensemble"])
@pytest.mark.parametrize(
    "recipe",
    [
        RECIPE,
        replace(
            RECIPE,
            network="wrn-10-1",
            optimiser="sgd",
            lr=0.05,
            momentum=0.9,
            weight_decay=5e-4,
            augment="crop-flip",
        ),
    ],
    ids=["convnet", "batch-norm"],
)
def test_without_domains_it_is_erm_step_by_step(name, recipe, tmp_path):
    ours = weights_at_each_step(built(tmp_path / "a", name, recipe, K=0), tmp_path / "a")
    plain = weights_at_each_step(make(erm(), tmp_path / "b", recipe), tmp_path / "b")
    assert len(ours) == len(plain) == 12
    for first, second in zip(ours, plain, strict=True):
        assert_same_weights(first, second)


@pytest.mark.parametrize("name", ["gud", "gud-ensemble"])
def test_before_the_first_domain_it_is_erm(name, tmp_path):
    ours = weights_at_each_step(built(tmp_path / "a", name, K=1), tmp_path / "a")
    plain = weights_at_each_step(make(erm(), tmp_path / "b"), tmp_path / "b")
    for first, second in zip(ours[:3], plain[:3], strict=True):
        assert_same_weights(first, second)
    assert not torch.equal(ours[4]["body.0.weight"], plain[4]["body.0.weight"])


def test_the_plan_is_that_of_the_released_code(tmp_path):
    recipe = replace(RECIPE, steps=10_000, batch=32)
    method = make(gud(), tmp_path, recipe)
    object.__setattr__(method._context, "source_size", 10_000)
    plan = method.plan()
    assert [phase.name for phase in plan] == ["train", "generate"] * 6 + ["train"]
    assert [p.steps for p in plan if p.name == "train"] == [100] * 6 + [9_400]
    assert {p.reads[0].images for p in plan if p.name == "generate"} == {9_984}
    assert all(p.reads[0].what == "source+pool" for p in plan)


def test_the_set_grows_by_a_domain_at_a_time(tmp_path):
    method = built(tmp_path, K=2)
    sizes = []
    watch(method, "begin", lambda phase: sizes.append((phase.name, len(method.pool))))
    trainer(method, tmp_path).run()
    assert sizes == [("train", 0), ("generate", 0), ("train", 40), ("generate", 40), ("train", 80)]


def test_a_short_training_still_has_all_its_domains(tmp_path):
    plan = built(tmp_path, K=3, T_min=100).plan()
    assert [p.steps for p in plan if p.name == "train"] == [3, 3, 3, 3]


def test_the_constraint_by_hand(tmp_path):
    """Loss minus gamma times the mean square in feature space, for each image."""
    method = built(tmp_path, gamma=3.0)
    x, y = torch.rand(4, 3, 32, 32), torch.arange(4)
    other = torch.rand(4, 3, 32, 32)
    gain = method.objective(method.network, 3.0, x, y)(other)
    logits = method.network(other)
    z, z_plus = method.network.features(x), method.network.features(other)
    for i in range(4):
        loss = torch.logsumexp(logits[i], 0) - logits[i, y[i]]
        distance = sum((a - b) ** 2 for a, b in zip(z[i], z_plus[i], strict=True)) / len(z[i])
        assert gain[i].item() == pytest.approx((loss - 3 * distance).item(), rel=1e-4)


def test_generated_images_are_where_later_training_reads_them(tmp_path):
    method = built(tmp_path, K=1)
    run = trainer(method, tmp_path)
    run.run()
    images, labels = method.pool.gather(np.arange(40))
    source = run.source.images.float() / 255
    matched = torch.cdist(images.flatten(1), source.flatten(1)).argmin(1)
    assert sorted(matched.tolist()) == list(range(40))  # every source image once
    assert torch.equal(run.source.labels[matched].long(), labels)


# The ensemble ------------------------------------------------------------------------------


def test_members_share_the_beginning_and_then_differ(tmp_path):
    method = built(tmp_path, "gud-ensemble", K=1, members=3)
    divided = {}
    note = lambda: divided.update(  # noqa: E731
        {str(i): weights_of(network) for i, network in enumerate(method.networks())}
    )
    watch(method, "divide", note)
    trainer(method, tmp_path).run()
    assert_same_weights(divided["0"], divided["1"])
    assert_same_weights(divided["0"], divided["2"])
    first, second, third = (net.state_dict()["body.0.weight"] for net in method.networks())
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)


def weights_of(network):
    return {key: value.clone() for key, value in network.state_dict().items()}


def test_a_member_is_a_gud_with_its_own_weight(tmp_path):
    """The second member equals a GUD trained alone on the same images with a tenth of gamma."""
    params = {"K": 1, "members": 2, "gamma": 50.0}
    ensemble = built(tmp_path / "a", "gud-ensemble", **params)
    trainer(ensemble, tmp_path / "a").run()
    alone = built(tmp_path / "b", "gud", K=1, gamma=5.0)
    generated = {}
    add = alone.pool.add
    alone.pool.add = lambda x, y: (generated.setdefault("x", []).append(x), add(x, y))
    trainer(alone, tmp_path / "b").run()
    second_domain, _ = ensemble.pool.gather(np.arange(40, 80))
    key = lambda images: sorted(images.flatten(1).sum(1).tolist())  # noqa: E731
    assert key(second_domain) == pytest.approx(key(torch.cat(generated["x"])), rel=1e-5)


def test_constraint_weights_fall_by_tens(tmp_path):
    method = built(tmp_path, "gud-ensemble")
    method.divide()
    used = []
    method.objective = lambda network, gamma, x, y: (
        used.append(gamma) or (lambda z: z.sum((1, 2, 3)))
    )
    for member in range(7):
        method.begin(Phase("generate", 1, part=member))
        method.generate_step(torch.rand(1, 3, 32, 32), torch.zeros(1, dtype=torch.long))
    assert used == pytest.approx([1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])


def test_the_most_confident_member_decides_each_image(tmp_path):
    method = built(tmp_path, "gud-ensemble", members=2)
    method.divided = True
    # Image 0: member 0 is sure of class 1. Image 1: member 1 is sure of class 2.
    answers = torch.tensor([[[0.0, 9.0, 0.0], [1.0, 0.0, 0.0]], [[3.0, 0.0, 0.0], [0.0, 0.0, 5.0]]])
    method.networks = lambda: [lambda x: answers[0], lambda x: answers[1]]
    assert torch.equal(method.predict(torch.zeros(2)), torch.stack([answers[0, 0], answers[1, 1]]))


def test_the_mean_softmax_is_a_parameter(tmp_path):
    method = built(tmp_path, "gud-ensemble", members=2, decision="mean")
    method.divided = True
    answers = [torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.2, 0.8]]).log()]
    method.networks = lambda: [lambda x: answers[0], lambda x: answers[1]]
    assert torch.allclose(method.predict(torch.zeros(1)).exp(), torch.tensor([[0.55, 0.45]]))


def test_pixels_are_decided_one_by_one(tmp_path):
    method = built(tmp_path, "gud-ensemble", members=2)
    first = torch.tensor([[[[9.0, 0.0]], [[0.0, 0.1]]]])  # (1, 2 classes, 1, 2 pixels)
    second = torch.tensor([[[[0.0, 0.0]], [[0.1, 9.0]]]])
    method.networks = lambda: [lambda x: first, lambda x: second]
    assert method.predict(torch.zeros(1)).argmax(1).tolist() == [[[0, 1]]]


def test_all_members_count(tmp_path):
    method = make(gud("gud-ensemble"), tmp_path)
    one = sum(w.numel() for w in method.network.parameters())
    assert sum(w.numel() for m in method.inference_modules() for w in m.parameters()) == 7 * one


def test_momenta_are_divided_too(tmp_path):
    method = built(tmp_path, "gud-ensemble", members=2)
    method.train_step(torch.rand(4, 3, 32, 32), torch.arange(4))
    method.divide()
    first, second = next(method.network.parameters()), next(method.others.parameters())
    state = method.optimizer.state
    assert torch.equal(state[first]["exp_avg"], state[second]["exp_avg"])
    assert state[first]["exp_avg"] is not state[second]["exp_avg"]
    assert state[first]["exp_avg"].abs().sum() > 0


@pytest.mark.parametrize("bad", [{"K": -1}, {"ascent_batch": 0}, {"T_min": 0}, {"members": 0}])
def test_bad_parameters_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        gud("gud-ensemble").Params(**bad)
