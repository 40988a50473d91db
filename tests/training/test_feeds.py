import numpy as np
import pytest
import torch
from helpers import RECIPE, toy_domain

from sdgbench.data.domain import Domain
from sdgbench.method import Read
from sdgbench.recipe import Recipe
from sdgbench.training.augment import crop_and_flip
from sdgbench.training.device import Device
from sdgbench.training.feeds import DeviceImages, Feed, to_unit
from sdgbench.training.pool import Pool


@pytest.fixture
def source():
    return DeviceImages(toy_domain(count=21), Device("cpu"))


@pytest.fixture
def pool(tmp_path):
    return Pool(tmp_path, (3, 32, 32), ())


def feed(source, pool, read=None, key="train/0", seed=0, recipe=RECIPE):
    return Feed(key, read or Read(), source, pool, recipe, seed)


def draw(stream, count):
    return [stream.next() for _ in range(count)]


def same(first, second):
    return all(
        torch.equal(a, b)
        for x, y in zip(first, second, strict=True)
        for a, b in zip(x, y, strict=True)
    )


def test_bytes_become_floats_between_0_and_1(source):
    images, labels = source.gather(np.array([3, 1]))
    assert images.dtype == torch.float32
    assert torch.equal(images[0], source.images[3].float() / 255)
    assert labels.dtype == torch.int64
    assert labels.tolist() == [int(source.labels[3]), int(source.labels[1])]


@pytest.mark.parametrize("length", [256, 257, 98_304])  # with and without a rest of a vector
def test_each_byte_becomes_the_float_nearest_to_its_quotient(length):
    """Records depend on it; a product with 1/255 would give other floats."""
    numbers = np.arange(length) % 256
    expected = torch.from_numpy((numbers / 255).astype(np.float32))  # from doubles
    assert torch.equal(to_unit(torch.from_numpy(numbers.astype(np.uint8))), expected)
    assert not torch.equal(torch.from_numpy(numbers).float() * (1 / 255), expected)


@pytest.mark.parametrize("shape", [(21,), (21, 8, 8)])  # labels of images, and label maps
def test_a_cpu_gathers_as_a_gpu_does(shape):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (21, 3, 8, 8), dtype=np.uint8)
    classes = rng.integers(0, 10, shape)
    images = DeviceImages(Domain("random", pixels.copy(), classes), Device("cpu"))
    rows = rng.integers(0, 21, 50)  # some of them several times
    gathered = images.gather(rows)
    gathered[0].zero_(), gathered[1].zero_()  # a method may do so: the domain must stay as it is
    gathered = images.gather(rows)
    assert torch.equal(gathered[0], torch.from_numpy(pixels)[rows].to(torch.float32).div_(255))
    assert torch.equal(gathered[1], torch.from_numpy(classes)[rows])
    assert np.shares_memory(images._arrays[0], images.images.numpy())  # no second copy
    images._arrays = None  # as on a GPU
    on_gpu = images.gather(rows)
    assert all(map(torch.equal, gathered, on_gpu))
    assert [t.dtype for t in gathered] == [t.dtype for t in on_gpu] == [torch.float32, torch.int64]


def test_an_epoch_shows_each_image_at_most_once_and_drops_the_rest(source, pool):
    stream = feed(source, pool)
    seen = torch.cat([images for images, _ in draw(stream, 2)])  # 2 of 8, 5 dropped
    assert len(torch.unique(seen.flatten(1), dim=0)) == 16
    assert stream.epoch == 1
    stream.next()
    assert stream.epoch == 2


def test_the_order_follows_seed_and_place_alone(source, pool):
    assert same(draw(feed(source, pool), 5), draw(feed(source, pool), 5))
    assert not same(draw(feed(source, pool), 5), draw(feed(source, pool, seed=1), 5))
    assert not same(draw(feed(source, pool), 5), draw(feed(source, pool, key="train/1"), 5))


def test_a_position_is_all_the_state(source, pool):
    whole = draw(feed(source, pool), 7)
    first = feed(source, pool)
    head = draw(first, 3)
    second = feed(source, pool)
    second.load_state_dict(first.state_dict())
    assert same(whole, head + draw(second, 4))


def test_source_plus_an_empty_pool_is_the_source(source, pool):
    assert same(draw(feed(source, pool), 5), draw(feed(source, pool, Read("source+pool")), 5))


def test_source_plus_pool_draws_from_both_in_proportion(source, pool):
    pool.add(torch.full((21, 3, 32, 32), -2.0), torch.full((21,), 7))
    batches = draw(feed(source, pool, Read("source+pool")), 5)  # one epoch of 42, batch 8
    images = torch.cat([images for images, _ in batches])
    labels = torch.cat([labels for _, labels in batches])
    generated = (images == -2.0).flatten(1).all(1)
    assert 15 <= int(generated.sum()) <= 21
    assert (labels[generated] == 7).all()
    for image, label in zip(images[~generated], labels[~generated], strict=True):
        where = (source.images.float() / 255 == image).flatten(1).all(1).nonzero().item()
        assert int(source.labels[where]) == int(label)


def test_a_grown_pool_starts_a_new_epoch(source, pool):
    pool.add(torch.zeros(10, 3, 32, 32), torch.zeros(10))
    stream = feed(source, pool, Read("pool", batch=4))
    stream.next()
    pool.add(torch.ones(10, 3, 32, 32), torch.ones(10))
    stream.next()
    assert (stream.epoch, stream.size) == (2, 20)


def test_an_empty_pool_cannot_be_read(source, pool):
    with pytest.raises(RuntimeError, match="still empty"):
        feed(source, pool, Read("pool")).next()


def test_crop_and_flip_against_a_padded_crop():
    images = torch.rand(64, 3, 32, 32)
    found = crop_and_flip(images, seed=5)
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)), mode="reflect")
    offsets, mirrored = set(), 0
    for image, original in zip(found.numpy(), padded, strict=True):
        hits = [
            (dy, dx, flip)
            for dy in range(9)
            for dx in range(9)
            for flip in (False, True)
            if np.array_equal(
                image, original[:, dy : dy + 32, dx : dx + 32][:, :, :: -1 if flip else 1]
            )
        ]
        assert len(hits) == 1
        offsets.add(hits[0][:2])
        mirrored += hits[0][2]
    assert len(offsets) > 30
    assert 16 < mirrored < 48


def test_augmentation_is_the_recipes_and_repeatable(source, pool):
    recipe = Recipe(network="convnet-2", steps=1, batch=8, augment="crop-flip")
    plain = draw(feed(source, pool), 1)
    augmented = draw(feed(source, pool, recipe=recipe), 1)
    assert torch.equal(plain[0][1], augmented[0][1])
    assert not torch.equal(plain[0][0], augmented[0][0])
    assert same(augmented, draw(feed(source, pool, recipe=recipe), 1))
    assert same(plain, draw(feed(source, pool, Read(augment=False), recipe=recipe), 1))


def filled(pool, count):
    """Images that carry their number in every pixel."""
    numbers = torch.arange(len(pool), len(pool) + count)
    images = numbers.float().view(-1, 1, 1, 1).expand(-1, 3, 32, 32) / 1000
    pool.add(images, numbers % 10)


def numbers_of(images):
    return (images[:, 0, 0, 0] * 1000).round().int().tolist()


def test_a_counted_read_gives_exactly_so_many_images_whatever_the_batch(source, pool):
    filled(pool, 30)
    seen = []
    for size in (1, 7, 25, 64):
        stream = feed(source, pool, Read("pool", batch=size, images=25))
        stream.begin()
        steps = -(-25 // size)
        seen.append([n for images, _ in draw(stream, steps) for n in numbers_of(images)])
    assert len(set(seen[0])) == len(seen[0]) == 25
    assert all(one == seen[0] for one in seen)


def test_a_counted_read_goes_round_when_there_are_too_few(source, pool):
    filled(pool, 4)
    stream = feed(source, pool, Read("pool", batch=5, images=10))
    stream.begin()
    numbers = [n for images, _ in draw(stream, 2) for n in numbers_of(images)]
    assert sorted(numbers[:4]) == sorted(numbers[4:8]) == [0, 1, 2, 3]
    assert len(numbers) == 10


def test_a_counted_read_begins_anew_with_its_phase(source, pool):
    filled(pool, 20)
    stream = feed(source, pool, Read("pool", batch=10, images=20))
    stream.begin()
    first = [n for images, _ in draw(stream, 2) for n in numbers_of(images)]
    stream.begin()
    second = [n for images, _ in draw(stream, 2) for n in numbers_of(images)]
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second


def test_what_is_added_meanwhile_is_not_read(source, pool):
    filled(pool, 6)
    stream = feed(source, pool, Read("pool", batch=3, images=12))
    stream.begin()
    seen = []
    for _ in range(4):
        images, _ = stream.next()
        seen += numbers_of(images)
        filled(pool, 3)
    assert set(seen) == set(range(6))


def test_a_read_of_some_stretches_of_the_pool(source, pool):
    filled(pool, 30)
    stream = feed(source, pool, Read("pool", batch=7, only=((2, 5), (20, 24))))
    assert sorted(numbers_of(stream.next()[0])) == [2, 3, 4, 20, 21, 22, 23]
    filled(pool, 10)
    epoch = stream.epoch
    stream.next()
    assert stream.epoch == epoch + 1  # the stretches are as long as before
    assert sorted(numbers_of(stream.next()[0])) == [2, 3, 4, 20, 21, 22, 23]


def test_source_and_stretches_together(source, pool):
    filled(pool, 30)
    stream = feed(source, pool, Read("source+pool", batch=24, only=((10, 13),)))
    images, labels = stream.next()
    assert len(images) == 21 + 3
    from_pool = [
        n
        for n, label in zip(numbers_of(images), labels.tolist(), strict=True)
        if n in (10, 11, 12) and label == n % 10
    ]
    assert set(from_pool) >= {10, 11, 12}


def test_a_counted_read_resumes_where_it_stood(source, pool):
    filled(pool, 20)
    read = Read("pool", batch=6, images=18)
    stream = feed(source, pool, read)
    stream.begin()
    stream.next()
    copy = feed(source, pool, read)
    copy.load_state_dict(stream.state_dict())
    filled(pool, 5)
    assert same(draw(stream, 2), draw(copy, 2))


def test_a_read_in_order_is_the_source_and_then_the_pool(source, pool):
    pool.add(torch.full((3, 3, 32, 32), 2.0), torch.arange(3))
    stream = feed(source, pool, Read("source+pool", shuffle=False))
    labels = torch.cat([labels for _, labels in draw(stream, 3)])
    assert labels.tolist() == [*source.labels.tolist(), 0, 1, 2]
    again = torch.cat([labels for _, labels in draw(stream, 3)])
    assert torch.equal(again, labels)
