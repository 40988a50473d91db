"""What the harness costs over code written by hand for the one purpose."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import RECIPE, erm, make, toy_domain, trainer

from sdgbench.data.domain import Domain
from sdgbench.dataset import Dataset
from sdgbench.evaluation.evaluator import evaluate
from sdgbench.reporter import Silent
from sdgbench.task import Classification
from sdgbench.training import checkpoint
from sdgbench.training.device import Device
from sdgbench.training.feeds import DeviceImages

STEPS = 10  # short turns: the machine drifts, and both must see the same weather


def bare_loop(network, optimizer, images, labels, batch, steps, rng):
    """What one would write in a notebook."""
    order = rng.permutation(len(images))
    for step in range(steps):
        start = step * batch % (len(images) - batch + 1)
        chosen = torch.from_numpy(order[start : start + batch])
        x, y = images[chosen].float().div_(255), labels[chosen]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize("network", ["convnet", "convnet-32", "wrn-16-1"])
def test_a_step_of_the_harness_over_a_bare_step(network, ratio, tmp_path):
    recipe = replace(RECIPE, network=network, batch=32, steps=STEPS, validations=0)
    domain = toy_domain(count=640)
    images = torch.from_numpy(domain.images)
    labels = torch.from_numpy(domain.labels).long()
    # One network for both: two would lie differently in memory, which costs more than the harness.
    method = make(erm(), tmp_path, recipe)
    rng = np.random.default_rng(0)
    runner = trainer(method, tmp_path / "run", checkpoint_seconds=1e9)
    runner.source = DeviceImages(domain, Device("cpu"))

    def harness():
        runner.position.step = 0
        runner._run_phase(runner.plan[0])

    ratio(
        harness,
        lambda: bare_loop(method.network, method.optimizer, images, labels, 32, STEPS, rng),
        rounds=41,
    )


class Corrupted(Dataset):
    """Blocks of one large array, as CIFAR-10-C keeps them."""

    name = "corrupted"
    task = Classification(10)

    def __init__(self, count):
        self.options, self.recipe_used, self.count = None, RECIPE, count
        self.array = np.random.default_rng(0).integers(0, 256, (3 * count, 32, 32, 3), np.uint8)

    @classmethod
    def target_tags(cls, options):
        return {f"fog/{severity}": {} for severity in range(3)}

    def target(self, name):
        start = int(name[-1]) * self.count
        block = self.array[start : start + self.count].transpose(0, 3, 1, 2)
        return Domain(name, block, np.zeros(self.count, np.uint8))


def test_evaluation_over_raw_forward_passes(ratio, tmp_path):
    """Reading, converting, deciding, scoring and hashing beside the forward passes."""
    method = make(erm(), tmp_path, replace(RECIPE, network="wrn-16-1", eval_batch=100))
    method.network.eval()
    dataset = Corrupted(100)
    names = list(dataset.target_tags(None))
    ready = torch.rand(100, 3, 32, 32)

    def raw():
        with torch.inference_mode():
            for _ in range(3):
                method.network(ready)

    weights = {"last": checkpoint.copy_weights(method)}
    ratio(lambda: evaluate(method, dataset, names, weights, Silent()), raw, rounds=31)


@pytest.mark.parametrize("arguments", [("--help",), ("list",)], ids=["help", "list"])
def test_start_up_over_an_empty_python(arguments, ratio):
    ratio(
        lambda: subprocess.run(
            [sys.executable, "-m", "sdgbench", *arguments], capture_output=True, check=True
        ),
        lambda: subprocess.run([sys.executable, "-c", "pass"], check=True),
        rounds=15,
    )
