"""Named augmentations, against torchvision's operations with the same numbers."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import RECIPE
from torchvision.transforms.v2 import functional as tv

from sdgbench.data.domain import Domain
from sdgbench.errors import UserError
from sdgbench.method import Read
from sdgbench.recipe import Recipe
from sdgbench.spec import augmentations
from sdgbench.spec.augmentations import Step, parse
from sdgbench.training import augment
from sdgbench.training.device import Device
from sdgbench.training.distributed import BatchShard
from sdgbench.training.feeds import DeviceImages, Feed
from sdgbench.training.pool import Pool

EVERYTHING = "resized-crop:0.3:1,crop:3,flip,colour-jitter:0.4:0.4:0.4:0.1,grey:0.3"


def stay(tensor):
    return tensor


@pytest.fixture
def images():
    return torch.rand(40, 3, 24, 30, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def draws():
    return augment.uniform(5, 0, 40)


LABELS = torch.arange(40)


def test_lists_are_read_with_their_defaults():
    assert parse("none") == ()
    assert parse("crop-flip") == (Step("crop-flip", ()),)
    assert parse("resized-crop:0.5, flip,grey:0.2") == (
        Step("resized-crop", (0.5, 1)),
        Step("flip", (0.5,)),
        Step("grey", (0.2,)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gray", 'No augmentation "gray". Did you mean "grey"'),
        ("flip:2", "probability of flip must be from 0 to 1, not 2"),
        ("flip:often", 'probability of flip must be a number, not "often"'),
        ("flip:0.1:0.2", "too many numbers; write flip:probability"),
        ("resized-crop:0.9:0.2", "no area between"),
        ("flip,,grey", 'No augmentation ""'),
    ],
)
def test_bad_lists_are_refused_with_the_recipe(text, message, cli):
    arguments = ["--method", "erm", "--dataset", "digits-mini", "--preset", "smoke"]
    done = cli("run", *arguments, "--set", f"recipe.augment={text}")
    assert done.code == 2
    assert message in " ".join(done.err.split())


def test_every_operation_that_has_a_name_exists():
    assert {*augment.OPERATIONS, "crop-flip"} == set(augmentations.AUGMENTATIONS)


def test_random_numbers_belong_to_positions():
    whole = augment.uniform(3, 0, 1000)
    assert torch.equal(augment.uniform(3, 123, 7), whole[123:130])
    assert len(whole.unique()) == whole.numel()
    assert whole.mean().item() == pytest.approx(0.5, abs=0.02)
    assert not torch.equal(augment.uniform(4, 0, 1000), whole)


def test_flip(images, draws):
    found, labels = augment.flip(images, LABELS, draws, (0.5,), stay)
    mirrored = [torch.equal(a, tv.horizontal_flip(b)) for a, b in zip(found, images, strict=True)]
    same = [torch.equal(a, b) for a, b in zip(found, images, strict=True)]
    assert all(a != b for a, b in zip(mirrored, same, strict=True))
    assert 10 < sum(mirrored) < 30
    assert labels is LABELS


def test_crop(images, draws):
    found, _ = augment.crop(images, LABELS, draws, (3.0,), stay)
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (3, 3), (3, 3)), mode="reflect")
    seen = set()
    for image, original in zip(found.numpy(), padded, strict=True):
        hits = [
            (dy, dx)
            for dy in range(7)
            for dx in range(7)
            if np.array_equal(image, original[:, dy : dy + 24, dx : dx + 30])
        ]
        assert len(hits) == 1
        seen.add(hits[0])
    assert len(seen) > 20


def test_resized_crop_against_torchvision(images, draws):
    found, _ = augment.resized_crop(images, LABELS, draws, (0.1, 1.0), stay)
    boxes = augment.crop_boxes(draws, (0.1, 1.0), 24, 30).tolist()
    for image, original, box in zip(found, images, boxes, strict=True):
        expected = tv.resized_crop(original, *box, size=[24, 30], antialias=False)
        assert torch.allclose(image, expected, atol=1e-5)


def test_boxes_have_the_areas_and_ratios_that_were_asked_for():
    boxes = augment.crop_boxes(augment.uniform(1, 0, 4000), (0.2, 0.5), 100, 100).double()
    top, left, height, width = boxes.unbind(1)
    area, ratio = height * width / 1e4, width / height
    assert (area.min() >= 0.19, area.max() <= 0.51) == (True, True)
    assert area.mean().item() == pytest.approx(0.35, abs=0.01)
    assert (ratio.min() >= 0.73, ratio.max() <= 1.37) == (True, True)
    assert ratio.log().mean().item() == pytest.approx(0, abs=0.01)
    for start, side in ((top, height), (left, width)):
        assert start.min() >= 0
        assert (start + side).max() <= 100
    whole = augment.crop_boxes(augment.uniform(1, 0, 50), (1.0, 1.0), 8, 8)
    assert whole.min() >= 0
    assert ((whole[:, :2] + whole[:, 2:]) <= 8).all()


@pytest.mark.parametrize(
    ("index", "adjust"),
    [
        (0, tv.adjust_brightness),
        (1, tv.adjust_contrast),
        (2, tv.adjust_saturation),
        (3, tv.adjust_hue),
    ],
)
def test_colours_against_torchvision(index, adjust, images, draws):
    spans = [0.0] * 4
    spans[index] = 0.4
    found, _ = augment.colour_jitter(images, LABELS, draws, tuple(spans), stay)
    for image, original, draw in zip(found, images, draws[:, index].tolist(), strict=True):
        change = 0.4 * (2 * draw - 1)
        expected = adjust(original, change if index == 3 else 1 + change)
        assert torch.allclose(image, expected, atol=2e-3 if index in (1, 2) else 1e-5)
    assert not torch.allclose(found, images, atol=0.05)


def test_grey_against_torchvision(images, draws):
    found, _ = augment.grey(images, LABELS, draws, (0.5,), stay)
    chosen = 0
    for image, original in zip(found, images, strict=True):
        if not torch.equal(image, original):
            assert torch.allclose(image, tv.rgb_to_grayscale(original, 3), atol=1e-3)
            chosen += 1
    assert 10 < chosen < 30


@pytest.mark.parametrize("text", ["crop-flip", "flip:1", "crop:3", "resized-crop:0.3:0.6"])
def test_label_maps_move_with_their_images(text):
    """Images of large even patches, whose label is in their colour."""
    labels = torch.randint(0, 4, (8, 4, 4)).repeat_interleave(8, 1).repeat_interleave(8, 2)
    images = (labels / 4).unsqueeze(1).expand(-1, 3, -1, -1)
    x, y = augment.augment(parse(text), (images, labels), 0, ("train/0", 1), 0, None, stay)
    assert not torch.equal(y, labels)
    agree = ((x[:, 0] * 4).round().long() == y).float().mean()
    assert agree > (0.85 if "resized" in text else 0.999)


def feed(batch, text=EVERYTHING, seed=0, tmp=None):
    generator = np.random.default_rng(0)
    domain = Domain(
        "d", generator.integers(0, 256, (48, 3, 16, 16), dtype=np.uint8), np.arange(48) % 10
    )
    source = DeviceImages(domain, Device("cpu"))
    pool = Pool(tmp, (3, 16, 16), (), 10)
    recipe = replace(RECIPE, batch=batch, augment=text)
    return Feed("train/0", Read(), source, pool, recipe, seed)


def test_an_image_gets_the_same_whatever_the_batch_size(tmp_path):
    epochs = []
    for batch in (4, 16, 48):
        stream = feed(batch, tmp=tmp_path / str(batch))
        epochs.append(torch.cat([stream.next()[0] for _ in range(48 // batch)]))
    for other in epochs[1:]:
        assert torch.allclose(epochs[0], other, atol=1e-6)
    plain = feed(48, "none", tmp=tmp_path / "plain").next()[0]
    assert not torch.allclose(epochs[0], plain, atol=0.01)
    again = feed(16, seed=1, tmp=tmp_path / "again")
    assert not torch.allclose(again.next()[0], epochs[0][:16])


def test_an_image_gets_the_same_in_a_shard(tmp_path):
    whole = feed(16, tmp=tmp_path / "a").next()[0]
    for shard in (BatchShard(0, 5, 16), BatchShard(5, 16, 16)):
        part = feed(16, tmp=tmp_path / str(shard.start)).next(shard)[0]
        assert torch.allclose(part, shard.take(whole), atol=1e-6)


def test_a_resumed_stream_continues_with_the_same_augmentation(tmp_path):
    stream = feed(16, tmp=tmp_path / "a")
    batches = [stream.next()[0] for _ in range(5)]
    first = feed(16, tmp=tmp_path / "b")
    for _ in range(2):
        first.next()
    second = feed(16, tmp=tmp_path / "c")
    second.load_state_dict(first.state_dict())
    for expected in batches[2:]:
        assert torch.equal(second.next()[0], expected)


def test_two_operations_of_one_name_draw_differently(images):
    twice = parse("crop:3,crop:3")
    found = augment.augment(twice, (images, LABELS), 0, ("train/0", 1), 0, None, stay)[0]
    first = augment.augment(twice[:1], (images, LABELS), 0, ("train/0", 1), 0, None, stay)[0]
    assert not torch.equal(found, first)


def test_crop_flip_draws_what_it_always_drew():
    """Records that were made with it must stay reproducible."""
    x = torch.arange(6 * 3 * 8 * 9).reshape(6, 3, 8, 9).to(torch.int32)
    parts = augment.crop_and_flip(x, 7), augment.crop_and_flip(x[2:4], 7, BatchShard(2, 4, 6))
    hashes = [hashlib.sha256(part.numpy().tobytes()).hexdigest()[:16] for part in parts]
    assert hashes == ["b4e83a1ec35ce0e5", "6db6584e71f3f232"]


def test_the_recipe_takes_what_it_took_before():
    assert Recipe(steps=1, augment="crop-flip").augment == "crop-flip"
    with pytest.raises(UserError):
        Recipe(steps=1, augment="crop-flop")
