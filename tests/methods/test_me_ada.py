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
from sdgbench.methods._ascent import frozen

QUICKLY = {"T_min": 3, "T_adv": 2, "ascent_batch": 7}
ME_ADA = registry.get("method", "me-ada").load()
GUD = registry.get("method", "gud").load()


def built(folder, recipe=RECIPE, cls=ME_ADA, **params):
    return make(cls, folder, recipe, params=cls.Params(**(QUICKLY | params)))


def test_without_rounds_it_is_erm_step_by_step(tmp_path):
    recipe = replace(RECIPE, network="wrn-10-1", optimiser="sgd", lr=0.05, augment="crop-flip")
    ours = weights_at_each_step(built(tmp_path / "a", recipe, K=0), tmp_path / "a")
    plain = weights_at_each_step(make(erm(), tmp_path / "b", recipe), tmp_path / "b")
    assert len(ours) == len(plain) == 12
    for first, second in zip(ours, plain, strict=True):
        assert_same_weights(first, second)


def test_the_set_doubles_each_round_as_in_the_released_code(tmp_path):
    method = make(ME_ADA, tmp_path, replace(RECIPE, steps=10_000, batch=32))
    object.__setattr__(method._context, "source_size", 10_000)
    plan = method.plan()
    assert [phase.name for phase in plan] == ["train", "generate"] * 3 + ["train"]
    assert [p.steps for p in plan if p.name == "train"] == [100] * 3 + [9_700]
    sizes = [p.reads[0].images for p in plan if p.name == "generate"]
    assert sizes == [10_000, 20_000, 40_000]


def test_every_current_image_is_perturbed_once(tmp_path):
    """With an ascent of no steps, the second round copies the source and the first round."""
    method = built(tmp_path, K=2, T_adv=0)
    sizes = []
    watch(method, "begin", lambda phase: sizes.append((phase.name, len(method.pool))))
    run = trainer(method, tmp_path)
    run.run()
    assert sizes[1::2] == [("generate", 0), ("generate", 40)]
    images, labels = method.pool.gather(np.arange(120))
    source = run.source.images.float() / 255
    matched = torch.cdist(images.flatten(1), source.flatten(1)).argmin(1)
    assert torch.bincount(matched[:40], minlength=40).eq(1).all()
    assert torch.bincount(matched[40:], minlength=40).eq(2).all()
    assert torch.equal(run.source.labels[matched].long(), labels)


@pytest.mark.parametrize("eta", [0.0, 10.0])
def test_the_objective_by_hand(eta, tmp_path):
    """Loss minus gamma times the mean square in feature space plus eta times the entropy."""
    method = built(tmp_path, gamma=3.0, eta=eta)
    x, y, other = torch.rand(4, 3, 32, 32), torch.arange(4), torch.rand(4, 3, 32, 32)
    gain = method.objective(method.network, 3.0, x, y)(other)
    z, z_plus = method.network.features(x), method.network.features(other)
    p = method.network.head(z_plus).softmax(1).detach()
    for i in range(4):
        distance = (z[i] - z_plus[i]).square().sum() / z.shape[1]
        uncertainty = -sum(float(share) * np.log(float(share)) for share in p[i])
        expected = -p[i, y[i]].log() - 3 * distance + eta * uncertainty
        assert gain[i].item() == pytest.approx(expected.item(), rel=1e-4)


def test_the_entropy_makes_the_images_uncertain(tmp_path):
    def entropy_after(eta):
        method = built(tmp_path / str(eta), eta=eta, T_adv=10, clamp=False)
        torch.manual_seed(0)
        x, y = torch.rand(6, 3, 32, 32), torch.arange(6)
        with frozen(method.network):
            x_plus = method.ascend(x, method.objective(method.network, 1.0, x, y))
            return torch.distributions.Categorical(logits=method.network(x_plus)).entropy().mean()

    assert entropy_after(10.0) > entropy_after(0.0)


def test_without_entropy_and_clamp_an_image_ascends_as_in_gud(tmp_path):
    x, y = torch.rand(6, 3, 32, 32), torch.arange(6)
    ours = built(tmp_path / "a", eta=0.0, clamp=False)
    theirs = built(tmp_path / "b", cls=GUD)
    for method in (ours, theirs):
        method.generate_step(x, y)
    indices = np.arange(6)
    assert torch.equal(ours.pool.gather(indices)[0], theirs.pool.gather(indices)[0])


def test_pixels_are_clamped_after_the_ascent_and_rounded_on_demand(tmp_path):
    method = built(tmp_path / "a", ascent_step=50.0)
    x, y = torch.rand(6, 3, 32, 32), torch.arange(6)
    method.generate_step(x, y)
    images, _ = method.pool.gather(np.arange(6))
    assert (images.min(), images.max()) == (0, 1)
    free = built(tmp_path / "b", ascent_step=50.0, clamp=False)
    free.generate_step(x, y)
    assert torch.equal(free.pool.gather(np.arange(6))[0].clamp(0, 1), images)
    rounded = built(tmp_path / "c", ascent_step=50.0, rounded=True)
    rounded.generate_step(x, y)
    bytes_ = rounded.pool.gather(np.arange(6))[0] * 255
    assert torch.allclose(bytes_, bytes_.round(), atol=1e-4)
    assert (bytes_ / 255 - images).abs().max() <= 0.5 / 255 + 1e-6


def test_the_step_on_cifar_is_the_codes_rate_on_means_in_another_range():
    """Rate 20 on means over 128 of images in [-1, 1]; the gradient there is half of that here."""
    values = ME_ADA.per_dataset["cifar10c"]
    assert values["ascent_step"] == 20 / 128 / 2 / 2
    assert (values["K"], values["T_min_epochs"], values["rounded"]) == (2, 10, True)
