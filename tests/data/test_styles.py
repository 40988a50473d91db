"""styles-mini: four styles of the same seven classes, any of which can be the source."""

import numpy as np
import pytest

from sdgbench import registry
from sdgbench.datasets import _styles as styles
from sdgbench.spec import parameters


def make(root, preset="paper", **options):
    cls = registry.get("dataset", "styles-mini").load()
    return cls(root, parameters.build(cls.Options, options), cls.recipe(preset))


@pytest.fixture(scope="module")
def drawn():
    """Some images of each style."""
    labels = np.arange(42) % 7
    return {style: styles.render(style, labels, 0).astype(int) for style in styles.STYLES}


def test_each_style_looks_like_itself(drawn):
    colour = {style: np.ptp(images, axis=1).mean() for style, images in drawn.items()}
    white = {style: (images > 235).all(1).mean() for style, images in drawn.items()}
    assert colour["sketch"] == 0  # pencil
    assert white["sketch"] > 0.6 > max(white["photo"], white["art_painting"])
    assert colour["cartoon"] > colour["photo"]
    # Cartoons are flat: most neighbours are equal, which no photograph's are.
    flat = {style: (np.diff(images, axis=3) == 0).all(1).mean() for style, images in drawn.items()}
    assert flat["cartoon"] > 0.5
    assert flat["photo"] < 0.1
    assert flat["art_painting"] < 0.2


def test_figures_of_one_class_differ(drawn):
    for images in drawn.values():
        assert len({image.tobytes() for image in images}) == len(images)


def test_any_style_can_be_the_source(data):
    dataset = make(data, source="cartoon")
    assert dataset.source_name(dataset.options) == "cartoon"
    assert list(dataset.target_tags(dataset.options)) == ["photo", "art_painting", "sketch"]
    train, val = dataset.source("train"), dataset.source("val")
    assert np.bincount(train.labels).tolist() == [100] * 7
    assert np.bincount(val.labels).tolist() == [20] * 7
    pixels = {image.tobytes() for image in train.images}
    assert not pixels & {image.tobytes() for image in val.images}
    whole = make(data).target("cartoon")  # in full where another style is the source
    assert len(whole) == 840
    assert whole.images.shape[1:] == (3, 64, 64)


def test_reduced_presets_reduce_the_images(data):
    small, full = (
        make(data, preset, source="sketch").source("val") for preset in ("smoke", "paper")
    )
    assert small.images.shape[1:] == (3, 32, 32)
    assert np.array_equal(small.labels, full.labels)
    means = full.images.reshape(len(full), 3, 32, 2, 32, 2).mean((3, 5))
    assert np.abs(means - small.images).mean() < 10
