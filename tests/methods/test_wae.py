import math

import pytest
import torch
from helpers import make, trainer
from torch import nn

from sdgbench import registry
from sdgbench.method import Phase
from sdgbench.methods import _wae


def count(module):
    return sum(weight.numel() for weight in module.parameters())


@pytest.mark.parametrize(
    ("kind", "shape", "auto_encoder", "critic"),
    [
        ("digits", (3, 32, 32), 2_477_492, 2_817),
        ("cifar", (3, 32, 32), 5_304_227, 65_793),
        ("synthia", (3, 192, 320), None, 525_825),
    ],
)
def test_published_sizes(kind, shape, auto_encoder, critic):
    wae, discriminator = _wae.build(kind, shape)
    if auto_encoder:
        assert count(wae) == auto_encoder
    assert count(discriminator) == critic


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("digits", (3, 32, 32)),
        ("cifar", (3, 32, 32)),
        ("synthia", (3, 64, 96)),
        ("synthia", (3, 192, 320)),
    ],
)
def test_images_come_back_in_their_shape(kind, shape):
    wae, critic = _wae.build(kind, shape)
    x = torch.rand(2, *shape)
    rebuilt = wae(x)
    assert rebuilt.shape == x.shape
    assert rebuilt.min() >= 0
    assert rebuilt.max() <= 1
    assert critic(wae.encoder(x)).shape == (2, 1)


def test_the_hidden_layer_for_synthia_has_the_published_width():
    wae, _ = _wae.build("synthia", (3, 192, 320))
    widths = [m.out_features for m in wae.modules() if isinstance(m, nn.Linear)]
    assert widths == [3840, 512, 3840]


def test_reconstruction_losses_by_hand():
    output, x = torch.tensor([[0.8, 0.5]]), torch.tensor([[1.0, 0.0]])
    expected = -math.log(0.8) - math.log(0.5)
    found = _wae.reconstruction_loss(output, x, "cross-entropy")
    assert found.item() == pytest.approx(expected, rel=1e-6)
    squares = _wae.reconstruction_loss(output, x, "squares")
    assert squares.item() == pytest.approx(0.04 + 0.25, rel=1e-6)
    twice = _wae.reconstruction_loss(output.repeat(2, 1), x.repeat(2, 1), "cross-entropy")
    assert twice.item() == pytest.approx(2 * expected, rel=1e-6)  # summed over the batch


def test_targets_outside_the_range_are_clamped():
    output = torch.tensor([[0.8]])
    found = _wae.reconstruction_loss(output, torch.tensor([[1.7]]), "cross-entropy")
    assert found.item() == pytest.approx(-math.log(0.8), rel=1e-6)


def test_free_targets_outside_the_range_by_hand():
    """-(1.7 ln 0.25 - 0.7 ln 0.75); within the range both kinds agree."""
    output = torch.tensor([[0.25]])
    found = _wae.reconstruction_loss(output, torch.tensor([[1.7]]), "cross-entropy", "free")
    assert found.item() == pytest.approx(2.15532, abs=1e-5)
    x, output = torch.rand(3, 5), torch.rand(3, 5)
    both = [_wae.reconstruction_loss(output, x, "cross-entropy", t) for t in ("clamped", "free")]
    assert both[0].item() == pytest.approx(both[1].item(), rel=1e-6)


def test_free_targets_leave_saturated_outputs_alone():
    """Outputs that reached 0 or 1 give no gradient to what is before the sigmoid, and no NaN."""
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    targets = torch.tensor([[1.7, -0.5]])
    _wae.reconstruction_loss(logits.sigmoid(), targets, "cross-entropy", "free").backward()
    assert logits.grad.tolist() == [[0.0, 0.0]]


def test_the_log_density_against_torch():
    z = torch.randn(5, 20)
    expected = torch.distributions.Normal(0, 1).log_prob(z).sum(1, keepdim=True)
    assert torch.allclose(_wae.log_density(z), expected, atol=1e-4)


def test_adversarial_losses_by_hand():
    prior, codes = torch.tensor([[2.0]]), torch.tensor([[0.5]])
    told_apart = math.log(1 + math.exp(-2.0)) + math.log(1 + math.exp(0.5))
    assert _wae.discrimination_loss(prior, codes).item() == pytest.approx(told_apart, rel=1e-6)
    deceived = math.log(1 + math.exp(-0.5))
    assert _wae.deception_loss(codes).item() == pytest.approx(deceived, rel=1e-6)


def test_mmd_by_hand():
    """Two points each in one dimension, kernels C/(C + d^2) with C = 2 * scale."""
    codes, prior = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [2.0]])

    def kernel(square):
        return sum(2 * s / (2 * s + square) for s in (0.1, 0.2, 0.5, 1, 2, 5, 10))

    within = kernel(1) + kernel(4)  # unbiased: the diagonal is left out
    across = (kernel(0) + kernel(4) + kernel(1) + kernel(1)) / 4
    expected = within - 2 * across
    assert _wae.mmd(codes, prior).item() == pytest.approx(expected, rel=1e-5)


def test_mmd_tells_distributions_apart():
    torch.manual_seed(0)
    same = _wae.mmd(torch.randn(200, 5), torch.randn(200, 5))
    other = _wae.mmd(torch.randn(200, 5) + 2, torch.randn(200, 5))
    assert abs(same) < 0.05
    assert other > 0.5


# Training ----------------------------------------------------------------------------------


def built(folder, **params):
    cls = registry.get("method", "mada").load()
    return make(cls, folder, params=cls.Params(**params))


@pytest.mark.parametrize("leak", [False, True])
def test_gradients_of_encoder_and_discriminator_do_not_leak_unless_asked(leak, tmp_path):
    """Each network's gradient is that of its own loss alone; with a leak V has both."""
    method = built(tmp_path, wae_leak=leak)
    x = torch.rand(8, 3, 32, 32)
    seen = {}
    for name, optimizer, module in (
        ("critic", method.critic_optimizer, method.critic),
        ("wae", method.wae_optimizer, method.wae),
    ):
        optimizer.step = lambda name=name, module=module: seen.setdefault(
            name, [w.grad.clone() for w in module.parameters()]
        )
    torch.manual_seed(7)
    method.wae_step(x, None)
    torch.manual_seed(7)
    codes = method.wae.encoder(x)
    prior = torch.randn_like(codes)
    logp = _wae.log_density(prior)
    for_critic = 100 * _wae.discrimination_loss(
        method.critic(prior) + logp, method.critic(codes) + logp
    )
    expected = torch.autograd.grad(for_critic, list(method.critic.parameters()), retain_graph=True)
    assert all(
        torch.allclose(a, b, rtol=1e-4) for a, b in zip(seen["critic"], expected, strict=True)
    )
    rebuilt = _wae.reconstruction_loss(method.wae.decoder(codes), x, "cross-entropy")
    for_wae = rebuilt + 100 * _wae.deception_loss(method.critic(codes) + logp)
    for_wae = for_wae + for_critic if leak else for_wae
    expected = torch.autograd.grad(for_wae, list(method.wae.parameters()))
    assert all(torch.allclose(a, b, rtol=1e-4) for a, b in zip(seen["wae"], expected, strict=True))


@pytest.mark.parametrize("prior", ["gan", "mmd"])
def test_it_learns_to_reconstruct(prior, tmp_path):
    method = built(tmp_path, wae_prior=prior)
    x = torch.rand(8, 3, 1, 1).expand(8, 3, 32, 32).contiguous()
    before = (method.wae(x) - x).square().mean().item()
    for _ in range(60):
        method.wae_step(x, None)
    assert (method.wae(x) - x).square().mean().item() < before / 3


def test_codes_are_drawn_to_the_prior(tmp_path):
    """With a strong weight, the spread of the codes comes near to the prior's."""
    method = built(tmp_path, wae_prior="mmd", wae_weight=1e6)
    x = torch.rand(64, 3, 32, 32)
    before = method.wae.encoder(x).std().item()
    for _ in range(60):
        method.wae_step(x, None)
    after = method.wae.encoder(x).std().item()
    assert abs(after - 1) < abs(before - 1) / 2


def test_the_vanilla_auto_encoder_has_no_discriminator(tmp_path):
    method = built(tmp_path, relaxation="ae")
    before = [w.clone() for w in method.critic.parameters()]
    method.wae_step(torch.rand(4, 3, 32, 32), None)
    assert all(torch.equal(a, b) for a, b in zip(before, method.critic.parameters(), strict=True))


def test_every_training_of_v_starts_from_scratch(tmp_path):
    method = built(tmp_path)
    old = method.wae
    method.begin(Phase("train", 1))
    assert method.wae is old
    method.begin(Phase("wae", 1))
    assert method.wae is not old
    assert method.wae_optimizer.param_groups[0]["params"][0] is next(method.wae.parameters())


def test_v_learns_from_the_newest_domain_alone(tmp_path):
    method = built(tmp_path, K=2, T_min=2, T_adv=1, wae_epochs=1)
    reads = [phase.reads[0] for phase in method.plan() if phase.name == "wae"]
    assert [(read.what, read.only) for read in reads] == [("source", None), ("pool", ((0, 32),))]
    trainer(method, tmp_path).run()
