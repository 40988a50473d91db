"""Folders of images as datasets: what is found, decoded, divided and refused."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

sys.path.append(str(Path(__file__).parent))
import folders

from sdgbench import registry
from sdgbench.data import image_cache
from sdgbench.data.decoding import read_fitted
from sdgbench.data.listing import list_images
from sdgbench.errors import UserError
from sdgbench.reporter import Silent
from sdgbench.spec import parameters

RUN = ("run", "--method", "erm", "--dataset", "folder", "--preset", "smoke")


class Notes(Silent):
    """Keeps what a user would read."""

    def __init__(self):
        self.lines = []

    def note(self, text):
        self.lines.append(text)


def make(data, folder, **options):
    cls = registry.get("dataset", "folder").load()
    built = parameters.build(cls.Options, {"root": str(folder), "source": "photo", **options})
    return cls(data, built, cls.recipe("smoke"))


def prepared(data, root, **options):
    dataset, notes = make(data, root, **options), Notes()
    dataset.prepare(notes)
    return dataset, notes.lines


@pytest.fixture
def tidy(tmp_path):
    return folders.tidy(tmp_path / "images")


@pytest.fixture
def odd(tmp_path):
    return folders.odd(tmp_path / "images")


def test_domains_and_classes_come_from_the_tree(tidy, tmp_path):
    dataset, notes = prepared(tmp_path, tidy)
    assert dataset.task.names == ("cat", "dog")
    assert list(dataset.target_tags(dataset.options)) == ["cartoon", "sketch"]
    train, val, target = dataset.source("train"), dataset.source("val"), dataset.target("sketch")
    assert len(train) + len(val) == len(target) == 24
    assert train.images.shape[1:] == (3, 32, 32)
    assert notes == [f"decoding 72 images to 32x32 once, 0 MB in {tmp_path / 'folder/decoded'}"]
    expected = read_fitted(tidy / "sketch" / "dog" / "03.png", (32, 32))
    assert np.array_equal(target.images[15], expected)
    assert target.labels.tolist() == [0] * 12 + [1] * 12


def test_the_held_out_part_depends_on_paths_only(tidy, tmp_path):
    before = make(tmp_path / "a", tidy).source("val")
    folders.picture(1000).save(tidy / "photo" / "cat" / "new.png")
    after = make(tmp_path / "b", tidy).source("val")
    seen = {image.tobytes() for image in np.asarray(after.images)}
    assert {image.tobytes() for image in np.asarray(before.images)} <= seen


def test_odd_files_become_rgb(odd):
    folder, size = odd / "photo" / "dog", (30, 40)
    reference = np.asarray(folders.picture(999)).transpose(2, 0, 1).astype(int)
    grey = read_fitted(folder / "grey.jpg", size)
    assert (grey[0] == grey[1]).all()
    assert (grey[0] == grey[2]).all()
    assert np.abs(read_fitted(folder / "print.JPG", size) - reference).mean() < 8
    assert np.abs(read_fitted(folder / "palette.gif", size) - reference).mean() < 20
    assert (read_fitted(folder / "alpha.webp", size) == 255).all()
    deep = np.arange(1200).reshape(30, 40) * 54 / 257
    assert np.abs(read_fitted(folder / "deep.png", size)[1] - deep).max() <= 0.5
    assert set(np.unique(read_fitted(folder / "bits.tiff", size))) <= {0, 255}
    turned = read_fitted(folder / "turned.jpeg", (40, 30))
    upright = np.rot90(reference, k=-1, axes=(1, 2))
    assert np.abs(turned - upright).mean() < 8
    with pytest.raises(ValueError, match=r"torn\.jpg is damaged"):
        read_fitted(folder / "torn.jpg", size)


def test_crop_keeps_the_aspect_ratio(tmp_path):
    image = Image.new("RGB", (60, 20), "black")
    image.paste("white", (20, 0, 40, 20))
    image.save(tmp_path / "wide.png")
    assert (read_fitted(tmp_path / "wide.png", (20, 20), "crop") == 255).all()
    assert read_fitted(tmp_path / "wide.png", (20, 20), "stretch").mean() < 100


def test_a_broken_image_is_named_and_refused_or_skipped(odd, tmp_path):
    with pytest.raises(UserError, match=r"1 of 82 images .*photo/dog/torn\.jpg.*broken=skip"):
        make(tmp_path, odd).prepare(Notes())
    dataset, notes = prepared(tmp_path, odd, broken="skip")
    assert len(dataset.source("train")) + len(dataset.source("val")) == 24 + 8
    assert dataset.data_flags()["broken_images_skipped"] == ["photo/dog/torn.jpg"]
    assert dataset.data_flags()["classes_left_out"] == ["bird"]
    assert any("cartoon/empty, photo/empty, sketch/empty" in line for line in notes)
    assert any("left out everywhere: bird" in line for line in notes)
    assert len(dataset.target("sketch")) == 24


def test_a_class_that_a_target_lacks_is_said(tidy, tmp_path):
    for file in (tidy / "sketch" / "dog").iterdir():
        file.unlink()
    dataset, notes = prepared(tmp_path, tidy)
    assert "sketch has no images of: dog" in notes
    assert set(dataset.target("sketch").labels) == {0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "photos"}, 'called "photos".*Did you mean "photo"'),
        ({"source": ""}, "Which domain is the source.*cartoon, photo, sketch"),
        ({"root": ""}, "--set root=DIR --set source=DOMAIN"),
        ({"root": "nowhere"}, "nowhere is not a folder"),
        ({"layout": "{domain}"}, "needs {class} once"),
        ({"layout": "{domain}/{class}/{more}"}, "is not known"),
        ({"splits": "no.txt"}, "no lists of images"),
    ],
)
def test_what_cannot_be_is_said_before_training(tidy, tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        make(tmp_path, tidy, **options).prepare()


def test_one_domain_or_no_layout_is_explained(tmp_path):
    alone = folders.tidy(tmp_path / "alone", domains=("photo",))
    with pytest.raises(UserError, match="one domain only, photo"):
        make(tmp_path, alone).prepare()
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="has no images"):
        make(tmp_path, tmp_path / "empty")
    folders.picture(1).save(tmp_path / "empty" / "1.png")
    with pytest.raises(UserError, match="none at the layout"):
        make(tmp_path, tmp_path / "empty")


def test_layouts_name_other_nestings(tmp_path):
    folders.tidy(tmp_path / "v1" / "images" / "train", 2)
    folders.tidy(tmp_path / "v1" / "images" / "val", 1)
    listing = list_images(tmp_path / "v1", "images/{split}/{domain}/{class}")
    assert listing.domains == folders.DOMAINS
    assert [item.split for item in listing.items if item.domain == "photo"].count("val") == 2
    dataset = make(tmp_path, tmp_path / "v1", layout="*/{split}/{domain}/{class}")
    assert (len(dataset.source("train")), len(dataset.source("val"))) == (4, 2)
    assert len(dataset.target("sketch")) == 6


def test_lists_of_files_divide_the_source(tidy, tmp_path):
    """As Dassl has PACS: lists next to the folder of the images, labels from 1."""
    lists = tidy.parent / "splits"
    lists.mkdir()
    lines = [f"{d}/{c}/{n:02d}.png {k}" for d in folders.DOMAINS
             for k, c in enumerate(folders.CLASSES, 1) for n in range(4)]  # fmt: skip
    photo = [line for line in lines if line.startswith("photo")]
    (lists / "photo_train_kfold.txt").write_text("\n".join(photo[::2]))
    (lists / "photo_crossval_kfold.txt").write_text("\n".join(photo[1::2]))
    for domain in folders.DOMAINS:
        test = [line for line in lines if line.startswith(domain)]
        (lists / f"{domain}_test_kfold.txt").write_text("\n".join(test))
    dataset = make(tmp_path, tidy, splits="../splits")
    assert (len(dataset.source("train")), len(dataset.source("val"))) == (4, 4)
    assert len(dataset.target("sketch")) == 8


def test_folders_of_splits_divide_the_source(tmp_path):
    """As Dassl has VLCS, whose folder "full" repeats the others."""
    for domain in folders.DOMAINS:
        for split, count in {"train": 3, "crossval": 2, "test": 1, "full": 6}.items():
            folders.tidy(tmp_path / "vlcs" / domain, count, domains=(split,))
    dataset = make(tmp_path, tmp_path / "vlcs", layout="{domain}/{split}/{class}")
    assert (len(dataset.source("train")), len(dataset.source("val"))) == (6, 4)
    assert len(dataset.target("sketch")) == 2


def test_a_json_file_divides_the_source(tidy, tmp_path):
    rows = {
        split: [[f"{d}/{c}/{n:02d}.png", k, c] for d in folders.DOMAINS
                for k, c in enumerate(folders.CLASSES) for n in numbers]
        for split, numbers in {"train": range(6), "val": (6, 7), "test": (8, 9, 10)}.items()
    }  # fmt: skip
    (tidy / "split.json").write_text(json.dumps(rows))
    dataset = make(tmp_path, tidy, splits="split.json")
    assert (len(dataset.source("train")), len(dataset.source("val"))) == (12, 4)
    assert len(dataset.target("cartoon")) == 6


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("../photo/cat/00.png 0", "is not a path below"),
        ("photo/cat/none.png 0", r"train\.txt:1: there is no file"),
        ("00.png 0", "does not have the layout"),
    ],
)
def test_a_wrong_line_of_a_list_is_named(tidy, tmp_path, line, message):
    (tidy / "train.txt").write_text(line)
    with pytest.raises(UserError, match=message):
        make(tmp_path, tidy, splits="train.txt")


def test_images_are_decoded_once_and_again_when_they_change(tidy, tmp_path):
    _, notes = prepared(tmp_path, tidy)
    assert len(notes) == 1
    assert prepared(tmp_path, tidy)[1] == []
    folders.picture(77).save(tidy / "photo" / "cat" / "00.png")
    assert len(prepared(tmp_path, tidy)[1]) == 1
    assert len(list((tmp_path / "folder" / "decoded").iterdir())) == 1  # the old one is deleted


def test_an_interrupted_decoding_goes_on_where_it_stopped(tmp_path):
    calls = []

    def read(row):
        calls.append(row)
        if len(calls) == 40:
            raise KeyboardInterrupt
        return np.full((3, 4, 5), row, np.uint8)

    arguments = (tmp_path / "cache", 100, (4, 5), read, Silent(), "decode", 1)
    with pytest.raises(KeyboardInterrupt):
        image_cache.decode(*arguments)
    images = image_cache.decode(*arguments).images
    assert len(calls) < 100 + 40
    assert np.asarray(images)[:, 2, 3, 4].tolist() == list(range(100))
    assert images[np.array([7, 3])][:, 0, 0, 0].tolist() == [7, 3]
    assert images[-1, 1, 0, 0] == 99
    assert images[10:20:4].shape == (3, 3, 4, 5)


@pytest.mark.parametrize("count", [300, 1000])
def test_any_number_of_classes(tmp_path, count):
    names = [f"c{number:04d}" for number in range(count)]
    for domain in ("photo", "sketch"):
        for number, name in enumerate(names):
            folder = tmp_path / "many" / domain / name
            folder.mkdir(parents=True)
            for copy in range(2):
                Image.new("RGB", (2, 2), (number % 256, number // 256, copy)).save(
                    folder / f"{copy}.bmp"
                )
    dataset = make(tmp_path, tmp_path / "many")
    labels = dataset.target("sketch").labels
    assert dataset.task.classes == count
    assert np.array_equal(labels, np.repeat(np.arange(count), 2))


def test_a_run_needs_no_code(cli, odd, tmp_path):
    settings = ("--set", f"root={odd}", "--set", "source=photo")
    refused = cli(*RUN, *settings)
    assert refused.code != 0
    assert "torn.jpg" in refused.out + refused.err
    done = cli(*RUN, *settings, "--set", "broken=skip")
    assert done.code == 0, done.out
    record = json.loads(next(tmp_path.glob("runs/*/*/*/record.json")).read_text())
    assert record["classes"] == ["cat", "dog"]
    assert record["flags"]["other"]["broken_images"] == 1
    assert "finished before" in cli(*RUN, *settings, "--set", "broken=skip").out


def test_a_method_that_needs_feature_maps_refuses_a_transformer(cli, tidy, tmp_path):
    arguments = ("--set", f"root={tidy}", "--set", "source=photo", "--set")
    refused = cli(*RUN[:2], "mixstyle", *RUN[3:], *arguments, "recipe.network=timm:test_vit")
    assert refused.code == 2
    lines = (refused.out + refused.err).splitlines()
    (line,) = [line for line in lines if "no stages of feature maps" in line]
    assert "recipe.network=wrn-16-4" in line
    assert not list(tmp_path.glob("runs/*/*/*/checkpoint.pt"))


def test_check_opens_a_folder_and_says_what_is_unusual(cli, odd):
    settings = ("--set", f"root={odd}", "--set", "source=photo")
    refused = cli("check", "folder", *settings)
    assert refused.code == 1
    assert "torn.jpg" in refused.out
    done = cli("check", "folder", *settings, "--set", "broken=skip")
    assert done.code == 0, done.out
    assert "left out everywhere: bird" in done.out
    assert "unseen: cartoon 24, sketch 24" in done.out
    assert 'called "rot"' in cli("check", "folder", "--set", "rot=x").out
    assert "Omit --set" in cli("check", "erm", *settings).err
