"""Which images are learned from and which are tested on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sdgbench import registry
from sdgbench.adapt.samples import HELD_OUT, Target
from sdgbench.data.domain import Domain
from sdgbench.errors import UserError

TOY = Path(__file__).with_name("toy.py")


@pytest.fixture
def dataset():
    registry.add_plugin(TOY)
    return registry.get("dataset", "toy-turned").load()


def target(cls, train_split=True, name="turned", **changes):
    recipe = replace(cls.recipe("smoke"), **changes)
    return Target(cls(Path("nowhere"), cls.Options(train_split), recipe), name)


@pytest.mark.parametrize("train_split", [True, False])
def test_each_class_is_drawn_equally_often(dataset, train_split):
    one = target(dataset, train_split)
    rows = one.draw(seed=0, draw=3, shots=7)
    assert len(set(rows)) == 28
    assert np.bincount(one.split.labels[rows]).tolist() == [7, 7, 7, 7]


def test_fewer_shots_are_a_part_of_more_class_by_class(dataset):
    one = target(dataset)
    few, more = one.draw(5, 2, 7).reshape(4, 7), one.draw(5, 2, 10).reshape(4, 10)
    assert (few == more[:, :7]).all()
    assert len(one.draw(5, 2, 0)) == 0


def test_draws_seeds_and_targets_differ_and_repeat(dataset):
    one = target(dataset)
    drawn = {
        tuple(target(dataset, name=name).draw(seed, draw, 5))
        for name in ("turned", "darker")
        for seed in (0, 1)
        for draw in (0, 1)
    }
    assert len(drawn) == 8
    assert (one.draw(1, 1, 5) == target(dataset).draw(1, 1, 5)).all()


def test_a_training_split_leaves_the_test_images_whole(dataset):
    one = target(dataset)
    assert (one.drawn_from, one.held_out([0, 7, 10])) == ("train", 0)
    assert len(one.split) == 90
    expected = one.test.subsample(60)
    for draw in (0, 1):
        assert one.evaluation(0, draw, 0).sha256() == expected.sha256()


def test_a_test_split_holds_out_what_any_number_of_shots_could_draw(dataset):
    one = target(dataset, train_split=False)
    assert one.drawn_from == "test"
    assert one.held_out([0, 7]) == one.held_out([0, 7, 10]) == HELD_OUT == 10
    assert one.held_out([0, 12]) == 12
    everything = {image.tobytes() for image in one.test.subsample(60).images}
    for draw in (0, 1):
        drawn = {one.test.images[row].tobytes() for row in one.draw(0, draw, 10)}
        left = {image.tobytes() for image in one.evaluation(0, draw, 10).images}
        assert left == everything - drawn
        assert 60 - 40 <= len(left) < 60


def test_too_few_images_are_named(dataset):
    with pytest.raises(UserError, match="turned has 22 images of class 2 to draw from, not 23"):
        target(dataset).draw(0, 0, 23)
    with pytest.raises(UserError, match="leaves none of its test split"):
        target(dataset, train_split=False).evaluation(0, 0, 25)


def test_digits_mini_trains_on_other_images_than_it_tests(data):
    from sdgbench.adapt.samples import Target

    cls = registry.get("dataset", "digits-mini").load()
    one = Target(cls(data, cls.Options(), cls.recipe("quick")), "scan")
    assert one.drawn_from == "train"
    assert len(one.split) == 500
    assert np.bincount(one.split.labels).min() >= 40
    tested = {image.tobytes() for image in one.test.images}
    assert not tested & {image.tobytes() for image in one.split.images}


def test_digits_enlarge_a_training_split_as_they_do_the_source(tmp_path):
    from sdgbench.data.splits import SplitStore

    rng = np.random.default_rng(0)
    store = SplitStore(tmp_path)
    arrays = {
        "mnist-train": rng.integers(0, 256, (40, 28, 28), dtype=np.uint8),
        "mnist-test": rng.integers(0, 256, (30, 28, 28), dtype=np.uint8),
        "svhn-test": rng.integers(0, 256, (30, 32, 32, 3), dtype=np.uint8),
    }
    for name, images in arrays.items():
        store.save(name, (images, np.arange(len(images)) % 10), "unverified", "here")
    cls = registry.get("dataset", "digits").load()
    as_target = cls(tmp_path, cls.Options(source="usps"), cls.recipe("smoke"))
    as_source = cls(tmp_path, cls.Options(mnist_images=40), cls.recipe("smoke"))
    rows = np.array([3, 17, 8])
    drawn = as_target.target_train("mnist").select(rows)
    assert isinstance(drawn, Domain)
    assert drawn.sha256() == as_source.source("train").select(rows).sha256()
    assert as_target.data_flags() == {"unverified_data": ["mnist-train"]}
    assert as_target.target_train("svhn") is None
    assert Target(as_target, "svhn").drawn_from == "test"
