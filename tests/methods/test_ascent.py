import pytest
import torch
from helpers import RECIPE, make
from torch import nn

from sdgbench import registry
from sdgbench.methods import _ascent
from sdgbench.methods.mada import MADA
from sdgbench.spec import resolution


def test_a_hand_computed_climb():
    """The gain -(x - 3)^2 has the grad -2(x - 3): x -> x + s * grad."""
    x = torch.tensor([[0.0], [5.0]])
    found = _ascent.ascend(x, lambda z: -((z - 3) ** 2).sum(1), steps=2, size=0.25)
    # 0 -> 0 + .25 * 6 = 1.5 -> 1.5 + .25 * 3 = 2.25;  5 -> 5 - .25 * 4 = 4 -> 4 - .25 * 2 = 3.5
    assert found.flatten().tolist() == [2.25, 3.5]
    assert x.tolist() == [[0.0], [5.0]]


def test_clamping_comes_after_the_climb():
    x = torch.tensor([[0.9]])
    assert _ascent.ascend(x, lambda z: z.sum(1), 3, 0.2, clamp=True).item() == 1
    assert _ascent.ascend(x, lambda z: z.sum(1), 3, 0.2).item() == pytest.approx(1.5)


def test_mean_squares_are_per_image():
    first = torch.tensor([[[1.0, 2.0]], [[0.0, 0.0]]])
    second = torch.tensor([[[3.0, 2.0]], [[0.0, 1.0]]])
    assert _ascent.mean_square(first, second).tolist() == [2.0, 0.5]


def test_frozen_means_no_statistics_and_no_gradients_and_ends():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).train()
    network[0].bias.requires_grad_(False)
    before = network[1].running_mean.clone()
    with _ascent.frozen(network):
        assert not network(torch.rand(2, 3, 8, 8)).requires_grad
    assert network.training
    assert network[1].training
    assert torch.equal(network[1].running_mean, before)
    assert network[0].weight.requires_grad
    assert not network[0].bias.requires_grad  # as it was


def objective_of(name, folder, **params):
    cls = registry.get("method", name).load()
    method = make(cls, folder, RECIPE, params=cls.Params(**params))
    x, y = torch.rand(6, 3, 32, 32), torch.arange(6)
    if name == "mada":
        return method, x, y, method.objective(x, y)
    return method, x, y, method.objective(method.network, method.params.gamma, x, y)


@pytest.mark.parametrize("name", ["gud", "mada"])
def test_the_ascent_raises_its_objective(name, tmp_path):
    method, x, _, gain = objective_of(name, tmp_path)
    with _ascent.frozen(method.network):
        climbed = _ascent.ascend(x, gain, 8, 0.03)
        assert (gain(climbed) > gain(x)).all()


@pytest.mark.parametrize("name", ["gud", "mada"])
def test_weights_get_no_gradient_from_the_ascent(name, tmp_path):
    method, x, y, _ = objective_of(name, tmp_path)
    method.generate_step(x, y)
    modules = [method.network] + ([method.wae] if name == "mada" else [])
    assert all(w.grad is None and w.requires_grad for m in modules for w in m.parameters())


@pytest.mark.parametrize("name", ["gud", "mada", "gud-ensemble"])
def test_the_batch_size_does_not_change_the_images(name, tmp_path):
    cls = registry.get("method", name).load()
    x, y = torch.rand(10, 3, 32, 32), torch.arange(10)
    pools = []
    for batch in (1, 3, 10):
        method = make(cls, tmp_path / str(batch), RECIPE)
        for start in range(0, 10, batch):
            method.generate_step(x[start : start + batch], y[start : start + batch])
        pools.append(method.pool.gather(torch.arange(10).numpy()))
    for images, labels in pools[1:]:
        assert torch.allclose(images, pools[0][0], atol=1e-6)
        assert torch.equal(labels, pools[0][1])
    assert torch.equal(pools[0][1], y)  # labels are kept
    assert not torch.allclose(pools[0][0], x)


def test_one_ascent_step_equals_the_codes_update_on_batch_means(tmp_path):
    """Step 1/32 on each image = the released lr 1.0 on means over a batch of 32."""
    method, *_ = objective_of("mada", tmp_path)
    x, y = torch.rand(32, 3, 32, 32), torch.randint(0, 10, (32,))
    other = torch.rand(32, 3, 32, 32)
    gain = method.objective(x, y)
    with _ascent.frozen(method.network, method.wae):
        ours = _ascent.ascend(other, gain, 1, method.params.ascent_step)
    theirs = other.clone().requires_grad_()
    z, z_plus = method.network.features(x), method.network.features(theirs)
    mse = nn.functional.mse_loss
    loss = nn.functional.cross_entropy(method.network.head(z_plus), y)
    loss = loss + 2000 * mse(method.wae(theirs), method.wae(x)) - 1.0 * mse(z_plus, z)
    loss.backward()
    assert torch.allclose(ours, theirs + 1.0 * theirs.grad, atol=1e-6)


GENERATING = ("gud", "gud-ensemble", "me-ada", "mada", "mada-no-meta", "advst")
EMBEDDED = ("digits-mini", "shapes10c", "styles-mini", "streets-mini")


@pytest.mark.parametrize("method", GENERATING)
def test_at_quick_domains_of_the_embedded_datasets_are_whole(method):
    for dataset in EMBEDDED:
        assert resolution.resolve(method, dataset, "quick", 0).params["max_batches"] is None
    assert resolution.resolve(method, "cifar10c", "quick", 0).params["max_batches"] is not None


def test_a_size_of_domains_at_quick_does_not_hide_the_rule_for_other_sizes():
    step = resolution.resolve("mada", "styles-mini", "paper", 0).params["ascent_step"]
    assert step == 4 * MADA.Params().ascent_step  # 64 x 64 pixels, not 32 x 32
