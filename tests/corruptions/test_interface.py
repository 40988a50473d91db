import tracemalloc

import numpy as np
import pytest
import torch
from corruptions.samples import SIZES, change, photos

from sdgbench.corruptions.generator import corrupt
from sdgbench.corruptions.names import ALL_19, GROUPS, SEVERITIES
from sdgbench.errors import UserError

RANDOM = set(ALL_19) - {
    "defocus_blur",
    "zoom_blur",
    "gaussian_blur",
    "brightness",
    "contrast",
    "saturate",
    "jpeg_compression",
    "pixelate",
}
# Frost and elastic change kind rather than strength; spatter turns from water to mud, saturate
# from less to more; glass and motion have steps that change the look at about the same strength.
GROWS = sorted(
    set(ALL_19) - {"frost", "elastic_transform", "spatter", "saturate", "glass_blur", "motion_blur"}
)


def test_names_and_groups():
    assert len(set(ALL_19)) == 19
    assert SEVERITIES == (1, 2, 3, 4, 5)
    assert list(GROUPS) == ["weather", "blur", "noise", "digital"]
    assert [len(group) for group in GROUPS.values()] == [3, 5, 4, 7]
    assert sorted(name for group in GROUPS.values() for name in group) == sorted(ALL_19)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ALL_19)
def test_every_corruption_changes_images_of_every_size(name, size):
    images = photos(3, *size)
    before = images.copy()
    for severity in SEVERITIES:
        corrupted = corrupt(images, name, severity)
        assert corrupted.dtype == np.uint8
        assert corrupted.shape == images.shape
        assert corrupted.flags.c_contiguous
        assert corrupted.flags.writeable
        assert not np.shares_memory(corrupted, images)
        for one, other in zip(images, corrupted, strict=True):
            assert 0.1 < change(one, other) < 100
    assert np.array_equal(images, before)


@pytest.mark.parametrize("size", SIZES[:2])
@pytest.mark.parametrize("name", ALL_19)
def test_batches_and_their_order_do_not_matter(name, size):
    images = photos(9, *size)
    whole = corrupt(images, name, 4, seed=3)
    assert np.array_equal(whole, corrupt(images, name, 4, seed=3))
    order = np.array([4, 0, 8, 2, 1, 7, 3, 6, 5])
    assert np.array_equal(whole[order], corrupt(images[order], name, 4, seed=3, indices=order))
    alone = [corrupt(images[i : i + 1], name, 4, seed=3, indices=np.array([i])) for i in range(9)]
    assert np.array_equal(whole, np.concatenate(alone))


@pytest.mark.parametrize("name", ALL_19)
def test_more_images_than_are_taken_at_once(name):
    images = photos(300).repeat(8, axis=0)
    whole = corrupt(images, name, 2)
    some = np.array([0, 63, 64, 255, 256, 2047, 2048, 2399])
    assert np.array_equal(whole[some], corrupt(images[some], name, 2, indices=some))


@pytest.mark.parametrize("name", ALL_19)
def test_what_the_random_numbers_depend_on(name):
    images = photos(1).repeat(4, axis=0)
    first = corrupt(images, name, 4)
    if name in RANDOM:
        assert all(not np.array_equal(first[0], other) for other in first[1:])
        assert not np.array_equal(first, corrupt(images, name, 4, seed=1))
        assert not np.array_equal(first, corrupt(images, name, 4, indices=np.arange(10, 14)))
    else:
        assert all(np.array_equal(first[0], other) for other in first)
        assert np.array_equal(first, corrupt(images, name, 4, seed=1))
    # Not on NumPy's kind of integer, nor on any global generator.
    np.random.seed(5)
    torch.manual_seed(5)
    same = corrupt(
        images, name, np.int64(4), seed=np.int64(0), indices=np.arange(4, dtype=np.int32)
    )
    assert np.array_equal(first, same)


def test_no_global_random_state_is_touched():
    np.random.seed(0)
    torch.manual_seed(0)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()
    for name in ALL_19:
        corrupt(photos(2), name, 5)
    assert np.array_equal(before[0], np.random.get_state()[1])
    assert torch.equal(before[1], torch.get_rng_state())


@pytest.mark.parametrize("name", ALL_19)
def test_memory_layout_does_not_matter(name):
    images = photos(3, 33, 48)
    expected = corrupt(images, name, 5)
    planes = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    assert np.array_equal(expected, corrupt(planes, name, 5))
    assert np.array_equal(expected, corrupt(np.asfortranarray(images), name, 5))
    backwards = np.ascontiguousarray(images[::-1, ::-1])[::-1, ::-1]
    assert np.array_equal(expected, corrupt(backwards, name, 5))
    frozen = images.copy()
    frozen.flags.writeable = False
    assert np.array_equal(expected, corrupt(frozen, name, 5))


@pytest.mark.parametrize("name", GROWS)
def test_damage_grows_with_severity(name):
    images = photos(48)
    damage = [change(images, corrupt(images, name, severity)) for severity in SEVERITIES]
    assert damage == sorted(damage)
    assert damage[4] > 1.3 * damage[0]


@pytest.mark.parametrize("name", ALL_19)
@pytest.mark.parametrize("level", [0, 128, 255])
def test_flat_images(name, level):
    images = np.full((2, 32, 32, 3), level, np.uint8)
    for severity in SEVERITIES:
        corrupted = corrupt(images, name, severity)
        assert corrupted.shape == images.shape
        if name in (*GROUPS["blur"], "contrast", "pixelate", "elastic_transform"):
            assert change(images, corrupted) <= 1  # a cut-off rounding error, at most


def test_no_images():
    for name in ALL_19:
        assert corrupt(np.zeros((0, 32, 32, 3), np.uint8), name, 1).shape == (0, 32, 32, 3)


@pytest.mark.parametrize("name", ["snow", "motion_blur", "spatter", "fog", "brightness"])
def test_memory_stays_small(name):
    images = np.broadcast_to(photos(1), (6000, 32, 32, 3))
    tracemalloc.start()
    corrupt(images, name, 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200e6


def test_wrong_requests():
    images = photos(1)
    with pytest.raises(UserError, match='No corruption "fogg". Did you mean "fog"?'):
        corrupt(images, "fogg", 1)
    for severity in (0, 6, 2.5):
        with pytest.raises(UserError, match=f'No severity "{severity}".*Known: 1, 2, 3, 4, 5.'):
            corrupt(images, "fog", severity)
    with pytest.raises(UserError, match="32x32 or more, not 31x32"):
        corrupt(images[:, 1:], "fog", 1)
    with pytest.raises(ValueError, match="Need uint8"):
        corrupt(images / 255.0, "fog", 1)
    with pytest.raises(ValueError, match="Need uint8"):
        corrupt(images[0], "fog", 1)
    with pytest.raises(ValueError, match="one index per image"):
        corrupt(images, "fog", 1, indices=np.arange(2))
