"""What a method's tests should show: the loss is right, and nothing else differs from ERM."""

import math

import pytest
import torch
from torch import nn

from sdgbench.conformance import MethodHarness, difference, weights
from sdgbench.errors import UserError


class FirstPixels(nn.Module):
    """A network whose logits can be read off the image: its first two pixels."""

    def forward(self, x):
        """Take the pixels."""
        return x.flatten(1)[:, :2]


def test_the_loss_against_a_value_computed_by_hand(tmp_path):
    """Two images, each sure of its own class, mixed 3 to 1."""
    method = MethodHarness("mixup", "digits-mini", tmp_path).new()
    method.network = FirstPixels()
    x = torch.zeros(2, 3, 1, 2)
    x[0, 0, 0, 0] = x[1, 0, 0, 1] = 1.0
    y, other = torch.tensor([0, 1]), torch.tensor([1, 0])
    loss = method.mixed_loss(x, y, 0.75, other).item()
    # Both mixed images have logits 3/4 for their own class and 1/4 for the other.
    own = -math.log(math.exp(0.75) / (math.exp(0.75) + math.exp(0.25)))
    others = -math.log(math.exp(0.25) / (math.exp(0.75) + math.exp(0.25)))
    assert loss == pytest.approx(0.75 * own + 0.25 * others, abs=1e-6)
    assert loss == pytest.approx(0.599077, abs=1e-5)


def test_an_unmixed_batch_has_the_plain_loss(tmp_path):
    """A share of 1 leaves the batch as it is."""
    method = MethodHarness("mixup", "digits-mini", tmp_path).new()
    x, y = torch.rand(4, 3, 32, 32), torch.tensor([1, 2, 3, 4])
    mixed = method.mixed_loss(x, y, 1.0, torch.tensor([3, 2, 1, 0]))
    assert torch.equal(mixed, method.task.loss(method.network(x), y))


@pytest.mark.parametrize("dataset", ["digits-mini", "streets-mini"])
def test_without_mixing_it_is_erm_bit_for_bit(dataset, tmp_path):
    """For classification and for segmentation."""
    mixup = MethodHarness("mixup", dataset, tmp_path / "mixup", alpha="0").uninterrupted
    erm = MethodHarness("erm", dataset, tmp_path / "erm").uninterrupted
    assert difference(weights(mixup), weights(erm)) is None


def test_with_mixing_it_is_not_erm(tmp_path):
    """The default mixes."""
    mixup = MethodHarness("mixup", "digits-mini", tmp_path / "mixup").uninterrupted
    erm = MethodHarness("erm", "digits-mini", tmp_path / "erm").uninterrupted
    assert difference(weights(mixup), weights(erm)) is not None


def test_a_negative_alpha_is_refused(tmp_path):
    """Before anything is trained."""
    with pytest.raises(UserError, match="alpha must not be below 0"):
        MethodHarness("mixup", "digits-mini", tmp_path, alpha="-1").new()
