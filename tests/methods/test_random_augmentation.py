"""TrivialAugment and RandAugment against one image at a time with Pillow; their distributions."""

import math

import numpy as np
import pytest
import torch
from helpers import assert_erm, make, two_batches
from PIL import Image, ImageEnhance, ImageOps
from skimage import data

from sdgbench import registry
from sdgbench.methods import randaugment, trivialaugment
from sdgbench.methods._random_ops import FOURTEEN

CLASSES = {name: registry.get("method", name).load() for name in ("trivialaugment", "randaugment")}


def method(name, folder, **params):
    return make(CLASSES[name], folder, params=CLASSES[name].Params(**params))


def photographs(count):
    """Parts of a photograph, 32 x 32."""
    image = np.asarray(Image.fromarray(data.astronaut()).resize((128, 128)))
    corners = [(8 * n % 96, 24 * n % 96) for n in range(count)]
    return torch.from_numpy(
        np.stack([image[i : i + 32, j : j + 32].transpose(2, 0, 1) for i, j in corners])
    )


def operate(image, name, level, sign, ranges):
    """One operation with Pillow; ``level`` is of 30."""
    rotate, shear, translate, (most, fewer), (low, high) = ranges
    factor = low + (high - low) * level / 30

    def move(position, value):
        matrix = [1, 0, 0, 0, 1, 0]
        matrix[position] = sign * value
        return image.transform(image.size, Image.Transform.AFFINE, matrix)

    return {
        "identity": lambda: image,
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "rotate": lambda: image.rotate(sign * int(rotate * level / 30)),
        "solarize": lambda: ImageOps.solarize(image, 256 - int(256 * level / 30)),
        "posterize": lambda: ImageOps.posterize(image, most - int(fewer * level / 30)),
        "color": lambda: ImageEnhance.Color(image).enhance(factor),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(factor),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(factor),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(factor),
        "shear-x": lambda: move(1, shear * level / 30),
        "shear-y": lambda: move(3, shear * level / 30),
        "translate-x": lambda: move(2, int(translate * level / 30)),
        "translate-y": lambda: move(5, int(translate * level / 30)),
    }[name]()


def as_image(tensor):
    return Image.fromarray(tensor.permute(1, 2, 0).numpy())


def levels_of(image):
    return np.asarray(image, np.float32).transpose(2, 0, 1)


def drawn(images, count):
    return torch.rand(images, count, dtype=torch.float64).tolist()


def test_trivialaugment_is_what_pillow_makes_of_one_image(tmp_path):
    """At most one level of 255 is different."""
    ta, images = method("trivialaugment", tmp_path), photographs(300)
    torch.manual_seed(0)
    found = 255 * ta.augmented(images.float() / 255).numpy()
    torch.manual_seed(0)
    names = set()
    for n, (kind, strength, sign, _) in enumerate(drawn(300, 4)):
        name = FOURTEEN[int(14 * kind)]
        names.add(name)
        sign = -1 if sign < 0.5 else 1
        ranges = (135, 0.99, 32, (8, 6), (0.01, 2.0))
        expected = operate(as_image(images[n]), name, int(31 * strength), sign, ranges)
        difference = np.abs(found[n] - levels_of(expected))
        assert difference.max() < 1.01, name
        assert (difference > 0.01).mean() < 0.05, name
    assert names == set(FOURTEEN)


@pytest.mark.parametrize("strength", [4.0, 13.0])
def test_randaugment_is_what_pillow_makes_of_one_image(strength, tmp_path):
    ra, images = method("randaugment", tmp_path, M=strength), photographs(100)
    torch.manual_seed(0)
    found = 255 * ra.augmented(images.float() / 255).numpy()
    torch.manual_seed(0)
    differences = []
    for n, numbers in enumerate(drawn(100, 6)):
        image = as_image(images[n])
        for kind, sign in zip(numbers[::2], numbers[1::2], strict=True):
            ranges = (30, 0.3, 14.4, (8, 4), (0.1, 1.9))
            name = FOURTEEN[int(14 * kind)]
            image = operate(image, name, strength, -1 if sign < 0.5 else 1, ranges)
        differences.append(np.abs(found[n] - levels_of(image)))
    differences = np.stack(differences)
    assert differences.mean() < 0.02  # a later operation may stretch a difference of one level
    assert (differences > 1.01).mean() < 1e-3


def test_operations_and_strengths_are_uniform(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(
        trivialaugment,
        "apply",
        lambda levels, names, choice, level, *rest: calls.append((choice, level)) or levels,
    )
    torch.manual_seed(0)
    x = torch.zeros(6000, 3, 1, 1)
    method("trivialaugment", tmp_path).augmented(x)
    method("trivialaugment", tmp_path, probability=0.25).augmented(x)
    (choice, level), (sparse, _) = calls
    assert (torch.bincount(choice) / 6000).tolist() == pytest.approx([1 / 14] * 14, abs=0.015)
    assert (torch.bincount(level) / 6000).tolist() == pytest.approx([1 / 31] * 31, abs=0.01)
    assert (sparse >= 0).double().mean().item() == pytest.approx(0.25, abs=0.02)


def test_randaugment_applies_n_operations_of_one_strength(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(
        randaugment,
        "apply",
        lambda levels, names, choice, level, *rest: calls.append((choice, level)) or levels,
    )
    torch.manual_seed(0)
    method("randaugment", tmp_path, N=2, M=7).augmented(torch.zeros(3000, 3, 1, 1))
    assert len(calls) == 2
    for choice, level in calls:
        assert set(level.tolist()) == {7.0}
        assert (torch.bincount(choice) / 3000).tolist() == pytest.approx([1 / 14] * 14, abs=0.02)


@pytest.mark.parametrize("name", CLASSES)
def test_an_images_augmentation_does_not_depend_on_the_others(name, tmp_path):
    augment, images = method(name, tmp_path), photographs(8).float() / 255
    others = images.flip(0)
    others[3] = images[3]
    torch.manual_seed(1)
    first = augment.augmented(images)[3]
    torch.manual_seed(1)
    assert torch.equal(augment.augmented(others)[3], first)


@pytest.mark.parametrize("name", CLASSES)
def test_a_step_is_the_cross_entropy_of_augmented_images(name, tmp_path):
    augment = method(name, tmp_path)
    x, y, *_ = two_batches()
    torch.manual_seed(4)
    with torch.no_grad():
        logits = augment.network(augment.augmented(x)).double().tolist()
    expected = [
        math.log(sum(map(math.exp, row))) - row[k]
        for row, k in zip(logits, y.tolist(), strict=True)
    ]
    torch.manual_seed(4)
    assert augment.train_step(x, y).item() == pytest.approx(sum(expected) / len(y), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "params"), [("trivialaugment", {"probability": 0.0}), ("randaugment", {"N": 0})]
)
@pytest.mark.parametrize("network", ["convnet-2", "wrn-16-1"])
def test_without_operations_it_is_erm_bit_for_bit(name, params, network, tmp_path):
    assert_erm(CLASSES[name], tmp_path, network, **params)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("trivialaugment", {"probability": 1.1}),
        ("randaugment", {"N": -1}),
        ("randaugment", {"M": 31.0}),
    ],
)
def test_parameters_out_of_range_are_refused(name, bad):
    with pytest.raises(ValueError, match=f"{name} needs"):
        CLASSES[name].Params(**bad)
