"""Batched image operations against Pillow's, on photographs."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from skimage import data
from sklearn.datasets import load_sample_images

from sdgbench.methods import _image_ops as ops


def photographs():
    """32 x 48 pixels from photographs, at two scales, and images with few levels."""
    sources = [*load_sample_images().images, data.astronaut(), data.coffee(), data.chelsea()]
    images = []
    for source in sources:
        for scale in (1, 6):
            size = (source.shape[1] // scale, source.shape[0] // scale)
            small = np.asarray(Image.fromarray(source).resize(size, Image.Resampling.LANCZOS))
            top, left = (small.shape[0] - 32) // 2, (small.shape[1] - 48) // 2
            images.append(small[top : top + 32, left : left + 48])
    grey = np.full((32, 48, 3), 77, np.uint8)
    two = np.zeros((32, 48, 3), np.uint8)
    two[8:20, 10:30] = (255, 3, 128)
    noise = np.random.default_rng(0).integers(0, 256, (32, 48, 3), np.uint8)
    return np.stack([*images, grey, two, noise])


PHOTOGRAPHS = photographs()
LEVELS = torch.from_numpy(PHOTOGRAPHS).permute(0, 3, 1, 2).float()


def differences(batched, single, values):
    """Levels between the batch and Pillow, where image n has value n of a rotated list."""
    values = np.resize(np.asarray(values, np.float64), len(PHOTOGRAPHS))
    found = batched(LEVELS.clone(), torch.from_numpy(values)).permute(0, 2, 3, 1).numpy()
    expected = np.stack(
        [
            np.asarray(single(Image.fromarray(image), value))
            for image, value in zip(PHOTOGRAPHS, values, strict=True)
        ]
    )
    assert found.shape == expected.shape
    return np.abs(found - expected.astype(np.float32))


def spread(low, high, count=13, shift=0):
    return np.roll(np.linspace(low, high, count), shift)


ENHANCERS = {
    "color": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "brightness": ImageEnhance.Brightness,
    "sharpness": ImageEnhance.Sharpness,
}
SINGLE = {
    "autocontrast": lambda image, _: ImageOps.autocontrast(image),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "posterize": lambda image, bits: ImageOps.posterize(image, int(bits)),
    "solarize": lambda image, threshold: ImageOps.solarize(image, threshold),
    **{
        name: lambda image, factor, kind=kind: kind(image).enhance(factor)
        for name, kind in ENHANCERS.items()
    },
}
# The largest difference in levels of 255 that was found, and the values that were tried.
CASES = {
    "autocontrast": (1, [[0.0]]),
    "equalize": (0, [[0.0]]),
    "posterize": (0, [[1, 2, 3, 4, 5, 6, 7, 8], [8, 3, 6, 2, 4]]),
    "solarize": (0, [[256, 255, 200, 128, 77, 1, 0]]),
    **{name: (1, [spread(0.01, 2, shift=k) for k in range(0, 13, 3)]) for name in ENHANCERS},
}


@pytest.mark.parametrize("name", CASES)
def test_an_operation_is_pillows(name):
    allowed, batches = CASES[name]
    assert set(CASES) == set(ops.OPERATIONS)
    for values in batches:
        difference = differences(ops.OPERATIONS[name], SINGLE[name], values)
        assert difference.max() <= allowed
        assert (difference > 0).mean() <= 0.02 * allowed


def pillow_affine(name, bilinear):
    resample = Image.Resampling.BILINEAR if bilinear else Image.Resampling.NEAREST

    def single(image, value):
        if name == "rotate":
            return image.rotate(value, resample=resample)
        matrix = [1, 0, 0, 0, 1, 0]
        matrix[ops.POSITIONS[name]] = value
        return image.transform(image.size, Image.Transform.AFFINE, matrix, resample=resample)

    return single


def batched_affine(name, bilinear):
    return lambda levels, values: ops.affine(
        levels, ops.affine_matrix(name, values, *levels.shape[2:]), bilinear
    )


VALUES = {
    "rotate": [spread(-135, 135), [0, 90, -90, 180, 45, -45, 1, -1]],
    "shear-x": [spread(-0.99, 0.99), [0, 0.09, -0.09, 0.5]],
    "shear-y": [spread(-0.99, 0.99), [0, 0.09, -0.09, 0.5]],
    "translate-x": [[0, 1, -1, 3, -3, 32, -32, 47, 48]],
    "translate-y": [[0, 1, -1, 3, -3, 31, -31, 32]],
}


@pytest.mark.parametrize("name", ops.GEOMETRIC)
@pytest.mark.parametrize("bilinear", [True, False], ids=["bilinear", "nearest"])
def test_a_transformation_is_pillows(name, bilinear):
    """The nearest neighbour is exact; bilinear truncates, and differs by at most one level."""
    for values in VALUES[name]:
        difference = differences(
            batched_affine(name, bilinear), pillow_affine(name, bilinear), values
        )
        assert difference.max() <= int(bilinear)
        assert (difference > 0).mean() < 0.01
