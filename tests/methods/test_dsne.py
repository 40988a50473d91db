import math

import pytest
import torch
from helpers import (
    RECIPE,
    make,
    two_batches,
)

from sdgbench.methods.dsne import DSNE


def dsne(folder, recipe=RECIPE, **params):
    return make(DSNE, folder, recipe, params=DSNE.Params(**params))


def line(*values):
    """Features on a line, where distances are differences."""
    return torch.tensor(values)[:, None].requires_grad_()


def test_the_loss_of_each_anchor_worked_out_by_hand(tmp_path):
    distance = torch.tensor([[4.0, 1.0, 9.0, 2.0], [5.0, 0.5, 8.0, 7.0]])
    same = torch.tensor([[True, True, False, False], [False, True, False, False]])
    # Farthest of one class 4, nearest of another 2; then 0.5 and 5, which is far enough.
    assert dsne(tmp_path).per_anchor(distance, same).tolist() == [3.0, 0.0]
    assert dsne(tmp_path, margin=6.0).per_anchor(distance, same).tolist() == [8.0, 1.5]


def test_both_batches_are_anchors_in_turn(tmp_path):
    a, y_a = line(0.0, 2.0), torch.tensor([0, 1])
    b, y_b = line(1.0, 2.5, 3.0), torch.tensor([0, 1, 1])
    # Squared distances: from 0: 1, 6.25, 9; from 2: 1, 0.25, 1.
    from_a = [max(0, 1 - 6.25 + 1), max(0, 1 - 1 + 1)]
    from_b = [max(0, 1 - 1 + 1), max(0, 0.25 - 6.25 + 1), max(0, 1 - 9 + 1)]
    expected = (sum(from_a) / 2 + sum(from_b) / 3) / 2
    assert dsne(tmp_path).alignment(a, y_a, b, y_b).item() == pytest.approx(expected)
    assert dsne(tmp_path).alignment(b, y_b, a, y_a).item() == pytest.approx(expected)


def test_distances_are_squared_and_over_all_dimensions(tmp_path):
    a, b = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [6.0, 8.0]])
    y_a, y_b = torch.tensor([1]), torch.tensor([0, 1])
    # As anchor a has 100 against 25; b's first has no image of its class, its second no other.
    expected = ((100 - 25 + 1) + (0 + 1) / 2) / 2
    assert dsne(tmp_path).alignment(a, y_a, b, y_b).item() == pytest.approx(expected)


def test_an_anchor_without_its_class_has_its_farthest_at_0(tmp_path):
    distance = torch.tensor([[0.25, 3.0], [1.5, 3.0]], requires_grad=True)
    loss = dsne(tmp_path).per_anchor(distance, torch.zeros(2, 2, dtype=torch.bool))
    assert loss.tolist() == [0.75, 0.0]
    loss.sum().backward()
    assert distance.grad.tolist() == [[-1.0, 0.0], [0.0, 0.0]]


def test_an_anchor_without_another_class_has_the_margin_and_no_gradient(tmp_path):
    distance = torch.tensor([[0.25, 3.0, 3.0], [5.0, 1.0, 2.0]], requires_grad=True)
    loss = dsne(tmp_path, margin=2.0).per_anchor(distance, torch.ones(2, 3, dtype=torch.bool))
    assert loss.tolist() == [2.0, 2.0]
    loss.sum().backward()
    assert torch.allclose(distance.grad, torch.zeros(2, 3), atol=1e-6)


def test_gradients_pull_the_farthest_and_push_the_nearest(tmp_path):
    distance = torch.tensor([[4.0, 1.0, 9.0, 2.0]], requires_grad=True)
    same = torch.tensor([[True, True, False, False]])
    dsne(tmp_path).per_anchor(distance, same).sum().backward()
    assert distance.grad.tolist() == [[1.0, 0.0, 0.0, -1.0]]


@pytest.mark.parametrize("normalise", [False, True])
def test_a_step_mixes_both_losses_over_both_batches(normalise, tmp_path):
    method = dsne(tmp_path, weight=0.3, margin=2.0, normalise=normalise)
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

    def rows(anchors, own, others, theirs):
        losses = []
        for z, k in zip(anchors, own, strict=True):
            far = [math.dist(z, o) ** 2 for o, t in zip(others, theirs, strict=True) if t == k]
            near = [math.dist(z, o) ** 2 for o, t in zip(others, theirs, strict=True) if t != k]
            losses.append(max(0.0, max(far, default=0.0) - min(near) + 2.0))
        return sum(losses) / len(losses)

    there = rows(first, y.tolist(), second, y2.tolist())
    back = rows(second, y2.tolist(), first, y.tolist())
    expected = 0.7 * sum(cross) / 16 + 0.3 * (there + back) / 2
    assert method.train_step(x, y, x2, y2).item() == pytest.approx(expected, rel=1e-5)


def test_the_separation_trains_the_features_and_not_the_classifier(tmp_path):
    method = dsne(tmp_path, weight=1.0)
    method.train_step(*two_batches())
    assert method.network.body[0].weight.grad.abs().sum() > 0
    assert method.network.classifier.weight.grad.abs().sum() == 0


def test_batches_of_one_class_only_classify(tmp_path):
    """All rows lack another class: the margin is left, and the features follow the class loss."""
    x, _, x2, _ = two_batches()
    y = torch.zeros(8, dtype=torch.long)
    method = dsne(tmp_path, weight=1.0)
    assert method.train_step(x, y, x2, y).item() == pytest.approx(1.0)
    assert method.network.body[0].weight.grad.abs().max() < 1e-5


@pytest.mark.parametrize("bad", [{"weight": 1.1}, {"weight": -0.1}, {"margin": -1.0}])
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="dsne needs"):
        DSNE.Params(**bad)
