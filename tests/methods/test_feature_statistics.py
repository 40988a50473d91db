"""MixStyle and DSU: their statistics, their distributions, where they act, the switch to ERM."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import RECIPE, assert_same_weights, erm, make, trainer, weights_at_each_step

from sdgbench import registry
from sdgbench.errors import UserError
from sdgbench.methods._feature_statistics import EPSILON

NAMES = ("mixstyle", "dsu")
WRN = replace(RECIPE, network="wrn-10-1", optimiser="sgd", lr=0.05, augment="crop-flip")


def built(name, folder, recipe=RECIPE, **params):
    cls = registry.get("method", name).load()
    return make(cls, folder, recipe, params=cls.Params(**params))


def statistics(maps):
    """Mean and standard deviation per image and channel, as (N, C) arrays."""
    flat = maps.detach().double().flatten(2).numpy()
    return flat.mean(2), np.sqrt(flat.var(2, ddof=1) + EPSILON)


def maps_of(count=6, channels=3):
    torch.manual_seed(1)
    return torch.randn(count, channels, 5, 4) * torch.rand(count, channels, 1, 1) + torch.randn(
        count, channels, 1, 1
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("recipe", [RECIPE, WRN], ids=["convnet", "batch-norm"])
def test_without_probability_it_is_erm_step_by_step(name, recipe, tmp_path):
    ours = weights_at_each_step(
        built(name, tmp_path / "a", recipe, probability=0.0), tmp_path / "a"
    )
    plain = weights_at_each_step(make(erm(), tmp_path / "b", recipe), tmp_path / "b")
    assert len(ours) == len(plain) == 12
    for first, second in zip(ours, plain, strict=True):
        assert_same_weights(first, second)


@pytest.mark.parametrize("name", NAMES)
def test_with_probability_it_is_not_erm_and_predicts_with_its_own_maps(name, tmp_path):
    method = built(name, tmp_path / "a", WRN, probability=1.0)
    trainer(method, tmp_path / "a").run()
    plain = make(erm(), tmp_path / "b", WRN)
    trainer(plain, tmp_path / "b").run()
    weight = "body.0.weight"
    assert not torch.equal(method.network.state_dict()[weight], plain.network.state_dict()[weight])
    method.network.eval()
    x = torch.rand(5, 3, 32, 32)
    assert torch.equal(method.predict(x), method.network.head(method.network.features(x)))


def test_mixed_statistics_by_hand(tmp_path):
    """The map keeps its shape; its statistics are the stated mixture of two images'."""
    method = built("mixstyle", tmp_path, probability=1.0)
    maps = maps_of()
    share, other = torch.tensor([1.0, 0.0, 0.25, 0.5, 0.9, 0.3]), torch.tensor([3, 0, 5, 1, 2, 4])
    method.draw = lambda count: (share.view(-1, 1, 1, 1), other)
    found = method.change(maps, 0)
    mean, std = statistics(maps)
    s = share.numpy()[:, None]
    wanted_mean = s * mean + (1 - s) * mean[other]
    wanted_std = s * std + (1 - s) * std[other]
    for i in range(len(maps)):
        for c in range(3):
            normal = (maps[i, c].double().numpy() - mean[i, c]) / std[i, c]
            expected = normal * wanted_std[i, c] + wanted_mean[i, c]
            np.testing.assert_allclose(found[i, c].numpy(), expected, atol=1e-5)


def test_mixed_statistics_are_constants_for_the_gradient(tmp_path):
    method = built("mixstyle", tmp_path, probability=1.0)
    method.draw = lambda count: (torch.full((count, 1, 1, 1), 0.25), torch.arange(count).flip(0))
    maps = maps_of(2).requires_grad_()
    method.change(maps, 0).sum().backward()
    _, std = statistics(maps)
    expected = (0.25 * std + 0.75 * std[::-1]) / std
    np.testing.assert_allclose(maps.grad[:, :, 0, 0].numpy(), expected, rtol=1e-4)


def test_shares_follow_the_beta_distribution(tmp_path):
    """Beta(0.1, 0.1) has mean 1/2 and variance 1 / (4 (2 * 0.1 + 1)); most shares are extreme."""
    torch.manual_seed(0)
    shares, other = built("mixstyle", tmp_path).draw(20_000)
    assert shares.mean().item() == pytest.approx(0.5, abs=0.01)
    assert shares.var().item() == pytest.approx(1 / 4.8, rel=0.03)
    assert sorted(other.tolist()) == list(range(20_000))


def test_dsu_draws_statistics_around_the_images_own(tmp_path):
    """The new mean is normal, its centre the image's mean, its width the batch's; so is the std."""
    method = built("dsu", tmp_path, probability=1.0)
    maps = maps_of(4, 2)
    mean, std = statistics(maps)
    torch.manual_seed(0)
    drawn = [statistics(method.change(maps, 0)) for _ in range(3000)]
    new_mean = np.array([m for m, _ in drawn])
    widths = np.sqrt(mean.var(0, ddof=1) + EPSILON)
    np.testing.assert_allclose(new_mean.mean(0), mean, atol=4 * widths.max() / math.sqrt(3000))
    np.testing.assert_allclose(new_mean.std(0), np.broadcast_to(widths, mean.shape), rtol=0.06)
    noise = (new_mean - mean) / widths
    correlations = np.corrcoef(noise.reshape(3000, -1).T)
    assert np.abs(correlations - np.eye(8)).max() < 0.08  # images and channels are independent
    # A negative standard deviation flips the map; its size is what can be measured.
    scale = np.array([s for _, s in drawn])
    width = np.sqrt(std.var(0, ddof=1) + EPSILON)
    second_moment = std**2 + width**2
    np.testing.assert_allclose((scale**2).mean(0), second_moment, rtol=0.1)


def test_dsu_takes_a_single_image(tmp_path):
    method = built("dsu", tmp_path, probability=1.0)
    maps = maps_of(1)
    found = method.change(maps, 0)
    assert found.isfinite().all()
    assert (found - maps).abs().max() < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_half_of_the_chosen_stages_change(name, tmp_path):
    method = built(name, tmp_path, stages=(1,))
    maps = maps_of()
    torch.manual_seed(0)
    changed = [method.change(maps, 1) is not maps for _ in range(1000)]
    assert np.mean(changed) == pytest.approx(0.5, abs=0.05)
    assert all(method.change(maps, stage) is maps for stage in (0, 2) for _ in range(20))


@pytest.mark.parametrize("name", NAMES)
def test_a_stage_that_the_network_lacks_is_refused(name, tmp_path):
    with pytest.raises(UserError, match="no stage 7"):
        built(name, tmp_path, stages=(0, 7))


@pytest.mark.parametrize("name", NAMES)
def test_dead_channels_have_a_finite_gradient(name, tmp_path):
    method = built(name, tmp_path, probability=1.0)
    maps = maps_of()
    maps[:, 0] = 0.0
    maps.requires_grad_()
    method.change(maps, 0).square().sum().backward()
    assert maps.grad.isfinite().all()
