"""The embedded datasets: deterministic, balanced, cached, and what they claim to be."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sdgbench import registry
from sdgbench.conformance.synthetic import SyntheticTwin
from sdgbench.datasets import _scenes as scenes
from sdgbench.errors import UserError
from sdgbench.reporter import Silent
from sdgbench.spec import parameters


def make(name, root, preset="smoke", **options):
    cls = registry.get("dataset", name).load()
    return cls(root, parameters.build(cls.Options, options), cls.recipe(preset))


@pytest.fixture
def digits(data):
    return make("digits-mini", data)


@pytest.fixture
def streets(data):
    return make("streets-mini", data)


def test_the_digits_are_scikit_learns_and_divided_once(digits):
    train, val = digits.source("train"), digits.source("val")
    assert (len(train), len(val)) == (1297, 500)
    together = np.sort(np.concatenate([train.labels, val.labels]))
    assert np.array_equal(together, np.sort(load_digits().target))
    pixels = {image.tobytes() for image in train.images}
    assert not pixels & {image.tobytes() for image in val.images}
    assert train.images.shape[1:] == (3, 32, 32)
    assert (train.images[:, 0] == train.images[:, 2]).all()


def test_digit_domains(digits):
    assert list(digits.target_tags(digits.options)) == ["street", "texture", "print", "scan"]
    for name in digits.target_tags(digits.options):
        domain = digits.target(name)
        counts = np.bincount(domain.labels, minlength=10)
        assert len(domain) == 1000
        assert counts.min() >= 70, name
        assert domain.images.std() > 20, name
    held_out = digits.source("val").labels
    for name in ("texture", "scan"):  # made from held-out handwriting only
        assert np.array_equal(digits.target(name).labels, np.tile(held_out, 2))
    colour = {
        n: np.ptp(digits.target(n).images.astype(int), axis=1).mean()
        for n in digits.target_tags(None)
    }
    assert colour["scan"] == 0
    assert min(colour[name] for name in ("street", "texture", "print")) > 5


@pytest.mark.parametrize("name", ["digits-mini", "streets-mini", "shapes10c", "styles-mini"])
def test_rendering_twice_gives_the_same_bytes(name, data, tmp_path):
    first, second = make(name, data), make(name, tmp_path)
    for target in list(first.target_tags(first.options))[:2]:
        assert first.target(target).sha256() == second.target(target).sha256()
    assert first.source("val").sha256() == second.source("val").sha256()


def test_a_second_use_renders_nothing(digits, data):
    digits.prepare()
    again = make("digits-mini", data)
    again.prepare(Silent())
    assert again.rendered == 0


def test_a_damaged_cache_is_named(tmp_path):
    dataset = make("digits-mini", tmp_path)
    dataset.source("val")
    path = tmp_path / "digits-mini" / "v1" / "val-images.npy"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match=r"val-images\.npy is damaged. Delete it"):
        make("digits-mini", tmp_path).source("val")


def test_streets_have_synthias_protocol(streets):
    assert streets.source_name(streets.options) == "highway/dawn"
    names = list(streets.target_tags(streets.options))
    assert len(names) == 10
    assert names[0] == "city/dawn"
    assert names[-1] == "town/winter"
    assert streets.target_tags(streets.options)["town/fog"] == {
        "location": "town",
        "condition": "fog",
    }
    assert len(scenes.CLASSES) == len(scenes.PALETTE) == streets.task.classes == 14
    other = make("streets-mini", streets.root.parent, source="fog")
    assert other.source_name(other.options) == "highway/fog"


def test_the_source_streets_show_every_class(streets):
    labels = streets.source("train").labels
    present = np.bincount(labels.ravel(), minlength=14)
    assert len(present) == 14
    assert (present > 0).all()
    images = [(labels == c).any((1, 2)).mean() for c in range(14)]
    assert images[scenes.CLASSES.index("road")] == 1.0
    assert images[scenes.CLASSES.index("sky")] == 1.0


def test_conditions_change_the_light_and_locations_the_geometry():
    def mean_image(location, condition):
        return np.mean([scenes.render(location, condition, i, (64, 96))[0] for i in range(8)])

    def share(location, name):
        drawn = [scenes.render(location, "spring", i, (64, 96))[1] for i in range(8)]
        return np.mean(np.stack(drawn) == scenes.CLASSES.index(name))

    assert mean_image("town", "night") < mean_image("town", "dawn") < mean_image("town", "winter")
    assert share("highway", "building") < 0.1 < share("city", "building")
    assert share("highway", "sky") > share("city", "sky")
    assert share("town", "pedestrian") > share("highway", "pedestrian")


def test_labels_fit_the_image():
    """The sky is where the label says: by day it is brighter than what is in front of it."""
    image, labels = scenes.render("town", "winter", 4)
    assert image.shape == (192, 320, 3)
    assert labels.shape == (192, 320)
    sky = scenes.CLASSES.index("sky")
    assert image[labels == sky].mean() > image[labels == scenes.CLASSES.index("building")].mean()
    rows = np.flatnonzero((labels == sky).any(1))
    assert rows.max() < 140


def test_unknown_scenes_are_refused():
    with pytest.raises(ValueError, match="no scene"):
        scenes.render("moon", "dawn", 0)


def test_erm_runs_on_segmentation_and_reports_each_class(cli, tmp_path):
    done = cli("run", "--method", "erm", "--dataset", "streets-mini", "--preset", "smoke")
    assert done.code == 0, done.out
    record = json.loads(next(tmp_path.glob("runs/*/*/*/record.json")).read_text())
    assert record["metric"] == "mIoU"
    for result in record["results"]["last"]["per_domain"].values():
        known = [value for value in result["iou"] if value is not None]
        assert result["mIoU"] == pytest.approx(np.mean(known))
        assert len(result["iou"]) == 14
    stored = np.load(next(tmp_path.glob("runs/*/*/*/predictions.npz")))
    assert stored["last/town/fog"].shape == (4, 64, 96)
    assert "10 unseen domains" in cli("compare").out


@pytest.mark.parametrize("name", sorted(registry.entries("dataset")))
@pytest.mark.parametrize("preset", ["paper", "quick", "smoke"])
def test_every_dataset_has_the_three_presets(name, preset):
    cls = registry.get("dataset", name).load()
    recipe = cls.recipe(preset)
    assert bool(recipe.reduced) == (preset != "paper")


@pytest.mark.parametrize("name", sorted(registry.entries("dataset")))
def test_every_dataset_has_a_tiny_twin(name):
    cls = registry.get("dataset", name).load()
    options = parameters.build(cls.Options, {})
    recipe = cls.recipe("smoke")
    twin = SyntheticTwin(cls, options, recipe)
    for domain in (
        twin.source("train"),
        twin.source("val"),
        *(twin.target(n) for n in cls.target_tags(options)),
    ):
        assert domain.images.shape[2:] == recipe.image_size
        assert domain.labels.max() < cls.task.classes
    assert (
        twin.source("train").sha256()
        == SyntheticTwin(cls, options, recipe).source("train").sha256()
    )
    assert twin.source("train").sha256() != twin.source("val").sha256()


def test_shapes_are_corrupted_test_images_in_order(data):
    from sdgbench.corruptions.generator import corrupt

    dataset = make("shapes10c", data)
    clean = dataset.target("clean")
    assert len(clean) == 400
    assert np.bincount(clean.labels).tolist() == [40] * 10
    expected = corrupt(np.ascontiguousarray(clean.images.transpose(0, 2, 3, 1)), "contrast", 4)
    corrupted = dataset.target("contrast/4")
    assert np.array_equal(corrupted.images, expected.transpose(0, 3, 1, 2))
    assert np.array_equal(corrupted.labels, clean.labels)
    train = {image.tobytes() for image in dataset.source("train").images}
    assert not train & {image.tobytes() for image in clean.images}


def test_erm_runs_on_corruptions_and_mce_is_shown(cli):
    done = cli("run", "--method", "erm", "--dataset", "shapes10c", "--preset", "smoke")
    assert done.code == 0, done.out
    shown = cli("compare").out
    for name in (
        "acc19_L5",
        "acc15_L5",
        "acc15_all",
        "clean",
        "mCE19_L5_vs_erm",
        "RmCE19_L5_vs_erm",
    ):
        assert name in shown
