import bz2
import gzip
import io
import pickle
import struct
import tarfile
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from sdgbench.data import readers
from sdgbench.data.archives import unpack
from sdgbench.errors import UserError


def idx(array):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}i", *array.shape)
    return head + array.astype(np.uint8).tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_idx(packed, tmp_path):
    array = np.arange(24).reshape(2, 3, 4)
    path = tmp_path / ("x.gz" if packed else "x")
    path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    assert np.array_equal(readers.read_idx(path), array)


@pytest.mark.parametrize("content", [b"", b"abcdefgh", idx(np.zeros((3, 3)))[:-1]])
def test_damaged_idx(content, tmp_path):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match="idx|truncated"):
        readers.read_idx(tmp_path / "x")


def test_mat_turns_ten_into_zero(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
    savemat(tmp_path / "x.mat", {"X": images, "y": np.array([[10], [1], [9], [2]])})
    read, labels = readers.read_mat(tmp_path / "x.mat")
    assert labels.tolist() == [0, 1, 9, 2]
    assert np.array_equal(read[2], images[:, :, :, 2])


def test_usps_in_both_formats_is_the_same(tmp_path):
    values = np.random.default_rng(0).uniform(-1, 1, (3, 256)).round(4)
    labels = np.array([0, 9, 4])
    lines = [
        f"{label + 1} " + " ".join(f"{i + 1}:{v}" for i, v in enumerate(row))
        for label, row in zip(labels, values, strict=True)
    ]
    (tmp_path / "usps.bz2").write_bytes(bz2.compress("\n".join(lines).encode()))
    text = "\n".join(
        f"{label}.0 " + " ".join(map(str, row)) for label, row in zip(labels, values, strict=True)
    )
    (tmp_path / "zip.train.gz").write_bytes(gzip.compress(text.encode()))
    first = readers.read_libsvm(tmp_path / "usps.bz2")
    second = readers.read_zip_text(tmp_path / "zip.train.gz")
    assert np.array_equal(first[0], second[0])
    assert first[1].tolist() == second[1].tolist() == [0, 9, 4]
    assert first[0].shape == (3, 16, 16)
    assert int(first[0][0, 0, 0]) == round((values[0, 0] + 1) / 2 * 255)


def test_listed_pngs(tmp_path):
    (tmp_path / "pics").mkdir()
    for i in range(3):
        Image.new("RGB", (32, 32), (i, 2 * i, 3 * i)).save(tmp_path / "pics" / f"{i}.png")
    (tmp_path / "labels.txt").write_text("2.png 7\n0.png 1\n")
    images, labels = readers.read_listed_pngs(tmp_path / "labels.txt", tmp_path / "pics")
    assert labels.tolist() == [7, 1]
    assert images[0, 5, 5].tolist() == [2, 4, 6]


def batch(**more):
    rows = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
    return {b"data": rows, b"labels": [3, 8], b"filenames": [b"a", b"b"], **more}


@pytest.mark.parametrize("protocol", [2, 4])
def test_cifar_batches(protocol, tmp_path):
    (tmp_path / "b").write_bytes(pickle.dumps(batch(), protocol))
    images, labels = readers.read_cifar_batch(tmp_path / "b")
    assert labels.tolist() == [3, 8]
    assert images.shape == (2, 32, 32, 3)
    assert images[0, 0, 1].tolist() == [1, 1025 % 256, 2049 % 256]


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_a_malicious_pickle_runs_nothing(tmp_path):
    (tmp_path / "b").write_bytes(pickle.dumps(batch(evil=Evil(str(tmp_path / "pwned")))))
    with pytest.raises(ValueError, match="refers to (io|_io|builtins).open"):
        readers.read_cifar_batch(tmp_path / "b")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        pickle.dumps([1, 2]),
        pickle.dumps({b"x": 1}),
        pickle.dumps({b"data": np.zeros(3), b"labels": []}),
    ],
)
def test_odd_pickles_are_refused(content, tmp_path):
    (tmp_path / "b").write_bytes(content)
    with pytest.raises((ValueError, KeyError, EOFError)):
        readers.read_cifar_batch(tmp_path / "b")


@pytest.mark.parametrize("name", ["../outside", "/tmp/absolute-outside", "sub/../../outside"])
def test_a_malicious_tar_writes_nothing_outside(name, tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo(name)
        info.size = 4
        archive.addfile(info, io.BytesIO(b"evil"))
    with suppress(UserError):  # refused, or written inside under a tamed name
        unpack(tmp_path / "a.tar", tmp_path / "in" / "here")
    outside = [p for p in tmp_path.rglob("*outside*") if not p.is_relative_to(tmp_path / "in/here")]
    assert not outside


def test_a_tar_link_to_the_outside_is_refused(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
    with pytest.raises(UserError, match="contains a link"):
        unpack(tmp_path / "a.tar", tmp_path / "in")


def test_a_malicious_zip_writes_nothing_outside(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("../outside", "evil")
    with pytest.raises(UserError, match="contains a path outside"):
        unpack(tmp_path / "a.zip", tmp_path / "in")
    assert not (tmp_path / "outside").exists()


def test_a_damaged_archive_is_deleted_and_named(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"not a tar at all" * 100)
    with pytest.raises(UserError, match="is damaged"):
        unpack(tmp_path / "a.tar", tmp_path / "in")
    assert not (tmp_path / "a.tar").exists()
