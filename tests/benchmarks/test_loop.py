"""The training loop around a step that does nothing, and what a batch costs.

The references of the ratios are what commit 9eedc93 did (for a read: 384078c); both sides are
measured in turn.
"""

import time
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
import torch
from helpers import RECIPE, make, toy_domain, trainer

from sdgbench.method import Method, Phase
from sdgbench.training.augment import crop_and_flip
from sdgbench.training.device import Device
from sdgbench.training.feeds import DeviceImages
from sdgbench.training.pool import Pool

STEPS, BATCH, COUNT = 2000, 32, 2000


class Idle(Method):
    """Notes when each step begins, and does nothing."""

    name = "idle"

    def setup(self):
        """A loss, as a step returns one."""
        self._loss, self._began = torch.tensor(1.0), []

    def plan(self):
        """Steps with a batch, then steps without."""
        return [Phase("train", STEPS), Phase("blank", STEPS, ())]

    def train_step(self, x, y):
        """Note the time."""
        self._began.append(time.perf_counter())
        return self._loss

    def blank_step(self):
        """Note the time."""
        self._began.append(time.perf_counter())


@pytest.mark.parametrize("name", ["train", "blank"])
def test_loop_around_a_step_that_does_nothing(name, benchmark, tmp_path):
    """Microseconds from step to step in the fastest tenth: the rest waited for other programs.

    To compare with an earlier commit, run this file in a checkout of it, in turn with this one.
    """
    method = make(Idle, tmp_path, replace(RECIPE, batch=BATCH, steps=STEPS, validations=0))
    runner = trainer(method, tmp_path / "run", checkpoint_seconds=1e9)
    runner.source = DeviceImages(toy_domain(count=COUNT), Device("cpu"))

    def loop():
        runner.position.phase, runner.position.step = ("train", "blank").index(name), 0
        method._began.clear()
        runner._run_phase(runner.plan[runner.position.phase])
        return 1e6 * float(np.percentile(np.diff(method._began), 10))

    microseconds = round(float(np.median([loop() for _ in range(7)])), 1)
    benchmark.extra_info["microseconds"] = microseconds
    benchmark.pedantic(loop, rounds=1)
    print(f"\n{name}: {microseconds} us per step")


def test_read_over_gathering_and_dividing_by_a_number(ratio):
    """The reference gathers with torch, and divides by an integer; the floats are the same."""
    source = DeviceImages(toy_domain(count=COUNT), Device("cpu"))
    order = np.random.default_rng(0).permutation(COUNT)
    batches = cycle(order[start : start + BATCH] for start in range(0, COUNT - BATCH, BATCH))

    def before(indices):
        rows = torch.from_numpy(indices)
        labels = source.labels.index_select(0, rows)
        return source.images.index_select(0, rows).to(torch.float32).div_(255), labels

    assert all(map(torch.equal, source.gather(order), before(order)))
    # One read at a time, many times: most of them are not interrupted by other programs.
    ratio(lambda: source.gather(next(batches)), lambda: before(next(batches)), rounds=10_001)


def test_pool_gather_over_opening_the_files(ratio, tmp_path):
    """The reference opens both files for each batch."""
    pool = Pool(tmp_path / "pool", (3, 32, 32), ())
    pool.add(torch.rand(COUNT, 3, 32, 32), torch.zeros(COUNT, dtype=torch.long))
    indices = np.random.default_rng(0).permutation(COUNT)[:BATCH]

    def before():
        image_file, label_file = pool.files
        images = np.memmap(image_file, np.float32, "r", shape=(COUNT, 3, 32, 32))
        labels = np.memmap(label_file, np.uint8, "r", shape=(COUNT,))
        return (
            torch.from_numpy(images[indices]),
            torch.from_numpy(labels[indices].astype(np.int64)),
        )

    assert all(map(torch.equal, pool.gather(indices), before()))
    ratio(repeated(lambda: pool.gather(indices)), repeated(before), rounds=31)


def crop_and_flip_as_before(images, seed, margin=4):
    count, channels, height, width = images.shape
    generator = torch.Generator().manual_seed(seed)
    shift = torch.randint(-margin, margin + 1, (count, 2), generator=generator)
    mirrored = torch.rand(count, generator=generator) < 0.5

    def reflect(index, size):
        index = index.abs()
        return torch.where(index >= size, 2 * (size - 1) - index, index)

    rows = reflect(torch.arange(height) + shift[:, :1], height)
    columns = reflect(torch.arange(width) + shift[:, 1:], width)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    image = torch.arange(count)[:, None, None, None]
    channel = torch.arange(channels)[None, :, None, None]
    return images[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


@pytest.mark.parametrize("batch", [32, 128])
def test_crop_flip_over_indexing_by_four_tensors(batch, ratio):
    images = torch.rand(batch, 3, 32, 32)
    assert torch.equal(crop_and_flip(images, 5), crop_and_flip_as_before(images, 5))
    ratio(
        repeated(lambda: crop_and_flip(images, 5)),
        repeated(lambda: crop_and_flip_as_before(images, 5)),
        rounds=15,
    )


def repeated(work, times=10):
    def several():
        for _ in range(times):
            work()

    return several
