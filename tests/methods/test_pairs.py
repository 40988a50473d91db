"""What CCSA and d-SNE share: two batches of the source, and a running length of features."""

from dataclasses import replace

import pytest
import torch
from helpers import RECIPE, assert_erm_without_weight, make, trainer, two_batches

from sdgbench.methods.ccsa import CCSA
from sdgbench.methods.dsne import DSNE

RECIPES = [
    RECIPE,
    replace(RECIPE, network="wrn-10-1", optimiser="sgd", lr=0.05, momentum=0.9, schedule="linear"),
]
pytestmark = pytest.mark.parametrize("cls", [CCSA, DSNE])


def test_it_follows_the_length_of_features(cls, tmp_path):
    method = make(cls, tmp_path, params=cls.Params(normalise=True))
    x, y, x2, y2 = two_batches()
    with torch.no_grad():
        first = method.network.features(torch.cat([x, x2])).norm(dim=1).mean()
    method.train_step(x, y, x2, y2)
    assert method.feature_norm.item() == pytest.approx(first.item(), rel=1e-5)
    with torch.no_grad():
        second = method.network.features(torch.cat([x, x2])).norm(dim=1).mean()
    method.train_step(x, y, x2, y2)
    expected = 0.99 * first + 0.01 * second
    assert method.feature_norm.item() == pytest.approx(expected.item(), rel=1e-5)
    assert not method.feature_norm.requires_grad


@pytest.mark.parametrize("recipe", RECIPES, ids=["adam", "batch-norm"])
def test_without_weight_it_is_erm_step_by_step(cls, recipe, tmp_path):
    assert_erm_without_weight(cls, tmp_path, recipe)


def test_it_reads_two_different_batches_a_step(cls, tmp_path):
    method = make(cls, tmp_path, params=cls.Params())
    run = trainer(method, tmp_path / "run")
    (x, _), (x2, _) = (feed.next() for feed in run._feeds_of(run.plan[0]))
    assert x.shape == x2.shape
    assert not torch.equal(x, x2)
