from dataclasses import replace

import pytest
import torch
from helpers import RECIPE, assert_same_weights, erm, make, trainer, weights_at_each_step
from torch import nn
from torch.nn import functional as F

from sdgbench import networks, registry
from sdgbench.networks import Network

QUICKLY = {"T_min": 2, "T_adv": 2, "wae_epochs": 1}
BATCH_NORM = replace(
    RECIPE,
    network="wrn-10-1",
    optimiser="sgd",
    lr=0.05,
    momentum=0.9,
    weight_decay=5e-4,
    augment="crop-flip",
    schedule="linear",
)


def built(folder, name="mada", recipe=RECIPE, **params):
    cls = registry.get("method", name).load()
    return make(cls, folder, recipe, params=cls.Params(**(QUICKLY | params)))


@pytest.mark.parametrize("recipe", [RECIPE, BATCH_NORM], ids=["convnet", "batch-norm"])
def test_without_domains_it_is_erm_step_by_step(recipe, tmp_path):
    ours = weights_at_each_step(built(tmp_path / "a", recipe=recipe, K=0), tmp_path / "a")
    plain = weights_at_each_step(make(erm(), tmp_path / "b", recipe), tmp_path / "b")
    assert len(ours) == len(plain) == 12
    for first, second in zip(ours, plain, strict=True):
        assert_same_weights(first, second)


def test_with_domains_it_is_not(tmp_path):
    ours = weights_at_each_step(built(tmp_path / "a"), tmp_path / "a")
    plain = weights_at_each_step(make(erm(), tmp_path / "b"), tmp_path / "b")
    assert_same_weights(ours[1], plain[1])  # T_min = 2 steps
    assert not torch.equal(ours[2]["body.0.weight"], plain[2]["body.0.weight"])


# The plan ----------------------------------------------------------------------------------


def test_the_plan_is_that_of_the_released_code(tmp_path):
    cls = registry.get("method", "mada").load()
    method = make(cls, tmp_path, replace(RECIPE, steps=10_000, batch=32))
    object.__setattr__(method._context, "source_size", 10_000)
    plan = method.plan()
    names = [phase.name for phase in plan]
    assert names == [
        "wae",
        "train",
        "generate",
        "wae",
        "train",
        "generate",
        "generate",
        "wae",
        "train",
        "generate",
        "generate",
        "train",
    ]
    assert [p.steps for p in plan if p.name == "train"] == [100, 100, 100, 9_700]
    images = [(p.reads[0].what, p.reads[0].images) for p in plan if p.name == "generate"]
    assert images == [
        ("source", 9_952),
        ("pool", 155 * 16),
        ("source", 155 * 16),
        ("pool", 103 * 22),
        ("source", 103 * 10),
    ]
    wae = [(p.steps, p.reads[0].only) for p in plan if p.name == "wae"]
    assert wae == [(20 * 312, None), (20 * 311, ((0, 9_952),)), (20 * 155, ((9_952, 14_912),))]


def test_earlier_domains_alone_are_perturbed_again(tmp_path):
    """The part of a domain that starts from the pool reads what was there before it began."""
    plan = built(tmp_path, K=3).plan()
    reads = [p.reads[0].only for p in plan if p.name == "generate" and p.reads[0].what == "pool"]
    assert reads == [((0, 32),), ((0, 48),)]  # 40 images in batches of 8: 4, 2 and 1 of them


def test_per_domain_meta_loss_reads_each_domain(tmp_path):
    plan = built(tmp_path, K=2, meta_loss="per-domain").plan()
    assert [read.only for read in plan[-1].reads] == [None, ((0, 32),), ((32, 48),)]
    trainer(built(tmp_path, K=2, meta_loss="per-domain"), tmp_path).run()


@pytest.mark.parametrize(
    ("params", "trained"),
    [
        ({}, 3),
        ({"relaxation": "ae"}, 3),
        ({"relaxation": "literal"}, 3),
        ({"relaxation": "pixel"}, 0),
        ({"beta": 0.0}, 0),
        ({"K": 0}, 0),
    ],
)
def test_v_is_trained_only_where_it_is_needed(params, trained, tmp_path):
    plan = built(tmp_path, **params).plan()
    assert sum(phase.name == "wae" for phase in plan) == trained


# The objective -----------------------------------------------------------------------------


@pytest.mark.parametrize("relaxation", ["wae", "ae", "pixel", "literal"])
def test_the_objective_by_hand(relaxation, tmp_path):
    method = built(tmp_path, relaxation=relaxation, alpha=0.5, beta=7.0)
    x, y = torch.rand(3, 3, 32, 32), torch.tensor([1, 2, 3])
    x_plus = torch.rand(3, 3, 32, 32)
    found = method.objective(x, y)(x_plus)
    network, V = method.network, method.wae
    first, second = {
        "wae": (V(x), V(x_plus)),
        "ae": (V(x), V(x_plus)),
        "pixel": (x, x_plus),
        "literal": (x_plus, V(x_plus)),
    }[relaxation]
    for i in range(3):
        logits = network(x_plus)[i]
        loss = -torch.log(logits.exp()[y[i]] / logits.exp().sum())
        constraint = (network.features(x)[i] - network.features(x_plus)[i]).pow(2).sum() / 32
        relax = (first[i] - second[i]).pow(2).sum() / 3072
        expected = loss - 0.5 * constraint + 7 * relax
        assert found[i].item() == pytest.approx(expected.item(), rel=1e-4)


def test_the_first_step_is_pure_loss_ascent(tmp_path):
    """At x+ = x the constraint's and the relaxation's gradients are exactly zero."""
    method = built(tmp_path)
    x, y = torch.rand(2, 3, 32, 32), torch.tensor([1, 2])
    start = x.clone().requires_grad_()
    (full,) = torch.autograd.grad(method.objective(x, y)(start).sum(), start)
    loss = F.cross_entropy(method.network(start), y, reduction="sum")
    (plain,) = torch.autograd.grad(loss, start)
    assert torch.allclose(full, plain, atol=1e-7)


def test_anchors_are_computed_once(tmp_path):
    method = built(tmp_path, T_adv=5)
    x, y = torch.rand(4, 3, 32, 32), torch.arange(4)
    method.network.images_forward = 0
    method.generate_step(x, y)
    assert method.network.images_forward == 4 * (1 + 5)


# The meta step -----------------------------------------------------------------------------


class Small(Network):
    """Smooth, so that finite differences are exact enough; double precision."""

    def __init__(self, batch_norm=False):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.Tanh())
        if batch_norm:
            self.body.append(nn.BatchNorm1d(5))
        self.classifier = nn.Linear(5, 3)
        self.double()

    def embed(self, x):
        return self.body(x)

    def head(self, z):
        return self.classifier(z)


def small(folder, batch_norm=False, **params):
    method = built(folder, inner_lr=0.3, **params)
    torch.manual_seed(3)
    method.network = Small(batch_norm)
    method.optimizer = torch.optim.SGD(method.network.parameters(), 1e-4)
    torch.manual_seed(4)
    batches = []
    for _ in range(2):
        batches += [torch.rand(6, 3, 2, 2, dtype=torch.double), torch.randint(0, 3, (6,))]
    return method, batches


def flat(tensors):
    return torch.cat([t.reshape(-1) for t in tensors])


def gradient(method, batches):
    method.train_step(*batches)
    return flat(w.grad for w in method.network.parameters())


def loss_of(network, theta, x, y):
    shapes = [w.shape for w in network.parameters()]
    parts = torch.split(theta, [s.numel() for s in shapes])
    named = {
        name: part.view(shape)
        for (name, _), part, shape in zip(network.named_parameters(), parts, shapes, strict=True)
    }
    return F.cross_entropy(torch.func.functional_call(network, named, (x,)), y)


def meta_objective(network, theta, x, y, x2, y2, lr):
    """(L_S(theta) + L_A(theta - lr grad L_S)) / 2, written without the method."""
    start = theta.detach().clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss_of(network, start, x, y), start)
    moved = theta.detach() - lr * grad
    return (loss_of(network, theta, x, y) + loss_of(network, moved, x2, y2)).item() / 2


def test_the_meta_gradient_against_finite_differences(tmp_path):
    method, batches = small(tmp_path)
    theta = flat(w.detach() for w in method.network.parameters())
    found = gradient(method, batches)
    size = 1e-5
    expected = torch.zeros_like(theta)
    for i in range(len(theta)):
        nudge = torch.zeros_like(theta)
        nudge[i] = size
        up, down = (
            meta_objective(method.network, theta + s * nudge, *batches, lr=0.3) for s in (1, -1)
        )
        expected[i] = (up - down) / (2 * size)
    assert torch.allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("meta_loss", ["pooled", "per-domain"])
def test_the_meta_gradient_against_its_closed_form(meta_loss, tmp_path):
    """Source gradient plus (I - eta H) g, with the full Hessian H and g taken after the step."""
    method, batches = small(tmp_path, meta_loss=meta_loss)
    x, y, x2, y2 = batches
    network = method.network
    theta = flat(w.detach() for w in network.parameters()).requires_grad_()
    (source,) = torch.autograd.grad(loss_of(network, theta, x, y), theta)
    hessian = torch.autograd.functional.hessian(lambda t: loss_of(network, t, x, y), theta)
    moved = (theta - 0.3 * source).detach().requires_grad_()
    (after,) = torch.autograd.grad(loss_of(network, moved, x2, y2), moved)
    expected = source + after - 0.3 * hessian @ after
    found = gradient(method, batches)
    assert torch.allclose(found, expected / (2 if meta_loss == "pooled" else 1), atol=1e-10)


TASK_NETWORKS = [
    "convnet-2",
    "wrn-10-1",
    "timm:test_resnet",
    "timm:test_efficientnet",  # batch norm with its activation inside
    "timm:test_vit",  # layer norm and attention
]


@pytest.mark.parametrize("name", TASK_NETWORKS)
def test_the_meta_gradient_of_the_task_networks_is_that_of_a_graph_through_the_step(name, tmp_path):
    method = built(tmp_path, inner_lr=0.3)
    method.network = networks.build(name, 10, (32, 32)).double().train()
    method.optimizer = torch.optim.SGD(method.network.parameters(), 1e-4)
    x, x2 = torch.rand(2, 4, 3, 32, 32, dtype=torch.double)
    y, y2 = torch.randint(0, 10, (2, 4))
    theta = flat(w.detach() for w in method.network.parameters()).requires_grad_()
    with method.twice_differentiable():
        source = loss_of(method.network, theta, x, y)
    (grad,) = torch.autograd.grad(source, theta, create_graph=True)
    both = source + loss_of(method.network, theta - 0.3 * grad, x2, y2)
    (expected,) = torch.autograd.grad(both / 2, theta)
    assert torch.allclose(gradient(method, [x, y, x2, y2]), expected, atol=1e-10)


def test_first_order_drops_the_hessian(tmp_path):
    method, batches = small(tmp_path, first_order=True)
    x, y, x2, y2 = batches
    network = method.network
    theta = flat(w.detach() for w in network.parameters()).requires_grad_()
    (source,) = torch.autograd.grad(loss_of(network, theta, x, y), theta)
    moved = (theta - 0.3 * source).detach().requires_grad_()
    (after,) = torch.autograd.grad(loss_of(network, moved, x2, y2), moved)
    assert torch.allclose(gradient(method, batches), (source + after) / 2, atol=1e-10)


def test_without_meta_learning_both_losses_are_at_the_same_weights(tmp_path):
    method, batches = small(tmp_path, meta=False)
    x, y, x2, y2 = batches
    both = (F.cross_entropy(method.network(x), y) + F.cross_entropy(method.network(x2), y2)) / 2
    expected = flat(torch.autograd.grad(both, list(method.network.parameters())))
    assert torch.allclose(gradient(method, batches), expected, atol=1e-12)


def test_an_inner_rate_of_zero_is_no_meta_learning(tmp_path):
    with_meta, batches = small(tmp_path)
    object.__setattr__(with_meta.params, "inner_lr", 0.0)
    without, _ = small(tmp_path, meta=False)
    assert torch.allclose(gradient(with_meta, batches), gradient(without, batches), atol=1e-12)


def test_the_inner_rate_is_the_current_outer_one_by_default(tmp_path):
    asked, batches = small(tmp_path)
    object.__setattr__(asked.params, "inner_lr", RECIPE.lr / 2)
    default, _ = small(tmp_path)
    object.__setattr__(default.params, "inner_lr", None)
    default.learning_rate = lambda: RECIPE.lr / 2  # as a schedule has it half-way
    assert torch.equal(gradient(default, batches), gradient(asked, batches))


def test_the_meta_step_reports_both_losses(tmp_path):
    """Of the source at theta, and of the augmented batch after the inner step."""
    method, (x, y, x2, y2) = small(tmp_path)
    network = method.network
    theta = flat(w.detach() for w in network.parameters()).requires_grad_()
    source = loss_of(network, theta, x, y)
    (grad,) = torch.autograd.grad(source, theta)
    expected = (source + loss_of(network, theta - 0.3 * grad, x2, y2)) / 2
    assert torch.allclose(method.train_step(x, y, x2, y2), expected, atol=1e-12)


def test_batch_norm_statistics_follow_both_passes(tmp_path):
    """They are the network's own, updated once by the source and once by the augmented batch."""
    method, (x, y, x2, y2) = small(tmp_path, batch_norm=True)
    object.__setattr__(method.params, "inner_lr", 0.0)  # so that both passes are at theta
    twin = Small(batch_norm=True)
    twin.load_state_dict(method.network.state_dict())
    method.train_step(x, y, x2, y2)
    twin(x), twin(x2)
    norm, expected = method.network.body[-1], twin.body[-1]
    assert torch.allclose(norm.running_mean, expected.running_mean)
    assert torch.allclose(norm.running_var, expected.running_var)
    assert norm.num_batches_tracked == 2


def test_the_meta_gradient_with_batch_norm_against_its_closed_form(tmp_path):
    method, batches = small(tmp_path, batch_norm=True)
    x, y, x2, y2 = batches
    network = Small(batch_norm=True)
    network.load_state_dict(method.network.state_dict())
    theta = flat(w.detach() for w in network.parameters()).requires_grad_()
    (source,) = torch.autograd.grad(loss_of(network, theta, x, y), theta)
    hessian = torch.autograd.functional.hessian(lambda t: loss_of(network, t, x, y), theta)
    moved = (theta - 0.3 * source).detach().requires_grad_()
    (after,) = torch.autograd.grad(loss_of(network, moved, x2, y2), moved)
    expected = (source + after - 0.3 * hessian @ after) / 2
    assert torch.allclose(gradient(method, batches), expected, atol=1e-10)


# Variants ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("mada-no-relax", "beta", 0.0),
        ("mada-no-const", "alpha", 0.0),
        ("mada-no-meta", "meta", False),
    ],
)
def test_ablations_differ_in_one_parameter(name, key, value):
    ablated = vars(registry.get("method", name).load().Params())
    full = vars(registry.get("method", "mada").load().Params())
    assert {k: v for k, v in ablated.items() if v != full[k]} == {key: value}


def test_without_relaxation_images_stay_nearer(tmp_path):
    x, y = torch.rand(8, 3, 32, 32), torch.arange(8)
    moved = {}
    for beta in (0.0, 2000.0):
        method = built(tmp_path / str(beta), beta=beta, T_adv=10)
        method.generate_step(x, y)
        images, _ = method.pool.gather(torch.arange(8).numpy())
        moved[beta] = (images - x).square().mean().item()
    assert moved[2000.0] > moved[0.0]
