import math

import pytest
import torch
from helpers import (
    RECIPE,
    make,
    two_batches,
)

from sdgbench.methods.ccsa import CCSA


def ccsa(folder, recipe=RECIPE, **params):
    return make(CCSA, folder, recipe, params=CCSA.Params(**params))


def line(*values):
    """Features on a line, where distances are differences."""
    return torch.tensor(values)[:, None].requires_grad_()


def test_the_loss_of_pairs_worked_out_by_hand(tmp_path):
    a, y_a = line(0.0, 2.0), torch.tensor([0, 1])
    b, y_b = line(0.6, 2.5, 1.0), torch.tensor([1, 1, 0])
    # a = 0: 0.6 and 2.5 away from the other class, 1.0 from its own;
    # a = 2: 1.4 and 0.5 away from its own class, 1.0 from the other.
    pushed = (1.5 - 0.6) ** 2 + 0 + (1.5 - 1.0) ** 2
    pulled = 1.0**2 + 1.4**2 + 0.5**2
    loss = ccsa(tmp_path, margin=1.5).alignment(a, y_a, b, y_b)
    assert loss.item() == pytest.approx((pushed + pulled) / 6, rel=1e-6)


def test_distances_are_over_all_dimensions(tmp_path):
    a, b = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]])
    label = torch.tensor([1])
    assert ccsa(tmp_path).alignment(a, label, b, label).item() == pytest.approx(25)


def test_only_kept_pairs_count(tmp_path):
    """One pair of one class, four of others, of which one is kept; all four are alike."""
    a, y_a = line(0.0), torch.tensor([0])
    b, y_b = line(0.5, 0.2, 0.2, 0.2, 0.2), torch.tensor([0, 1, 2, 3, 4])
    loss = ccsa(tmp_path, negatives=1).alignment(a, y_a, b, y_b)
    assert loss.item() == pytest.approx((0.5**2 + 0.8**2) / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("rows", "positives", "expected"),
    [
        (10, 4, 12),  # three for each
        (3, 2, 6),
        (3, 3, 6),  # all there are
        (3, 0, 0),
        (3, 9, 0),
    ],
)
def test_three_negatives_per_positive_or_all_there_are(rows, positives, expected, tmp_path):
    same = (torch.arange(rows * rows) < positives).view(rows, rows)
    chosen = ccsa(tmp_path).draw_negatives(same)
    assert int(chosen.sum()) == expected
    assert not (chosen & same).any()


def test_every_negative_has_its_chance(tmp_path):
    method, same = ccsa(tmp_path), torch.eye(4, dtype=torch.bool)[:, :3]
    torch.manual_seed(0)
    same[1:] = False  # one positive, 11 negatives
    drawn = sum(method.draw_negatives(same).int() for _ in range(1100))
    assert drawn[0, 0] == 0
    assert drawn.sum() == 3300
    others = drawn.flatten()[1:]
    assert 200 < others.min() <= others.max() < 400


@pytest.mark.parametrize(
    ("y_a", "y_b", "expected"),
    [
        ([0, 0], [1, 1], 0.0),  # no pair of one class, so none at all
        ([3, 3], [3, 3], (0 + 9 + 1 + 4) / 4),  # no other class
    ],
)
def test_batches_without_one_kind_of_pair(y_a, y_b, expected, tmp_path):
    a, b = line(0.0, 1.0), line(0.0, 3.0)
    loss = ccsa(tmp_path).alignment(a, torch.tensor(y_a), b, torch.tensor(y_b))
    loss.backward()
    assert loss.item() == pytest.approx(expected, abs=1e-6)
    assert a.grad.isfinite().all()
    assert b.grad.isfinite().all()


def test_equal_features_of_different_classes_have_a_gradient(tmp_path):
    """The root at 0 would give none; the floor makes it 0."""
    a, b = line(1.0), line(1.0, 1.0)
    loss = ccsa(tmp_path).alignment(a, torch.tensor([0]), b, torch.tensor([0, 1]))
    loss.backward()
    assert loss.item() == pytest.approx((1e-8 + (1 - 1e-4) ** 2) / 2, rel=1e-6)
    assert a.grad.tolist() == [[0.0]]


@pytest.mark.parametrize("normalise", [False, True])
def test_a_step_mixes_both_losses_over_both_batches(normalise, tmp_path):
    method = ccsa(tmp_path, weight=0.3, margin=2.0, negatives=100, normalise=normalise)
    x, y, x2, y2 = two_batches()
    with torch.no_grad():
        first, second = method.network.features(x), method.network.features(x2)
        logits = method.network.head(torch.cat([first, second])).tolist()
    first, second = first.tolist(), second.tolist()
    if normalise:
        first, second = (
            [[v / math.hypot(*z) for v in z] for z in part] for part in (first, second)
        )
    labels = [*y.tolist(), *y2.tolist()]
    cross = [
        math.log(sum(map(math.exp, row))) - row[k] for row, k in zip(logits, labels, strict=True)
    ]
    pairs = []
    for z, k in zip(first, y.tolist(), strict=True):
        for other, k2 in zip(second, y2.tolist(), strict=True):
            d = math.dist(z, other)
            pairs.append(d**2 if k == k2 else max(0.0, 2.0 - d) ** 2)
    assert sum(k == k2 for k in y.tolist() for k2 in y2.tolist()) > 0
    expected = 0.7 * sum(cross) / 16 + 0.3 * sum(pairs) / 64
    assert method.train_step(x, y, x2, y2).item() == pytest.approx(expected, rel=1e-5)


def test_the_alignment_trains_the_features_and_not_the_classifier(tmp_path):
    method = ccsa(tmp_path, weight=1.0)
    method.train_step(*two_batches())
    assert method.network.body[0].weight.grad.abs().sum() > 0
    assert method.network.classifier.weight.grad.abs().sum() == 0


@pytest.mark.parametrize(
    "bad", [{"weight": 1.1}, {"weight": -0.1}, {"margin": -1.0}, {"negatives": -1}]
)
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="ccsa needs"):
        CCSA.Params(**bad)
