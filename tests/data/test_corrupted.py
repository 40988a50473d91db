"""The corruption generator around another dataset."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))
import folders

from sdgbench import registry
from sdgbench.corruptions.generator import corrupt
from sdgbench.errors import UserError
from sdgbench.spec import parameters


def make(root, size=None, **options):
    cls = registry.get("dataset", "corrupted").load()
    recipe = cls.recipe("smoke")
    if size:
        recipe = parameters.build(type(recipe), {**vars(recipe), "image_size": size})
    return cls(root, parameters.build(cls.Options, options), recipe)


@pytest.fixture
def mine(tmp_path):
    root = folders.tidy(tmp_path / "images", count=40)
    return make(tmp_path, (48, 40), of="folder", options=f"root={root},source=photo,holdout=0.3")


def test_ones_own_images_are_corrupted_at_their_size(mine):
    mine.prepare()
    assert mine.task.names == ("cat", "dog")
    clean, contrast = mine.target("clean"), mine.target("contrast/4")
    assert clean.images.shape[1:] == (3, 48, 40)
    channels_last = np.ascontiguousarray(clean.images.transpose(0, 2, 3, 1))
    expected = corrupt(channels_last, "contrast", 4).transpose(0, 3, 1, 2)
    assert np.array_equal(contrast.images, expected)
    assert np.array_equal(contrast.labels, clean.labels)
    assert len(mine.target_tags(mine.options)) == 96
    assert mine.data_flags()["regenerated"] == ["corruptions"]


def test_tested_images_are_neither_trained_on_nor_validated_with(mine):
    tested = {image.tobytes() for image in mine.target("clean").images}
    for split in ("train", "val"):
        assert not tested & {image.tobytes() for image in np.asarray(mine.source(split).images)}
    held_out = mine.inner.source("val")
    assert len(tested) + len(mine.source("val")) == len(held_out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": "streets-mini"}, "cannot be corrupted"),
        ({"of": "corrupted"}, "cannot be corrupted"),
        ({"of": "foldr"}, 'Did you mean "folder"'),
        ({"of": "folder", "options": "roof=x"}, 'Did you mean "root"'),
        ({"of": "folder", "options": "photo"}, "write KEY=VALUE"),
    ],
)
def test_what_cannot_be_corrupted_is_said(tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        make(tmp_path, **options)
