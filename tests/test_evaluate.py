from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import RECIPE, erm, make, toy_domain

from sdgbench import checkpoint
from sdgbench.dataset import Dataset, MissingData
from sdgbench.device import Device
from sdgbench.evaluate import average, evaluate, score_domain
from sdgbench.feed import DeviceImages
from sdgbench.progress import Silent
from sdgbench.task import Classification


class Toy(Dataset):
    """Two targets; counts how often each is opened."""

    name = "toy"
    task = Classification(10)

    def __init__(self):
        self.options, self.opened = None, []

    @classmethod
    def target_tags(cls, options):
        return {"near": {"distance": 1}, "far": {"distance": 2}}

    def target(self, name):
        self.opened.append(name)
        return toy_domain(name, count=50, seed=len(name))


def test_accuracy_is_the_share_of_right_decisions(tmp_path):
    method = make(erm(), tmp_path)
    method.network.eval()
    domain = toy_domain(count=50)
    result, decided = score_domain(method, DeviceImages(domain, Device("cpu")), 16)
    x = torch.from_numpy(domain.images).float() / 255
    with torch.inference_mode():
        expected = method.network(x).argmax(1).numpy()
    assert np.array_equal(decided, expected)
    assert decided.dtype == np.uint8
    assert result["accuracy"] == pytest.approx(np.mean(expected == domain.labels))
    assert result["count"] == 50


def test_each_target_is_opened_once_for_all_choices(tmp_path):
    method, dataset = make(erm(), tmp_path), Toy()
    first = checkpoint.copy_weights(method)
    second = {"network": {k: torch.zeros_like(v) for k, v in first["network"].items()}}
    second["network"]["classifier.bias"][3] = 1.0  # always says 3
    found = evaluate(method, dataset, ["near", "far"], {"last": first, "val": second}, Silent())
    results, domains, decisions = found.results, found.domains, found.decisions
    assert dataset.opened == ["near", "far"]
    assert set(decisions) == {"last/near", "val/near", "last/far", "val/far"}
    assert (decisions["val/far"] == 3).all()
    truth = toy_domain("far", count=50, seed=3).labels
    assert results["val"]["far"]["accuracy"] == pytest.approx((truth == 3).mean())
    assert domains["far"]["count"] == 50
    assert domains["far"]["tags"] == {"distance": 2}
    assert domains["far"]["sha256"] == toy_domain("far", count=50, seed=3).sha256()


@pytest.mark.parametrize("network", ["convnet-4", "wrn-10-1"])
def test_decisions_do_not_depend_on_batch_size_or_order(network, tmp_path):
    method = make(erm(), tmp_path, replace(RECIPE, network=network))
    for module in checkpoint.modules(method).values():
        module.eval()
    domain = toy_domain(count=37)
    order = np.random.default_rng(0).permutation(37)
    shuffled = replace(domain, images=domain.images[order], labels=domain.labels[order])
    whole = score_domain(method, DeviceImages(domain, Device("cpu")), 64)[1]
    single = score_domain(method, DeviceImages(domain, Device("cpu")), 1)[1]
    other = score_domain(method, DeviceImages(shuffled, Device("cpu")), 7)[1]
    assert np.array_equal(whole, single)
    assert np.array_equal(whole[order], other)


def test_at_most_so_many_images_always_the_same(tmp_path):
    domain = toy_domain(count=50)
    taken = domain.take(20)
    assert len(taken) == 20
    assert taken.sha256() == domain.take(20).sha256() != domain.sha256()
    assert domain.take(None) is domain.take(50) is domain


def test_a_target_without_data_is_named_and_left_out(tmp_path):
    class Partly(Toy):
        def target(self, name):
            if name == "near":
                raise MissingData("not there")
            return super().target(name)

    method = make(erm(), tmp_path)
    choices = {"last": checkpoint.copy_weights(method)}
    found = evaluate(method, Partly(), ["near", "far"], choices, Silent())
    assert found.missing == ["near"]
    assert list(found.results["last"]) == list(found.domains) == ["far"]


def test_averages_say_how_many_domains_they_cover():
    scores = {"a": {"m": 0.5}, "b": {"m": 0.2}, "c": {"m": 0.8}}
    found = average(scores, "m", {"average": ["a", "b", "c"], "few": ["a", "gone"], "none": ["x"]})
    assert found["average"] == pytest.approx(0.5)
    assert (found["worst"], found["worst_domain"], found["domains"]) == (0.2, "b", 3)
    assert found["averages"] == {
        "average": {"mean": pytest.approx(0.5), "domains": 3},
        "few": {"mean": 0.5, "domains": 1},
    }
