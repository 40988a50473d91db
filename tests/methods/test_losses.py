"""The losses that several methods share, against values computed by hand."""

import math

import pytest
import torch

from sdgbench.methods import _losses
from sdgbench.methods._losses import js_divergence


def kl(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def logits_of(*rows):
    return torch.tensor(rows, dtype=torch.float64).log()


def test_the_divergence_is_the_mean_distance_to_the_mixture():
    first, second, third = [0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]
    mixture = [(a + b + c) / 3 for a, b, c in zip(first, second, third, strict=True)]
    expected = sum(kl(p, mixture) for p in (first, second, third)) / 3
    loss = js_divergence([logits_of(first), logits_of(second), logits_of(third)])
    assert loss.item() == pytest.approx(expected, rel=1e-12)


def test_it_is_a_mean_over_images_and_pixels():
    """Two images of one pixel each are two pixels of one image."""
    torch.manual_seed(0)
    views = [torch.randn(2, 4, dtype=torch.float64) for _ in range(3)]
    as_pixels = [view.T[None, :, None] for view in views]  # (1, class, 1, pixel)
    each = [js_divergence([view[i : i + 1] for view in views]).item() for i in (0, 1)]
    assert js_divergence(views).item() == pytest.approx(sum(each) / 2, rel=1e-12)
    assert js_divergence(as_pixels).item() == pytest.approx(sum(each) / 2, rel=1e-12)


def test_certain_and_contrary_predictions_have_a_finite_gradient():
    views = [torch.tensor([[80.0, -80.0, -200.0]]), torch.tensor([[-80.0, 80.0, -200.0]])]
    views = [view.requires_grad_() for view in views]
    loss = js_divergence(views)
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2), rel=1e-6)
    assert all(view.grad.isfinite().all() for view in views)


def test_the_mixture_is_clamped_at_1e_7():
    """A class with p = 1e-9 in both views: its logarithm is compared with that of 1e-7."""
    p = [1 - 1e-9, 1e-9]
    expected = 1e-9 * math.log(1e-9 / 1e-7)
    loss = js_divergence([logits_of(p), logits_of(p)])
    assert loss.item() == pytest.approx(expected, rel=1e-3)


def test_entropy_by_hand():
    """Softmax (1/2, 1/4, 1/4) has 1.5 bits; equal logits have log 3 nats."""
    logits = torch.tensor([[math.log(2), 0.0, 0.0], [5.0, 5.0, 5.0], [200.0, 0.0, 0.0]])
    expected = [1.5 * math.log(2), math.log(3), 0.0]
    assert _losses.entropy(logits).tolist() == pytest.approx(expected, abs=1e-6)


def test_entropy_of_pixels_is_their_mean():
    logits = torch.zeros(2, 4, 1, 2)
    logits[0, 0, 0, 0] = 300.0  # one certain pixel of the two
    assert _losses.entropy(logits).tolist() == pytest.approx([math.log(4) / 2, math.log(4)])


def test_supervised_contrast_by_hand():
    """Classes a, a, b, a: the lone b counts as 0, the others average over their positives."""
    torch.manual_seed(0)
    z, labels = torch.randn(4, 5, dtype=torch.float64), torch.tensor([0, 0, 1, 0])
    u = z / z.norm(dim=1, keepdim=True)
    total = 0.0
    for i in (0, 1, 3):
        scores = {j: float(u[i] @ u[j]) / 0.07 for j in range(4) if j != i}
        normaliser = math.log(sum(math.exp(score) for score in scores.values()))
        positives = [j for j in (0, 1, 3) if j != i]
        total -= sum(scores[j] - normaliser for j in positives) / len(positives)
    found = _losses.supervised_contrast(z, labels)
    assert found.item() == pytest.approx(total / 4, rel=1e-5)


def test_supervised_contrast_has_a_finite_gradient_for_a_single_image():
    z = torch.randn(1, 5, requires_grad=True)
    loss = _losses.supervised_contrast(z, torch.tensor([0]))
    loss.backward()
    assert loss.item() == 0
    assert z.grad.isfinite().all()
