from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import RECIPE, erm, make, toy_domain
from torch import nn

from sdgbench.data.domain import Domain
from sdgbench.dataset import Dataset
from sdgbench.errors import MissingData
from sdgbench.evaluation.evaluator import evaluate, score_domain, summarise
from sdgbench.records.schema import Average
from sdgbench.records.scores import DomainScore
from sdgbench.reporter import Silent
from sdgbench.task import Classification
from sdgbench.training import checkpoint
from sdgbench.training.device import Device
from sdgbench.training.feeds import DeviceImages
from sdgbench.training.streaming import open_images


class Toy(Dataset):
    """Two targets; counts how often each is opened."""

    name = "toy"
    task = Classification(10)

    def __init__(self):
        self.options, self.recipe_used, self.opened = None, RECIPE, []

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
    assert result.accuracy == pytest.approx(np.mean(expected == domain.labels))
    assert result.count == 50


class Constant(nn.Module):
    """Predicts the last class, whatever it sees."""

    def __init__(self, classes):
        super().__init__()
        self.classes = classes

    def forward(self, x):
        return torch.eye(self.classes)[-1].expand(len(x), -1)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("classes", "kind"), [(256, np.uint8), (300, np.int16), (1000, np.int16)])
def test_many_classes_are_scored_right(classes, kind, streams, tmp_path):
    """A label of 299 that is stored in eight bits would be one of 43."""
    method = make(erm(), tmp_path)
    method._context = replace(method._context, task=Classification(classes))
    method.network = Constant(classes)
    labels = np.arange(3 * classes) % classes
    shape = (len(labels), 3, 8, 8)
    domain = Domain("many", np.zeros(shape, np.uint8), labels, streams)
    with closing(open_images(domain, Device("cpu"))) as images:
        score, predicted = score_domain(method, images, 64)
        assert images.gather(np.arange(len(labels)))[1].tolist() == labels.tolist()
    assert predicted.dtype == kind
    assert (predicted == classes - 1).all()
    assert score.correct == 3
    assert score.accuracy == pytest.approx(1 / classes)
    assert score.class_accuracy[-1] == 1
    assert not any(score.class_accuracy[:-1])


@pytest.mark.parametrize("labels", [np.zeros(2), np.array(["a", "b"]), np.array([True, False])])
def test_labels_that_are_not_integers_are_refused(labels):
    with pytest.raises(ValueError, match="odd: labels must be integers"):
        Domain("odd", np.zeros((2, 3, 8, 8), np.uint8), labels)


def test_each_target_is_opened_once_for_all_choices(tmp_path):
    method, dataset = make(erm(), tmp_path), Toy()
    first = checkpoint.copy_weights(method)
    second = {"network": {k: torch.zeros_like(v) for k, v in first["network"].items()}}
    second["network"]["classifier.bias"][3] = 1.0  # always says 3
    found = evaluate(method, dataset, ["near", "far"], {"last": first, "val": second}, Silent())
    results, domains, predictions = found.results, found.domains, found.predictions
    assert dataset.opened == ["near", "far"]
    assert set(predictions) == {"last/near", "val/near", "last/far", "val/far"}
    assert (predictions["val/far"] == 3).all()
    truth = toy_domain("far", count=50, seed=3).labels
    assert results["val"]["far"].accuracy == pytest.approx((truth == 3).mean())
    assert domains["far"].count == 50
    assert domains["far"].tags == {"distance": 2}
    assert domains["far"].sha256 == toy_domain("far", count=50, seed=3).sha256()


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
    taken = domain.subsample(20)
    assert len(taken) == 20
    assert taken.sha256() == domain.subsample(20).sha256() != domain.sha256()
    assert domain.subsample(None) is domain.subsample(50) is domain


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
    domains = {name: DomainScore(accuracy=s) for name, s in (("a", 0.5), ("b", 0.2), ("c", 0.8))}
    groups = {"average": ["a", "b", "c"], "few": ["a", "gone"], "none": ["x"]}
    result = summarise(domains, "accuracy", groups, 7, 0.9)
    assert result.average == pytest.approx(0.5)
    assert (result.worst, result.worst_domain, result.domains) == (0.2, "b", 3)
    assert (result.step, result.source_val, result.per_domain) == (7, 0.9, domains)
    assert list(result.averages) == ["average", "few"]
    assert result.averages["average"].mean == pytest.approx(0.5)
    assert result.averages["average"].domains == 3
    assert result.averages["few"] == Average(mean=0.5, domains=1)
