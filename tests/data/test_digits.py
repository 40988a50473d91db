"""Digits from small files in the public formats, through import and run."""

import gzip
import json
import re
import struct

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from sdgbench import registry
from sdgbench.data.domain import content_sha256
from sdgbench.data.splits import SplitStore
from sdgbench.spec import parameters

SIZES = {"mnist-train": 300, "mnist-test": 60, "svhn-test": 50, "mnist-m-test": 20, "usps-test": 40}


@pytest.fixture
def small(monkeypatch):
    """The splits, with the counts of our small files and their content's hashes."""
    from dataclasses import replace

    cls = registry.get("dataset", "digits").load()
    known = {}

    def use(**hashes):
        known.update(hashes)
        shrunk = tuple(
            replace(split, count=SIZES.get(split.name, 7), sha256=known.get(split.name, ()))
            for split in cls.splits
        )
        monkeypatch.setattr(cls, "splits", shrunk)
        return cls

    use()
    return use


@pytest.fixture
def files(tmp_path):
    """A folder as people have it, with another MNIST next to the real one."""
    rng = np.random.default_rng(0)
    root = tmp_path / "mine"

    def idx(path, array):
        head = struct.pack(">BBBB", 0, 0, 8, array.ndim)
        head += struct.pack(f">{array.ndim}i", *array.shape)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))

    for stem, name in (("train", "mnist-train"), ("t10k", "mnist-test")):
        for kind in ("FashionMNIST", "MNIST"):
            images = rng.integers(0, 256, (SIZES[name], 28, 28))
            folder = root / kind / "raw"
            idx(folder / f"{stem}-images-idx3-ubyte.gz", images)
            idx(folder / f"{stem}-labels-idx1-ubyte.gz", rng.integers(0, 10, SIZES[name]))
    (root / "svhn").mkdir()
    savemat(
        root / "svhn" / "test_32x32.mat",
        {
            "X": rng.integers(0, 256, (32, 32, 3, SIZES["svhn-test"]), dtype=np.uint8),
            "y": rng.integers(1, 11, (SIZES["svhn-test"], 1)),
        },
    )
    pictures = root / "mnist_m" / "mnist_m_test"
    pictures.mkdir(parents=True)
    for i in range(SIZES["mnist-m-test"]):
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(
            pictures / f"{i}.png"
        )
    lines = "\n".join(f"{i}.png {i % 10}" for i in range(SIZES["mnist-m-test"]))
    (root / "mnist_m" / "mnist_m_test_labels.txt").write_text(lines)
    table = np.column_stack([rng.integers(0, 10, 40), rng.uniform(-1, 1, (40, 256)).round(3)])
    np.savetxt(root / "zip.test", table, fmt="%.3f")
    return root


def hashes_of(cls, folder, name, which=-1):
    split = next(split for split in cls.splits if split.name == name)
    return (content_sha256(*list(split.candidates(folder))[which].read()),)


def test_import_takes_the_content_that_is_known_among_namesakes(small, files, cli, tmp_path):
    cls = small()
    small(**{n: hashes_of(cls, files, n) for n in ("mnist-train", "mnist-test")})
    done = cli("data", "import", "digits", files, "--data", "d")
    assert done.code == 0
    assert "mnist-train: verified, 300 images" in done.out
    metadata = SplitStore(tmp_path / "d").get("mnist-train").metadata
    assert "FashionMNIST" not in metadata["origin"]
    assert "svhn-test: missing." in done.out
    assert "If you trust it, add --trust" in done.out
    assert "syn-test: missing. not found in this folder" in done.out


def test_trusted_data_runs_and_every_table_states_it(small, files, cli, tmp_path):
    small()
    assert cli("data", "import", "digits", files, "--data", "d", "--trust").code == 0
    run = (
        "run",
        "--method",
        "erm",
        "--dataset",
        "digits",
        "--preset",
        "smoke",
        "--data",
        "d",
        "--set",
        "mnist_images=200",
    )
    done = cli(*run)
    assert done.code == 0, done.err + done.out
    assert "not evaluated, because their data are missing: syn" in done.out
    record = json.loads(next(tmp_path.glob("runs/*/*/*/record.json")).read_text())
    assert record["source"]["train"]["count"] == 200
    assert record["missing_domains"] == ["syn"]
    assert list(record["domains"]) == ["svhn", "mnist-m", "usps"]
    assert record["results"]["last"]["domains"] == 3
    assert "svhn-test" in record["flags"]["unverified_data"]
    shown = cli("compare").out
    assert re.search(r"unverified data: .*svhn-test", shown)
    assert "no data for: syn" in shown
    # Restricted to fewer domains, it is another table.
    assert cli(*run, "--targets", "usps").code == 0
    assert len(re.findall("smoke preset", cli("compare").out)) == 2


def test_the_offset_chooses_other_images(small, files, cli, tmp_path):
    small()
    cli("data", "import", "digits", files, "--data", "d", "--trust")
    cls = registry.get("dataset", "digits").load()

    def source(**options):
        made = cls(tmp_path / "d", parameters.build(cls.Options, options), cls.recipe("smoke"))
        return made.source("train")

    first = source(mnist_images=100)
    second = source(mnist_images=100, mnist_offset=50)
    assert np.array_equal(first.images[50:], second.images[:50])
    assert len(first) == 100
    usps = cls(tmp_path / "d", parameters.build(cls.Options, {"source": "usps"}), None)
    assert list(usps.target_tags(usps.options)) == ["svhn", "mnist-m", "syn", "mnist"]


def test_grey_images_are_enlarged_by_lanczos(small, files, cli, tmp_path):
    small()
    cli("data", "import", "digits", files, "--data", "d", "--trust")
    cls = registry.get("dataset", "digits").load()
    dataset = cls(tmp_path / "d", parameters.build(cls.Options, {}), cls.recipe("smoke"))
    raw, labels = SplitStore(tmp_path / "d").get("usps-test").load()
    expected = np.asarray(Image.fromarray(raw[3]).resize((32, 32), Image.Resampling.LANCZOS))
    domain = dataset.target("usps")
    assert np.array_equal(domain.images[3, 0], expected)
    assert np.array_equal(domain.images[3, 0], domain.images[3, 2])
    assert np.array_equal(domain.labels, labels)
    assert domain.images.shape == (40, 3, 32, 32)


def test_counts_are_asserted(small, files, cli, monkeypatch):
    small()
    monkeypatch.setitem(SIZES, "usps-test", 41)
    small()
    done = cli("data", "import", "digits", files, "--data", "d", "--trust")
    assert "has 40 images, usps-test has 41" in done.out


def test_status_verify_and_damage(small, files, cli, tmp_path):
    small()
    cli("data", "import", "digits", files, "--data", "d", "--trust")
    status = cli("data", "status", "digits", "--data", "d").out
    assert re.search(r"usps-test\s+unverified\s+40", status)
    assert re.search(r"syn-test\s+missing", status)
    assert max(map(len, status.splitlines())) <= 80
    assert cli("data", "verify", "digits", "--data", "d").code == 0
    path = tmp_path / "d" / "parts" / "usps-test" / "images.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    done = cli("data", "verify", "digits", "--data", "d")
    assert done.code == 1
    assert "has changed since it was made" in done.out


def test_without_data_no_run_is_left_behind(cli):
    done = cli("run", "--method", "erm", "--dataset", "digits", "--preset", "smoke")
    assert done.code == 2
    assert cli("status").out.startswith("No runs")


def test_without_data_the_error_names_the_commands(cli):
    done = cli("run", "--method", "erm", "--dataset", "digits", "--data", "d")
    assert done.code == 2
    for words in (
        "mnist-train",
        "sdgbench data prepare digits",
        "sdgbench data import digits DIR",
        "--dataset digits-mini",
    ):
        assert words in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("data", "import", "digits", "nowhere"), "nowhere is not a folder"),
        (("data", "import", "digits", "."), "Nothing was found"),
        (("data", "prepare", "digits-mini"), "digits-mini has nothing to download"),
        (("data", "prepare", "digitz"), 'Did you mean "digits"'),
        (("data", "prepare", "digits", "--generate"), "nothing to generate"),
        (
            ("run", "--method", "erm", "--dataset", "digits", "--targets", "svnh"),
            'Did you mean "svhn"',
        ),
        (
            ("run", "--method", "erm", "--dataset", "digits", "--set", "mnist_offset=70000"),
            "within",
        ),
    ],
)
def test_bad_input(arguments, message, cli):
    done = cli(*arguments, "--data", "d")
    assert done.code == 2
    assert re.search(message, done.err), done.err
    assert done.err.count("\n") == 1


def test_prepare_downloads_and_names_what_failed(small, files, cli, monkeypatch):
    """What is there stays, what fails is named, and the exit code is 1."""
    from sdgbench.data import download, obtain_splits

    monkeypatch.setattr(obtain_splits, "unreachable_hosts", lambda urls: {})
    small()
    monkeypatch.setattr(download, "TRIES", 1)
    monkeypatch.setattr(download.urllib.request, "urlopen", offline)
    cli("data", "import", "digits", files, "--data", "d", "--trust")
    done = cli("data", "prepare", "digits", "--data", "d")
    assert done.code == 1
    assert "usps-test: unverified, 40 images (already stored)" in done.out
    assert re.search(
        r"svhn-train: missing. train_32x32.mat could not be downloaded .*no network", done.out
    )
    assert re.search(
        r"syn-test: missing. synth_test_32x32.mat could not be downloaded .*no network", done.out
    )
    assert re.search(r"mnist-m-train: missing. mnist_m.tar.gz could not be downloaded", done.out)


def offline(*_, **__):
    import urllib.error

    raise urllib.error.URLError("no network")


def test_info_names_domains_and_what_is_missing(small, files, cli):
    small()
    nothing = cli("info", "digits", "--data", "empty")
    assert nothing.code == 0
    assert re.search(r"svhn\s+unseen\s+no data", nothing.out)
    assert "sdgbench data prepare digits" in nothing.out.replace("\n", " ")
    cli("data", "import", "digits", files, "--data", "d", "--trust")
    stored = cli("info", "digits", "--data", "d").out
    assert re.search(r"svhn\s+unseen\s+50\s+32x32", stored)
    assert re.search(r"syn\s+unseen\s+no data", stored)
    assert "digits: 5 of 10 splits" in cli("doctor", "--data", "d").out


def test_the_public_sizes():
    cls = registry.get("dataset", "digits").load()
    assert {split.name: split.count for split in cls.splits} == {
        "mnist-train": 60_000,
        "mnist-test": 10_000,
        "svhn-train": 73_257,
        "svhn-test": 26_032,
        "mnist-m-train": 59_001,
        "mnist-m-test": 9_001,
        "syn-train": 479_400,
        "syn-test": 9_553,
        "usps-train": 7_291,
        "usps-test": 2_007,
    }


def test_torchvision_agrees_on_addresses_and_checksums():
    from torchvision import datasets

    cls = registry.get("dataset", "digits").load()
    files = {file.name: file for split in cls.splits for file in split.files}
    for name, md5 in datasets.MNIST.resources:
        assert files[name].md5 == md5
    for split in ("train", "test"):
        url, name, md5 = datasets.SVHN.split_list[split]
        assert files[name].md5 == md5
        assert url in files[name].urls
        url, name, md5 = datasets.USPS.split_list[split]
        assert files[name].md5 == md5
        assert url in files[name].urls
