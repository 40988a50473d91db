"""PACS from a parquet file or from folders, with the published sizes of its splits."""

import io

import numpy as np
import pytest
from PIL import Image

from sdgbench import registry
from sdgbench.data.readers import read_parquet
from sdgbench.data.splits import SplitStore
from sdgbench.datasets import pacs
from sdgbench.errors import MissingData
from sdgbench.paper import published
from sdgbench.spec import parameters


def make(root, preset="smoke", **options):
    cls = registry.get("dataset", "pacs").load()
    return cls(root, parameters.build(cls.Options, options), cls.recipe(preset))


def store(root, size=40):
    """Noise in place of PACS, with the right number of images."""
    for number, (domain, count) in enumerate(pacs.COUNTS.items()):
        rng = np.random.default_rng(number)
        images = rng.integers(0, 256, (count, size, size, 3), np.uint8)
        labels = np.sort(rng.integers(0, 7, count))
        SplitStore(root).save(f"pacs-{domain}", (images, labels), "unverified", "noise")


def test_the_splits_have_the_published_sizes(tmp_path):
    store(tmp_path)
    sizes = {"photo": (1499, 171), "art_painting": (1840, 208), "cartoon": (2107, 237),
             "sketch": (3531, 398)}  # fmt: skip
    for name, (train, val) in sizes.items():
        dataset = make(tmp_path, source=name)
        assert (len(dataset.source("train")), len(dataset.source("val"))) == (train, val)
        targets = list(dataset.target_tags(dataset.options))
        assert sorted([name, *targets]) == sorted(pacs.COUNTS)
    whole = make(tmp_path, source="sketch").target("photo")
    assert len(whole) == 1670
    assert whole.images.shape[1:] == (3, 32, 32)


def test_images_are_resized_once_and_the_table_is_warned(tmp_path):
    store(tmp_path)
    dataset = make(tmp_path)
    dataset.prepare()
    images, labels = SplitStore(tmp_path).get("pacs-photo").load()
    expected = Image.fromarray(images[7]).resize((32, 32), Image.Resampling.BILINEAR)
    domain = make(tmp_path, source="sketch").target("photo")
    assert np.array_equal(domain.images[7], np.asarray(expected).transpose(2, 0, 1))
    assert np.array_equal(domain.labels, labels)
    assert dataset.data_flags()["reduced_images"] == ["40x40 instead of 227x227"]
    assert "pacs-photo" in dataset.data_flags()["unverified_data"]


def test_without_data_it_says_what_to_type(tmp_path):
    with pytest.raises(MissingData, match=r"data prepare pacs.*--dataset styles-mini"):
        make(tmp_path).prepare()


def test_folders_are_imported(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(pacs, "COUNTS", dict.fromkeys(pacs.COUNTS, 7))
    monkeypatch.setattr(pacs.PACS, "splits", tuple(pacs._split(name) for name in pacs.COUNTS))
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (4, 7, 9, 9, 3), np.uint8)
    for domain, images in zip(pacs.COUNTS, pixels, strict=True):
        for name, image in zip(pacs.CLASSES, images, strict=True):
            folder = tmp_path / "kfold" / domain / name
            folder.mkdir(parents=True)
            Image.fromarray(image).save(folder / "pic_001.png")
    refused = cli("data", "import", "pacs", tmp_path, "--data", tmp_path / "data")
    assert "--trust" in refused.out
    done = cli("data", "import", "pacs", tmp_path, "--trust", "--data", tmp_path / "data")
    assert done.code == 0
    images, labels = SplitStore(tmp_path / "data").get("pacs-cartoon").load()
    assert np.array_equal(images, pixels[2])
    assert labels.tolist() == list(range(7))


def test_a_parquet_file_is_read_domain_by_domain(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def encoded(value):
        file = io.BytesIO()
        Image.new("RGB", (9, 9), (value, 0, 0)).save(file, "PNG")
        return {"bytes": file.getvalue(), "path": None}

    table = pyarrow.table(
        {
            "image": [encoded(value) for value in (10, 20, 30)],
            "domain": ["photo", "sketch", "photo"],
            "label": [3, 1, 6],
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    images, labels = read_parquet((tmp_path / "a.parquet",), "photo", pacs.CLASSES)
    assert images[:, 0, 0, 0].tolist() == [10, 30]
    assert labels.tolist() == [3, 6]
    (tmp_path / "b.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(ValueError, match="not a table of images"):
        read_parquet((tmp_path / "b.parquet",), "photo", pacs.CLASSES)


def test_published_rows_are_those_of_the_source():
    (of_sketch,) = published.tables_for("pacs", "sketch")
    assert of_sketch.row("ERM").printed["average"] == 25.12
    assert of_sketch.row("M-ADA").printed["average"] == 43.26
    names = [table.name for table in published.tables_for("pacs", "photo")]
    assert names == ["pacs", "pacs_alexnet"]
    whole = published.table("pacs")
    assert whole.row("LEAwareSGD").remarks == [
        "does not add up: printed average 69.46, its cells 69.79"
    ]
