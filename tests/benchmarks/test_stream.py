"""What it costs to leave a domain on disk and stream it."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import torch
from helpers import RECIPE

from sdgbench.data.domain import Domain
from sdgbench.method import Read
from sdgbench.training.device import Device
from sdgbench.training.feeds import Feed
from sdgbench.training.pool import Pool
from sdgbench.training.streaming import open_images

FRAMES, BATCH, CLASSES = 48, 8, 14


def test_an_epoch_from_disk_over_one_from_the_device(ratio, tmp_path):
    rng = np.random.default_rng(0)
    files = {
        "images": rng.integers(0, 256, (FRAMES, 192, 320, 3), np.uint8),
        "labels": rng.integers(0, CLASSES, (FRAMES, 192, 320), np.uint8),
    }
    for name, array in files.items():
        np.save(tmp_path / f"{name}.npy", array)
    images, labels = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in files)
    domain = Domain("streets", images.transpose(0, 3, 1, 2), labels)
    pool = Pool(tmp_path / "pool", (3, 192, 320), (192, 320))
    # Small, so that reading is a large share of a step; any real network hides more of it.
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, 4, 2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, CLASSES, 3, 1, 1),
        torch.nn.Upsample(scale_factor=4),
    )
    optimizer = torch.optim.SGD(network.parameters(), 0.01)

    def epoch_of(source):
        feed = Feed("train/0", Read(), source, pool, replace(RECIPE, batch=BATCH), 0)

        def epoch():
            for _ in range(FRAMES // BATCH):
                x, y = feed.next()
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()

        return epoch

    with (
        closing(open_images(replace(domain, streams=True), Device("cpu"))) as streamed,
        closing(open_images(domain, Device("cpu"))) as held,
    ):
        ratio(epoch_of(streamed), epoch_of(held), rounds=15)
