"""ALT: its transformation network, its losses, its warm-up, its crops, its reduction to ERM."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import RECIPE, assert_same_weights, erm, make, trainer, weights_at_each_step
from torch import nn
from torchvision import transforms

from sdgbench import registry
from sdgbench.methods import alt

ALT = registry.get("method", "alt").load()
CROPS = registry.get("method", "alt-crop").load()


def built(folder, recipe=RECIPE, cls=ALT, **params):
    return make(cls, folder, recipe, params=cls.Params(**({"ascent_steps": 2} | params)))


def batch(count=6):
    torch.manual_seed(3)
    return torch.rand(count, 3, 32, 32), torch.arange(count)


@pytest.mark.parametrize("cls", [ALT, CROPS])
def test_with_nothing_but_warm_up_it_is_erm_step_by_step(cls, tmp_path):
    recipe = replace(RECIPE, network="wrn-10-1", optimiser="sgd", lr=0.05, augment="crop-flip")
    method = built(tmp_path / "a", recipe, cls, warmup=1.0, crop=1.0)
    ours = weights_at_each_step(method, tmp_path / "a")
    plain = weights_at_each_step(make(erm(), tmp_path / "b", recipe), tmp_path / "b")
    assert len(ours) == len(plain) == 12
    for first, second in zip(ours, plain, strict=True):
        assert_same_weights(first, second)


def test_the_warm_up_is_erm_and_what_follows_is_not(tmp_path):
    ours = weights_at_each_step(built(tmp_path / "a", warmup=0.25), tmp_path / "a")
    plain = weights_at_each_step(make(erm(), tmp_path / "b"), tmp_path / "b")
    for first, second in zip(ours[:3], plain[:3], strict=True):
        assert_same_weights(first, second)
    assert not torch.equal(ours[3]["body.0.weight"], plain[3]["body.0.weight"])


def test_the_loss_by_hand(tmp_path):
    """A quarter of the clean loss, three quarters of the divergence of the three predictions."""
    method = built(tmp_path, warmup=0.0)
    x, y = batch()
    views = [x, torch.rand_like(x), torch.rand_like(x)]
    method.random_convolution = lambda x: views[1]
    method.learned_transformation = lambda x, y: views[2]
    with torch.no_grad():
        p = [method.network(view).softmax(1).double().numpy() for view in views]
    mixture = np.maximum(sum(p) / 3, 1e-4)
    divergence = sum((q * np.log(q / mixture)).sum(1) for q in p) / 3
    clean = -np.log([p[0][i, y[i]] for i in range(6)])
    expected = 0.25 * clean.mean() + 0.75 * divergence.mean()
    assert method.train_step(x, y).item() == pytest.approx(expected, rel=1e-4)


def test_the_network_is_the_published_one():
    network = alt.new_transformation()
    convolutions = [layer for layer in network if isinstance(layer, nn.Conv2d)]
    channels = [(layer.in_channels, layer.out_channels) for layer in convolutions]
    assert channels == [(3, 18), (18, 18), (18, 18), (18, 18), (18, 3)]
    assert all(layer.kernel_size == (3, 3) and layer.padding == (1, 1) for layer in convolutions)
    slopes = [layer.negative_slope for layer in network if isinstance(layer, nn.LeakyReLU)]
    assert slopes == [0.2] * 4


def test_weights_are_drawn_and_biases_stay():
    """Kaiming: variance 2 / (1 + slope^2) / inputs, where a 3x3 kernel has 9 per channel."""
    torch.manual_seed(0)
    network = alt.new_transformation()
    biases = [layer.bias.clone() for layer in network if isinstance(layer, nn.Conv2d)]
    drawn = []
    for _ in range(200):
        alt.draw_weights(network)
        drawn.append([layer.weight.detach().clone() for layer in network if hasattr(layer, "bias")])
    for number, inputs in enumerate((3, 18, 18, 18, 18)):
        weights = torch.stack([layers[number] for layers in drawn])
        spread = math.sqrt(2 / (1 + 0.2**2) / (9 * inputs))
        assert weights.std().item() == pytest.approx(spread, rel=0.02)
        assert abs(weights.mean().item()) < 0.02 * spread
    now = [layer.bias for layer in network if isinstance(layer, nn.Conv2d)]
    assert all(torch.equal(a, b) for a, b in zip(biases, now, strict=True))


def test_the_output_is_clamped_in_minus_one_to_one():
    class Double(nn.Module):
        def forward(self, z):
            return 2 * z

    x = torch.tensor([0.0, 0.5, 0.6, 0.9, 1.0]).view(1, 1, 1, 5)
    found = alt.transform(Double(), x).flatten().tolist()  # z: -1, 0, 0.2, 0.8, 1
    darkest = (1 + 1e-4) / 2
    assert found == pytest.approx([darkest, darkest, 0.7, 1.0, 1.0])


def test_total_variation_by_hand():
    x = torch.tensor([[0.0, 0.5], [1.0, 0.25]]).view(1, 1, 2, 2)
    below, beside = (1.0 + 0.25) / 2, (0.5 + 0.75) / 2
    assert alt.total_variation(x).item() == pytest.approx(2 * (below + beside))


def test_the_transformation_learns_to_raise_the_loss(tmp_path):
    """With a larger rate than the published one, which hardly moves the weights."""
    x, y = batch()
    losses = []
    for steps in (0, 20):
        method = built(tmp_path / str(steps), ascent_steps=steps, ascent_lr=1e-3, variation=0.0)
        with torch.no_grad():
            method.network.classifier.weight.mul_(20)
        torch.manual_seed(0)
        x_plus = method.learned_transformation(x, y)
        assert not x_plus.requires_grad
        losses.append(method.task.loss(method.network(x_plus), y).item())
    assert losses[1] > losses[0]


def test_ten_published_steps_move_a_weight_by_their_sum(tmp_path):
    """Ten Adam steps of 5e-6 are at most about 5e-5, against weights of 0.1: nearly random."""
    method = built(tmp_path, ascent_steps=10)
    x, y = batch()
    torch.manual_seed(0)
    method.learned_transformation(x, y)
    learned = [weight.detach().clone() for weight in method.transformation.parameters()]
    torch.manual_seed(0)
    alt.draw_weights(method.transformation)
    drawn = [layer.weight for layer in method.transformation if hasattr(layer, "bias")]
    moved = max((a - b).abs().max().item() for a, b in zip(learned[::2], drawn, strict=True))
    assert 1e-5 < moved < 6e-5


def test_the_task_network_gets_no_gradient_and_no_statistics_from_the_ascent(tmp_path):
    method = built(tmp_path, replace(RECIPE, network="wrn-10-1"))
    x, y = batch()
    before = {key: value.clone() for key, value in method.network.state_dict().items()}
    method.learned_transformation(x, y)
    assert_same_weights(before, method.network.state_dict())
    assert all(weight.grad is None for weight in method.network.parameters())
    assert method.network.training


@pytest.mark.parametrize("shape", [(32, 32), (24, 40)])
def test_crops_are_torchvisions(shape):
    x = torch.rand(20, 3, *shape)
    torch.manual_seed(0)
    found = alt.random_resized_crop(x, 0.5)
    torch.manual_seed(0)
    crop = transforms.RandomResizedCrop(shape, scale=(0.5, 1.0))
    expected = torch.stack([crop(image) for image in x])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_crops_are_the_variants_alone(tmp_path):
    assert (ALT.Params().crop, CROPS.Params().crop) == (1.0, 0.5)
    assert "extra_augmentation" in CROPS.flags
    assert "extra_augmentation" not in ALT.flags
    method = built(tmp_path, cls=CROPS)
    trainer(method, tmp_path).run()
