"""What folders of images cost: the first epoch decodes, later ones read decoded images."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import numpy as np
import torch
from helpers import RECIPE
from PIL import Image

from sdgbench.data import image_cache
from sdgbench.data.decoding import read_fitted
from sdgbench.data.domain import Domain, lazy_rows
from sdgbench.method import Read
from sdgbench.reporter import Silent
from sdgbench.training.device import Device
from sdgbench.training.feeds import Feed
from sdgbench.training.pool import Pool
from sdgbench.training.streaming import open_images

COUNT, BATCH, SIZE = 960, 32, (128, 128)


def jpegs(folder):
    rng = np.random.default_rng(0)
    paths = []
    for number in range(COUNT):
        small = Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8))
        path = folder / f"{number}.jpg"
        small.resize((256, 256), Image.Resampling.BICUBIC).save(path, quality=90)
        paths.append(path)
    return paths


def test_decoding_into_the_cache_over_a_bare_loop(ratio, tmp_path):
    """Both use all cores and the same decoder; the bare loop keeps nothing."""
    paths, rounds = jpegs(tmp_path), iter(range(10**6))

    def read(row):
        return read_fitted(paths[row], SIZE)

    def cached():
        folder = tmp_path / f"cache-{next(rounds)}"
        image_cache.decode(folder, COUNT, SIZE, read, Silent(), "decode")

    def bare():
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            for _ in threads.map(read, range(COUNT)):
                pass

    ratio(cached, bare, rounds=5)


def test_an_epoch_from_the_decoded_cache_over_one_from_memory(ratio, tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (COUNT, 3, *SIZE), np.uint8)
    labels = rng.integers(0, 7, COUNT).astype(np.uint8)
    np.save(tmp_path / "images.npy", images)
    rows = lazy_rows(image_cache.StoredRows(tmp_path / "images.npy"))
    # Small, so that reading is a large share of a step; any real network hides more of it.
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 5, 4, 2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, 2, 1),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 7),
    )
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    pool = Pool(tmp_path / "pool", (3, *SIZE), ())

    def epoch_of(source):
        feed = Feed("train/0", Read(), source, pool, replace(RECIPE, batch=BATCH), 0)

        def epoch():
            for _ in range(COUNT // BATCH):
                x, y = feed.next()
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(x), y).backward()
                optimizer.step()

        return epoch

    with (
        closing(open_images(Domain("a", rows, labels, True), Device("cpu"))) as streamed,
        closing(open_images(Domain("a", images, labels), Device("cpu"))) as held,
    ):
        ratio(epoch_of(streamed), epoch_of(held), rounds=9)
