"""What a run and a check say about images and labels that do not fit."""

import re

import numpy as np
import pytest

from sdgbench.data.domain import Domain, lazy_rows
from sdgbench.data.validation import check_domain
from sdgbench.dataset import Dataset
from sdgbench.errors import BadData, UserError
from sdgbench.recipe import Recipe
from sdgbench.task import Classification, Segmentation

FOUR = Classification(4)
OWN_DATASET = '''
from dataclasses import replace

import numpy as np

from sdgbench.dataset import Dataset, Domain, Recipe
from sdgbench.registry import register_dataset
from sdgbench.task import Classification


@register_dataset("own")
class Own(Dataset):
    """Noise with four classes."""

    task = Classification(classes=4)

    @classmethod
    def recipes(cls):
        recipe = Recipe(network="convnet-2", lr=1e-3, steps=3, batch=8, validations=1)
        return {"paper": recipe, "smoke": replace(recipe, steps=2)}

    @classmethod
    def source_name(cls, options):
        return "photo"

    @classmethod
    def target_tags(cls, options):
        return {"sketch": {}}

    def source(self, split):
        return self.noise("photo", 0)

    def target(self, name):
        return self.noise(name, 0)

    def noise(self, name, first):
        rng = np.random.default_rng(0)
        images = rng.integers(0, 256, (24, 3, 32, 32)).astype(np.uint8)
        return Domain(name, images, first + np.arange(24) % 4)
'''
OFF_BY_ONE = "its labels go from 1 to 4, but 4 classes are numbered from 0 to 3. They seem to"


def domain(labels, size=(8, 8)):
    labels = np.asarray(labels)
    return Domain("photo", np.zeros((len(labels), 3, *size), np.uint8), labels)


@pytest.fixture
def own(tmp_path):
    """Write the file of the dataset with one text replaced."""

    def write(old="", new=""):
        assert old in OWN_DATASET
        (tmp_path / "own.py").write_text(OWN_DATASET.replace(old, new, 1))

    return write


def test_labels_and_shapes_that_fit_are_accepted():
    check_domain(domain([0, 3, 1]), FOUR, (8, 8), "own, source")
    check_domain(domain(np.zeros((2, 8, 8), int)), Segmentation(4), (8, 8), "own, source")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 2, 3, 4], f"own, source photo: {OFF_BY_ONE} count from 1: subtract 1."),
        ([0, 9], "go from 0 to 9.* raise the number of classes of the task to 10"),
        ([-1, 3], "go from -1 to 3.* Remove images without a label"),
        ([[0], [1]], r"a classification needs labels one per image \(N,\), not \(2, 1\)"),
    ],
)
def test_labels_that_do_not_fit_are_refused_with_a_way_out(labels, message):
    with pytest.raises(BadData, match=message):
        check_domain(domain(labels), FOUR, (8, 8), "own, source")


def test_a_label_map_has_one_label_per_pixel_within_the_classes():
    with pytest.raises(BadData, match=r"one per pixel \(N, 8, 8\), not \(2,\)"):
        check_domain(domain([0, 1]), Segmentation(4), (8, 8), "own")
    with pytest.raises(BadData, match="the class that the task calls void"):
        check_domain(domain(np.full((2, 8, 8), -1)), Segmentation(4), (8, 8), "own")


def test_images_have_the_size_of_the_recipe():
    with pytest.raises(BadData, match=r"8x9 pixels, .* 32x32.*--set recipe.image_size=8,9"):
        check_domain(domain([0, 1], (8, 9)), FOUR, (32, 32), "own")


def test_labels_are_read_in_blocks(monkeypatch):
    monkeypatch.setattr("sdgbench.data.domain.BYTES_AT_ONCE", 16)  # two labels
    read = []
    labels = lazy_rows(np.array([0, 1, 2, 3, 7]), transform=lambda rows: read.append(rows) or rows)
    with pytest.raises(BadData, match="from 0 to 7"):
        check_domain(Domain("far", np.zeros((5, 3, 8, 8), np.uint8), labels), FOUR, (8, 8), "own")
    assert max(map(len, read)) == 2


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((2, 3, 8, 8)), [0, 1], "must be uint8 .*, not float64"),
        (np.zeros((2, 8, 8, 3), np.uint8), [0, 1], r"not uint8 \(2, 8, 8, 3\)"),
        (np.zeros((2, 3, 8, 8), np.uint8), [0], "not 1 labels for 2 images"),
    ],
)
def test_arrays_that_are_no_domain_are_refused_in_one_line(images, labels, message):
    with pytest.raises(UserError, match=message):
        Domain("odd", images, np.asarray(labels))


# Hostile arrays: whatever a dataset returns is refused when it is opened -----------------------

IMAGES = np.zeros((4, 3, 8, 8), np.uint8)
LABELS = np.arange(4)
HOSTILE_LABELS = {
    "floats": LABELS + 0.5,
    "whole floats": LABELS.astype(float),
    "not numbers": np.full(4, np.nan),
    "complex": LABELS.astype(complex),
    "text": np.array(["0", "1", "2", "3"]),
    "bytes": np.array([b"0", b"1", b"2", b"3"]),
    "objects": np.array([0, 1, 2, None]),
    "truth values": LABELS > 1,
    "times": LABELS.astype("M8[s]"),
    "durations": LABELS.astype("m8[s]"),
    "records": np.zeros(4, [("label", int)]),
    "shifted by 256": LABELS + 256,
    "shifted by -256": LABELS - 256,
    "beyond 63 bits": np.full(4, 2**63, np.uint64),
    "the lowest": np.full(4, np.iinfo(np.int64).min),
    "one too many classes": np.array([0, 1, 2, 4]),
    "no axis": np.array(3),
    "two axes": LABELS.reshape(4, 1),
    "too few": LABELS[:3],
    "none": LABELS[:0],
    "a list": [0, 1, 2, 3],
    "nothing": None,
}
HOSTILE_IMAGES = {
    "floats": IMAGES.astype(float),
    "truth values": IMAGES > 0,
    "objects": np.full((4, 3, 8, 8), None),
    "records": np.zeros((4, 3, 8, 8), [("a", np.uint8)]),
    "16 bits": IMAGES.astype(np.uint16),
    "channels last": IMAGES.transpose(0, 2, 3, 1),
    "four channels": np.zeros((4, 4, 8, 8), np.uint8),
    "five axes": IMAGES[..., None],
    "no axis": np.array(0, np.uint8),
    "no pixels": np.zeros((4, 3, 0, 0), np.uint8),
    "none": IMAGES[:0],
    "a list": [[0]],
}


class Handed(Dataset):
    """Hands out whatever it is given."""

    name, task = "handed", FOUR

    def __init__(self, images, labels):
        self.options, self.recipe_used = (
            None,
            Recipe(network="convnet-2", lr=1e-3, steps=3, image_size=(8, 8)),
        )
        self.images, self.labels = images, labels

    def source(self, split):
        return Domain("photo", self.images, self.labels)

    def target(self, name):
        return Domain(name, self.images, self.labels)


def test_what_fits_is_opened():
    assert len(Handed(IMAGES, LABELS).open_source("train")) == 4
    wide = Handed(IMAGES, np.array([0, 300, 699, 5]))
    wide.task = Classification(700)  # more classes than a byte holds are fine
    assert wide.open_source("train").labels.max() == 699


@pytest.mark.parametrize("what", HOSTILE_LABELS)
def test_hostile_labels_are_refused_at_opening(what):
    handed = Handed(IMAGES, HOSTILE_LABELS[what])
    for opened in (lambda: handed.open_source("train"), lambda: handed.open_target("sketch")):
        with pytest.raises(BadData, match="label"):
            opened()


@pytest.mark.parametrize("what", HOSTILE_IMAGES)
def test_hostile_images_are_refused_at_opening(what):
    handed = Handed(HOSTILE_IMAGES[what], LABELS)
    for opened in (lambda: handed.open_source("val"), lambda: handed.open_target("sketch")):
        with pytest.raises(BadData, match="image"):
            opened()


# A dataset of the user's own ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'self.noise("photo", 0)',
            'self.noise("photo", 1)',
            f"own, source (train) photo: {OFF_BY_ONE}",
        ),
        ("self.noise(name, 0)", "self.noise(name, 1)", f"own, target sketch: {OFF_BY_ONE}"),
        ('return {"sketch": {}}', "return {}", "own has no target."),
        ("(24, 3, 32, 32)", "(24, 3, 28, 28)", "28x28 pixels, but the recipe says 32x32"),
        ("(24, 3, 32, 32)", "(24, 32, 32)", "images must be uint8 (N, 3, H, W)"),
        ("convnet-2", "fcn32-resnet18", "fcn32-resnet18 is for segmentation"),
        ("def target(self", "def ziel(self", "The dataset raised NotImplementedError"),
        ('"smoke"', '"quick"', 'No preset "smoke".'),
    ],
)
def test_check_opens_a_dataset_and_says_what_is_wrong(old, new, message, own, cli):
    own(old, new)
    done = cli("check", "own.py")
    assert done.code == 1
    assert "FAILED" in done.out
    assert message in " ".join(done.out.split())


def test_a_sound_dataset_passes(own, cli):
    own()
    done = cli("check", "own.py")
    assert (done.code, done.err) == (0, "")
    assert "Images: photo 24 to train on; unseen: sketch 24" in done.out
    assert "All of its 2 domains fit its task and recipe." in done.out
    assert cli("check", "digits", "--data", "empty").out.split()[2] == "skipped"
    assert 'Did you mean "digits"' in cli("check", "digts").err
    assert "Omit --dataset" in cli("check", "own.py", "--dataset", "own").err


def test_checking_a_method_opens_the_dataset_and_makes_a_real_run_on_it(own, cli):
    own("self.noise(name, 0)", "self.noise(name, 1)")
    broken = cli("check", "erm", "--dataset", "own", "--plugin", "own.py")
    assert broken.code == 1
    assert re.findall(r"^FAILED +(\w+)", broken.out, re.M) == ["data"]
    assert 'because "data" failed' in broken.out  # the real run


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_run_on_data_that_do_not_fit_leaves_nothing(jobs, own, cli, tmp_path):
    own('self.noise("photo", 0)', 'self.noise("photo", 1)')
    command = ("run", "--method", "erm", "--dataset", "own", "--preset", "smoke")
    done = cli(*command, "--plugin", "own.py", "--seeds", "0-1", "--jobs", jobs)
    assert done.code == 2
    assert f"Error: own, source (train) photo: {OFF_BY_ONE}" in done.err
    assert done.err.count("\n") == 1
    assert not [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert "No runs" in cli("status").out


def test_a_target_that_does_not_fit_is_named_after_training(own, cli):
    own("self.noise(name, 0)", "self.noise(name, 1)")
    command = ("run", "--method", "erm", "--dataset", "own", "--preset", "smoke")
    done = cli(*command, "--plugin", "own.py")
    assert done.code == 2
    assert f"Error: own, target sketch: {OFF_BY_ONE}" in done.err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_run_without_data_leaves_nothing_and_says_how_to_get_them(jobs, cli, tmp_path):
    done = cli(
        "run",
        "--method",
        "erm",
        "--dataset",
        "digits",
        "--data",
        "gone",
        "--seeds",
        "0-1",
        "--jobs",
        jobs,
    )
    assert done.code == 2
    assert "digits needs data that is not in the folder 'gone': mnist-train" in done.err
    assert "sdgbench data prepare digits" in done.err
    assert done.err.count("\n") == 1
    assert not [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert not (tmp_path / "gone").exists()
    assert "No runs" in cli("status").out


@pytest.mark.parametrize("name", ["cifar10c", "digits", "synthia"])
def test_a_dataset_is_described_without_its_data(name, cli):
    done = cli("info", name, "--data", "gone")
    assert (done.code, done.err) == (0, "")
    assert "no data" in done.out
    assert f"sdgbench data prepare {name}" in " ".join(done.out.split())
