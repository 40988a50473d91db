"""L2D: its losses, its style module, its two updates, its reduction to ERM."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import RECIPE, assert_same_weights, erm, make, trainer, weights_at_each_step

from sdgbench import registry
from sdgbench.errors import UserError
from sdgbench.methods import _l2d_losses as losses
from sdgbench.methods import l2d

L2D = registry.get("method", "l2d").load()
WRN = replace(RECIPE, network="wrn-10-1", optimiser="sgd", lr=0.05, augment="crop-flip")


def built(folder, recipe=RECIPE, **params):
    return make(L2D, folder, recipe, params=L2D.Params(**({"kernel_sizes": (3, 5)} | params)))


def batch(count=6):
    torch.manual_seed(3)
    return torch.rand(count, 3, 32, 32), torch.arange(count) % 3


def test_without_strength_it_is_erm_step_by_step(tmp_path):
    ours = weights_at_each_step(built(tmp_path / "a", WRN, strength=0.0), tmp_path / "a")
    plain = weights_at_each_step(make(erm(), tmp_path / "b", WRN), tmp_path / "b")
    assert len(ours) == len(plain) == 12
    for first, second in zip(ours, plain, strict=True):
        assert_same_weights(first, second)


# The losses ----------------------------------------------------------------------------------


def test_likelihood_and_club_by_hand():
    mu, logvar = torch.tensor([[1.0, 2.0], [0.0, -1.0]]), torch.tensor([[0.0, 1.0], [2.0, 0.5]])
    z = torch.tensor([[0.5, 2.5], [1.0, 1.0]])
    terms = [
        0.25 + 0.0,
        0.25 / math.e + 1.0,
        1.0 / math.exp(2) + 2.0,
        4.0 / math.exp(0.5) + 0.5,
    ]
    assert losses.negative_likelihood(mu, logvar, z).item() == pytest.approx(sum(terms) / 4)
    own = [0.25 + 0.25 / math.e, 1 / math.exp(2) + 4 / math.exp(0.5)]
    other = [0.0 + 1.0 / math.e, 0.25 / math.exp(2) + 12.25 / math.exp(0.5)]
    expected = sum(b - a for a, b in zip(own, other, strict=True)) / 2 / 2
    assert losses.club(mu, logvar, z, torch.tensor([1, 0])).item() == pytest.approx(expected)


def plain_mmd(first, second):
    """One class, pair by pair."""
    both = np.concatenate([first, second])
    distance = np.array([[((a - b) ** 2).sum() for b in both] for a in both])
    bandwidth = distance.sum() / (len(both) ** 2 - len(both))
    kernel = sum(np.exp(-distance / (bandwidth * factor)) for factor in (0.25, 0.5, 1, 2, 4))
    n = len(first)
    return (kernel[:n, :n] + kernel[n:, n:] - kernel[:n, n:] - kernel[n:, :n]).mean()


def test_the_discrepancy_is_that_of_each_class_by_hand():
    """Four classes, of which one does not occur and one has a single image."""
    torch.manual_seed(0)
    first, second = torch.randn(6, 4, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)
    labels = torch.tensor([0, 2, 0, 2, 2, 3])
    expected = sum(
        plain_mmd(first[labels == c].numpy(), second[labels == c].numpy()) for c in (0, 2, 3)
    )
    found = losses.conditional_mmd(first, second, labels, 4).item()
    assert found == pytest.approx(expected / 4, rel=1e-9)


def test_the_discrepancy_of_equal_codes_is_zero_with_a_finite_gradient():
    first = torch.ones(4, 3, requires_grad=True)
    loss = losses.conditional_mmd(first, torch.ones(4, 3), torch.tensor([0, 0, 1, 1]), 2)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert first.grad.isfinite().all()


def test_the_task_loss_by_hand(tmp_path):
    """Cross-entropy and contrast of both styles, and the likelihood of the other style's code."""
    method = built(tmp_path, contrast=0.5, likelihood=2.0)
    x, y = batch()
    torch.manual_seed(1)
    mu, logvar, z = (torch.randn(12, l2d.CODE) for _ in range(3))
    method.encode = lambda images: (mu, logvar, z)
    found = method.task_loss(x, y).item()
    both = y.repeat(2)
    log_p = method.code.classifier(z).log_softmax(1).detach()
    loss = -sum(log_p[i, both[i]].item() for i in range(12)) / 12
    u = torch.nn.functional.normalize(z, dim=1)
    contrast = 0.0
    for i in range(12):
        others = [j for j in range(12) if j != i]
        normaliser = torch.logsumexp(torch.stack([u[i] @ u[j] / 0.07 for j in others]), 0)
        positives = [u[i] @ u[j] / 0.07 - normaliser for j in others if both[j] == both[i]]
        contrast -= (sum(positives) / len(positives)).item() / 12
    square = (mu[6:] - z[:6]).square() / logvar[6:].exp() + logvar[6:]
    expected = loss + 0.5 * contrast + 2 * square.mean().item()
    assert found == pytest.approx(expected, rel=1e-4)


def test_the_module_minimises_discrepancy_and_a_tenth_of_the_information(tmp_path, monkeypatch):
    method = built(tmp_path)
    x, y = batch()
    seen = {}

    def mmd(first, second, labels, classes):
        seen["mmd"] = (first, second)
        return torch.tensor(3.0)

    def information(mu, logvar, z, other):
        seen["club"] = (mu, logvar, z, other)
        return torch.tensor(20.0)

    monkeypatch.setattr(l2d, "conditional_mmd", mmd)
    monkeypatch.setattr(l2d, "club", information)
    codes = tuple(torch.randn(12, l2d.CODE) for _ in range(3))
    method.encode = lambda images: codes
    assert method.style_loss(x, y).item() == pytest.approx(3 + 0.1 * 20)
    mu, _, z = codes
    assert torch.equal(seen["mmd"][0], z[:6])
    assert torch.equal(seen["mmd"][1], z[6:])
    assert torch.equal(seen["club"][0], mu[6:])  # q(z+ | x): of the clean images
    assert torch.equal(seen["club"][2], z[:6])
    assert sorted(seen["club"][3].tolist()) == list(range(6))


# The style module ----------------------------------------------------------------------------


def test_maps_start_as_stated():
    torch.manual_seed(0)
    style = l2d.Style((64, 64), (5, 9, 13, 17))
    for size, scale, shift in zip((5, 9, 13, 17), style.scale, style.shift, strict=True):
        assert scale.shape == shift.shape == (3, 65 - size, 65 - size)
        assert scale.mean().item() == pytest.approx(1, abs=0.01)
        assert shift.mean().item() == pytest.approx(0, abs=0.01)
        assert scale.std().item() == pytest.approx(0.1, rel=0.05)
        assert shift.std().item() == pytest.approx(0.1, rel=0.05)
    learned = {name for name, weight in style.named_parameters() if weight.requires_grad}
    assert learned == {
        "noise",
        *(f"{maps}.{i}" for maps in ("scale", "shift") for i in range(4)),
    }


def test_the_module_by_hand(monkeypatch):
    """A colour branch and one pair of convolutions, against NumPy, without dropout and noise."""
    torch.manual_seed(0)
    monkeypatch.setattr(l2d, "DROPOUT", 0.0)
    style = l2d.Style((8, 8), (3,))
    convolutions, x = l2d.Convolutions((3,)), torch.randn(2, 3, 8, 8)
    found = style(x, convolutions, [0.7, -0.2])
    colour = torch.einsum("oi,nihw->nohw", convolutions.colour.weight[:, :, 0, 0], x)
    colour = (colour + convolutions.colour.bias.view(1, 3, 1, 1)).tanh()
    inner = convolutions.down[0](x)
    mean = inner.mean((2, 3), keepdim=True)
    std = (inner.var((2, 3), keepdim=True, unbiased=False) + 1e-5).sqrt()
    inner = (inner - mean) / std * style.scale[0] + style.shift[0]
    expected = (0.7 * colour - 0.2 * convolutions.up[0](inner).tanh()) / 0.5
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_the_mixture_has_the_published_shares(tmp_path):
    method = built(tmp_path, WRN)
    x, _ = batch()
    seen = []
    style = method.style

    def styled(normal, convolutions, weights):
        seen.append((normal, weights))
        return torch.full_like(normal, 2.0)

    method.__dict__["style"] = styled
    found = method.restyle(x, style.fixed, torch.ones(3))
    torch.testing.assert_close(found, 0.6 / (1 + math.exp(-2)) + 0.4 * x)
    torch.testing.assert_close(seen[0][0], (x - method.network.mean) / method.network.std)
    assert seen[0][1] == [1, 1, 1]


def test_weights_of_the_branches_are_normal_in_the_first_update_alone(tmp_path):
    method = built(tmp_path)
    x, y = batch(2)
    drawn = []
    restyle = method.restyle
    method.restyle = lambda x, convolutions, weights: (
        drawn.append((convolutions is method.style.fixed, weights))
        or restyle(x, convolutions, weights)
    )
    torch.manual_seed(0)
    for _ in range(150):
        method.task_loss(x, y)
    weights = torch.stack([weights for _, weights in drawn])
    assert not any(fixed for fixed, _ in drawn)
    assert weights.mean().item() == pytest.approx(0, abs=0.15)
    assert weights.std().item() == pytest.approx(1, abs=0.12)
    drawn.clear()
    method.style_loss(x, y)
    assert drawn[0][0]
    assert drawn[0][1].tolist() == [1, 1, 1]


# Updates and predictions ---------------------------------------------------------------------


def state(module):
    return {key: value.clone() for key, value in module.state_dict().items()}


def changed(module, before):
    return {
        key for key, value in module.state_dict().items() if not torch.equal(value, before[key])
    }


def test_each_update_changes_its_own_part(tmp_path):
    method = built(tmp_path, style_lr=10.0)  # large, so that no change is lost in rounding
    x, y = batch()
    style = state(method.style)
    method.optimise(method.task_loss(x, y))
    assert not changed(method.style, style)
    network, code = state(method.network), state(method.code)
    with l2d.without_weight_gradients(method.network, method.code):
        method.optimise(method.style_loss(x, y), method.style_optimizer)
    assert not changed(method.network, network)
    assert not changed(method.code, code)
    assert changed(method.style, style) >= {"scale.0", "shift.1"}
    assert not any("fixed" in key for key in changed(method.style, style))


def test_codes_are_sampled_in_training_and_their_mean_predicts(tmp_path):
    method = built(tmp_path)
    x, _ = batch()
    torch.manual_seed(0)
    with torch.no_grad():
        samples = torch.stack([method.encode(x)[2] for _ in range(400)])
        mu, logvar, _ = method.encode(x)
        predicted = method.predict(x)
    torch.testing.assert_close(samples.mean(0), mu, atol=0.2, rtol=0)
    spread = 0.2 * (logvar / 2).exp()
    assert (samples.std(0) / spread).mean().item() == pytest.approx(1, abs=0.02)
    assert (logvar >= 0).all()
    torch.testing.assert_close(predicted, method.code.classifier(mu))
    code = method.code
    assert method.inference_modules() == [method.network.body, code.mu, code.classifier]


def test_it_trains_through_batch_norm(tmp_path):
    method = built(tmp_path, WRN)
    trainer(method, tmp_path).run()
    assert all(value.isfinite().all() for value in state(method.style).values())


def test_a_kernel_larger_than_the_image_is_refused(tmp_path):
    with pytest.raises(UserError, match="the images have 32 pixels"):
        built(tmp_path, kernel_sizes=(5, 33))
