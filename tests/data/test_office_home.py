"""Office-Home from its archive, from folders or from parquet files, on a small tree like it."""

import hashlib
import http.server
import threading
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from sdgbench import registry
from sdgbench.data.decoding import read_fitted
from sdgbench.data.obtain_splits import fetch_splits, import_splits
from sdgbench.datasets import office_home
from sdgbench.reporter import Silent
from sdgbench.spec import parameters

FOLDERS = {domain: names[0] for domain, names in office_home.NAMES.items()}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """One image per domain and class, of many sizes, in the folders of the archive."""
    root = tmp_path_factory.mktemp("archive") / "OfficeHomeDataset_10072016"
    rng = np.random.default_rng(0)
    for domain in FOLDERS.values():
        for number, label in enumerate(office_home.CLASSES):
            (root / domain / label).mkdir(parents=True)
            pixels = rng.integers(0, 256, (9 + number % 5, 11, 3), np.uint8)
            Image.fromarray(pixels).save(root / domain / label / "00001.png")
    (root / "ImageInfo.csv").write_text("not an image")
    return root


@pytest.fixture
def small(tree, tmp_path, monkeypatch):
    """The dataset with as many images as the tree has; its archive is that of the tree."""
    path = tmp_path / "zip" / office_home.ARCHIVE.name
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(tree.rglob("*.*")):
            archive.write(file, file.relative_to(tree.parent))
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    counts = dict.fromkeys(FOLDERS, len(office_home.CLASSES))
    monkeypatch.setattr(office_home, "COUNTS", counts)
    monkeypatch.setattr(office_home, "SIZE", (16, 16))
    monkeypatch.setattr(office_home, "ARCHIVE", replace(office_home.ARCHIVE, md5=md5))
    cls = registry.get("dataset", "office-home").load()
    monkeypatch.setattr(cls, "counts", counts)
    monkeypatch.setattr(cls, "held_out", dict.fromkeys(counts, 6))
    monkeypatch.setattr(cls, "splits", tuple(map(office_home._split, counts)))
    return cls


def states(outcomes):
    return [stored and stored.state for _, stored, *_ in outcomes]


def test_the_published_counts():
    assert len(set(office_home.CLASSES)) == 65
    assert sum(office_home.COUNTS.values()) == 15_588  # rows of the public parquet files


def test_the_archive_is_downloaded_unpacked_and_read(small, tree, tmp_path, monkeypatch):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, directory=str(tmp_path / "zip"), **options)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    # The first mirror sends a web page, as Google Drive may do.
    (tmp_path / "zip" / "page").write_text("<!DOCTYPE html>Virus scan warning")
    urls = (f"{address}page", f"{address}{office_home.ARCHIVE.name}")
    archive = replace(office_home.ARCHIVE, urls=urls)
    monkeypatch.setattr(small, "splits", tuple(replace(s, archive=archive) for s in small.splits))
    outcomes = list(fetch_splits(small, tmp_path / "d", Silent(), pause=0.0))
    server.shutdown()
    assert states(outcomes) == ["verified"] * 4

    dataset = small(tmp_path / "d", parameters.build(small.Options, {}), small.recipe("smoke"))
    dataset.prepare()
    assert (len(dataset.source("train")), len(dataset.source("val"))) == (59, 6)
    assert list(dataset.target_tags(dataset.options)) == ["art", "clipart", "product"]
    target = dataset.target("clipart")
    assert target.images.shape == (65, 3, 32, 32)
    assert target.labels.tolist() == list(range(65))
    assert dataset.data_flags() == {}


def test_an_archive_is_imported_without_trust_and_folders_with_it(small, tree, tmp_path):
    assert states(import_splits(small, tmp_path / "zip", tmp_path / "a", False)) == ["verified"] * 4
    assert not (tmp_path / "a" / "downloads" / "office-home" / "unpacked").exists()
    refused = list(import_splits(small, tree, tmp_path / "b", False))
    assert states(refused) == [None] * 4
    assert "--trust" in refused[0][2]
    (domain,) = [stored for split, stored, *_ in import_splits(small, tree, tmp_path / "b", True)
                 if split.name == "office-home-real_world"]  # fmt: skip
    assert domain.state == "unverified"
    images, _ = domain.load()
    expected = read_fitted(tree / "Real World" / "Bed" / "00001.png", (16, 16))
    assert np.array_equal(images[3], expected.transpose(1, 2, 0))


def test_a_damaged_archive_is_named(small, tmp_path):
    path = tmp_path / "zip" / office_home.ARCHIVE.name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    outcomes = list(import_splits(small, tmp_path / "zip", tmp_path / "a", True))
    assert states(outcomes) == [None] * 4
    assert all(outcome.failed for outcome in outcomes)
    assert f"{path.name} is damaged: it does not have its published checksum" in outcomes[0].remark


def test_parquet_files_hold_the_same_as_folders(small, tree, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [
        {
            "image": {"bytes": (tree / domain / label / "00001.png").read_bytes(), "path": None},
            "domain": domain,
            "label": number,
        }
        for domain in FOLDERS.values()
        for number, label in enumerate(office_home.CLASSES)
    ]
    (tmp_path / "hub").mkdir()
    for number, name in enumerate(office_home.PARQUETS):
        part = rows[number * len(rows) // 3 : (number + 1) * len(rows) // 3]
        parquet.write_table(pyarrow.Table.from_pylist(part), tmp_path / "hub" / name)
    from_tables = list(import_splits(small, tmp_path / "hub", tmp_path / "a", True))
    from_folders = list(import_splits(small, tree, tmp_path / "b", True))
    assert [stored.metadata["sha256"] for _, stored, *_ in from_tables] == [
        stored.metadata["sha256"] for _, stored, *_ in from_folders
    ]
