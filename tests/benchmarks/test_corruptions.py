"""The corruptions, a batch at a time, over a plain loop with library calls for each image."""

import numpy as np
import pytest
from corruptions import reference

from sdgbench.corruptions.generator import corrupt
from sdgbench.corruptions.names import ALL_19

COUNT = 2048  # for the batch; the loop takes fewer
LOOP = 64
PICTURE = np.random.default_rng(1).integers(0, 256, (315, 560, 3), np.uint8)
SMALL = (63, 112)
found: dict[str, tuple[float, float, float]] = {}


@pytest.fixture(scope="module")
def images():
    """Smooth colours with some texture: about as hard to compress as photographs."""
    rng = np.random.default_rng(0)
    coarse = rng.uniform(0, 255, (COUNT, 8, 8, 3))
    fine = coarse.repeat(4, axis=1).repeat(4, axis=2) + rng.normal(0, 10, (COUNT, 32, 32, 3))
    return fine.clip(0, 255).astype(np.uint8)


def draw_and_corrupt(name, image, severity, rng):
    """What a plain generator does for one image, random numbers included."""
    shape = image.shape[:2]
    work = getattr(reference, name)
    if name in ("gaussian_noise", "speckle_noise"):
        return work(image, severity, rng.normal(size=image.shape))
    if name == "shot_noise":
        return work(image, severity, rng.poisson)
    if name == "impulse_noise":
        return work(image, severity, rng)
    if name == "glass_blur":
        turns = reference.GLASS[severity - 1][2]
        return work(image, severity, rng.integers(-1, 1, (turns, *shape, 2)).tolist())
    if name == "motion_blur":
        return work(image, severity, rng.uniform(-45, 45))
    if name == "snow":
        return work(image, severity, rng.normal(size=shape), rng.uniform(-135, -45))
    if name == "frost":
        row, column = (rng.integers(0, size - 32) for size in SMALL)
        return work(image, severity, PICTURE, row, column)
    if name == "fog":
        return work(image, severity, rng.uniform(-1, 1, 1023), reference.plasma_by_arrays)
    if name == "spatter":
        return work(image, severity, rng.normal(size=shape))
    if name == "elastic_transform":
        reach = reference.ELASTIC[severity - 1][2]
        fields = rng.uniform(-1, 1, (2, *shape))
        moves = rng.uniform(-reach, reach, (3, 2))
        return work(image, severity, moves, *fields, warp=reference.warp_by_opencv)
    return work(image, severity)


@pytest.mark.parametrize("name", ALL_19)
def test_a_batch_over_a_plain_loop(name, images, ratio, benchmark):
    rng = np.random.default_rng(0)

    def batch():
        for severity in (2, 4):
            corrupt(images, name, severity)

    def loop():
        for severity in (2, 4):
            for image in images[:LOOP]:
                draw_and_corrupt(name, image, severity, rng)

    share = ratio(batch, loop, rounds=3, scale=LOOP / COUNT)  # per image
    seconds = benchmark.extra_info["seconds"] / COUNT / 2
    found[name] = (seconds * 1e3, seconds * 1e3 / share, share)


def test_the_table(benchmark):
    """Print what was found: milliseconds per image, and how many times faster."""
    benchmark.pedantic(lambda: None, rounds=1)
    if not found:
        pytest.skip("nothing was measured")
    print(f"\n{'corruption':20}{'batch ms':>10}{'loop ms':>10}{'faster':>9}")
    for name, (ours, plain, share) in found.items():
        print(f"{name:20}{ours:10.4f}{plain:10.4f}{1 / share:8.1f}x")
    ours, plain, shares = (np.array(column) for column in zip(*found.values(), strict=True))
    print(f"{'mean':20}{ours.mean():10.4f}{plain.mean():10.4f}{plain.sum() / ours.sum():8.1f}x")
    print(
        f"mean of the factors {np.mean(1 / shares):.1f}, geometric {np.exp(-np.log(shares).mean()):.1f}"
    )
