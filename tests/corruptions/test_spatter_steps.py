"""The steps of spatter's water against OpenCV, on all kinds of bytes."""

import cv2
import numpy as np
import pytest
from corruptions.samples import photos

from sdgbench.corruptions import spatter


def pictures(kind):
    grey = photos(40, 37, 50, seed=7)[..., 0]
    if kind == "noise":
        return np.random.default_rng(0).integers(0, 256, grey.shape, np.uint8)
    if kind == "drops":
        return np.where(grey > 170, grey, 0).astype(np.uint8)
    if kind == "flat":
        return np.full_like(grey, 9)
    return grey


@pytest.mark.parametrize("kind", ["photos", "noise", "drops", "flat"])
def test_edges(kind):
    images = pictures(kind)
    expected = np.stack([cv2.Canny(image, 50, 150) for image in images]) > 0
    assert np.array_equal(spatter.edges(images), expected)


@pytest.mark.parametrize("density", [0.0, 0.0005, 0.01, 0.3])
def test_distances(density):
    marked = np.random.default_rng(1).random((30, 37, 50)) < density
    expected = [
        cv2.distanceTransform(np.uint8(255 * ~mask), cv2.DIST_L2, 5).clip(0, 20) for mask in marked
    ]
    assert np.abs(spatter.distances(marked) - np.stack(expected)).max() < 1e-4


@pytest.mark.parametrize("levels", [2, 21, 256])
def test_equalise(levels):
    images = (pictures("photos").astype(int) * levels // 256).astype(np.uint8)
    images[0] = 1  # a single level
    images[1] = 0
    expected = np.stack([cv2.equalizeHist(image) for image in images])
    assert np.array_equal(spatter.equalise(images, levels), expected)
