"""Files that are damaged or made to do harm: one line each, and nothing else happens."""

import bz2
import gzip
import io
import os
import pickle
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from functools import partial

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from sdgbench.data import archives, decoding, readers
from sdgbench.data.archives import unpack
from sdgbench.data.downloaded_dataset import DownloadedDataset
from sdgbench.data.obtain_splits import import_splits
from sdgbench.data.pickles import read_pickle
from sdgbench.data.splits import Candidate, DataSplit, SplitStore
from sdgbench.datasets.cifar10c import Cifar10C
from sdgbench.errors import UserError

# Pickles -------------------------------------------------------------------------------------

POINTERS = (  # ndarray((1,), dtype("O"), b"8 bytes"): a pointer of the file's choice
    b"\x80\x02}q\x00(U\x04dataq\x01cnumpy\nndarray\nq\x02K\x01\x85cnumpy\ndtype\nq\x03U\x01Oq\x04"
    b"\x85R\x43\x08AAAAAAAA\x87R U\x06labels]u."
)


def test_a_pickle_cannot_make_an_array_of_pointers(python, tmp_path):
    """In a process of its own: the standard unpickler crashes on this."""
    (tmp_path / "b").write_bytes(POINTERS)
    code = (
        "import sys; from pathlib import Path; from sdgbench.data.readers import read_cifar_batch\n"
        "try: print(read_cifar_batch(Path(sys.argv[1])))\nexcept ValueError as e: print('refused', e)"
    )
    done = python("-c", code, tmp_path / "b")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused")


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({b"data": np.zeros(2, object), b"labels": []}, 2),
        pickle.dumps({b"data": np.zeros(2, "f8")}, 2),
        pickle.dumps(np.dtype("O"), 2),
        pickle.dumps({b"data": np.void(b"abc")}, 2),
        b"\x80\x02}r\xff\xff\xff\x7f.",  # a memo that the standard unpickler would allocate
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x02c__builtin__\neval\n(U\x011tR.",
        b"\x80\x02(((((((((.",
        b"\x80\x02}K\x01K\x02b.",
        b"\x80\x02]K\x01s.",
        b"",
    ],
)
def test_what_a_data_file_does_not_need_is_refused(data, tmp_path):
    (tmp_path / "b").write_bytes(data)
    with pytest.raises(ValueError):
        readers.read_cifar_batch(tmp_path / "b")


def test_a_text_cannot_be_encoded_again_and_again():
    """Otherwise a small pickle would fill the memory."""
    start = b"\x80\x02c_codecs\nencode\nq\x00X\x64\x00\x00\x00" + b"a" * 100 + b"q\x01"
    again = b"h\x00h\x01U\x06latin1\x86R"
    with pytest.raises(ValueError, match="repeats"):
        read_pickle(start + again * 100 + b"t.")


def test_arrays_come_back_in_their_order():
    rows = np.arange(6, dtype=np.uint8).reshape(2, 3)
    for array in (rows, np.asfortranarray(rows)):
        for protocol in (1, 2, 3, 4):
            read = read_pickle(pickle.dumps({b"data": array}, protocol))
            assert np.array_equal(read[b"data"], rows)


# Images --------------------------------------------------------------------------------------


def png16(channels, kind=2):
    rows = b"".join(b"\x00" + row.astype(">u2").tobytes() for row in channels)
    head = struct.pack(">IIBBBBB", channels.shape[1], channels.shape[0], 16, kind, 0, 0, 0)

    def chunk(name, data):
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return decoding.PNG_START + b"".join(parts)


@pytest.mark.parametrize(("channels", "kind"), [(1, 0), (3, 2), (4, 6)])
def test_16_bits_of_the_first_channel_are_read_exactly(channels, kind, tmp_path):
    values = np.random.default_rng(0).integers(0, 65536, (9, 11, channels))
    (tmp_path / "x.png").write_bytes(png16(values, kind))
    assert np.array_equal(decoding.read_first_channel(tmp_path / "x.png"), values[..., 0])


def test_8_bits_are_read_too(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (9, 11, 3), dtype=np.uint8)
    Image.fromarray(values).save(tmp_path / "x.png")
    assert np.array_equal(decoding.read_first_channel(tmp_path / "x.png"), values[..., 0])
    assert np.array_equal(decoding.read_rgb(tmp_path / "x.png"), values)


def test_every_flipped_bit_of_a_png_is_noticed(tmp_path):
    values = np.random.default_rng(0).integers(0, 4000, (4, 5, 3))
    data, path = png16(values), tmp_path / "x.png"
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="x.png is damaged or not an image"):
            decoding.read_first_channel(path)


@pytest.mark.parametrize("length", [0, 1, 8, 20, 33, 60])
def test_a_cut_png_is_one_error(length, tmp_path):
    (tmp_path / "x.png").write_bytes(png16(np.zeros((4, 5, 3)))[:length])
    with pytest.raises(ValueError, match="x.png is damaged"):
        decoding.read_rgb(tmp_path / "x.png")


def test_an_image_of_too_many_pixels_is_not_decoded(tmp_path):
    Image.new("1", (20000, 20000)).save(tmp_path / "x.png")
    with pytest.raises(ValueError, match="x.png is damaged or not an image"):
        decoding.read_rgb(tmp_path / "x.png")


# Archives ------------------------------------------------------------------------------------


def tar_of(path, *members):
    with tarfile.open(path, "w") as archive:
        for name, kind, value in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(value)
                archive.addfile(info, io.BytesIO(value))
            else:
                info.linkname = value
                archive.addfile(info)


def test_a_chain_of_links_writes_nothing_outside(tmp_path):
    """CVE-2025-4517: a path that is too long to resolve passed the filter of tarfile."""
    step = "d" * 247
    members, path = [], ""
    for letter in "abcdefghijklmnop":
        members.append((f"{path}{step}", tarfile.DIRTYPE, ""))
        members.append((f"{path}{letter}", tarfile.SYMTYPE, step))
        path += f"{step}/"
    short = "/".join("abcdefghijklmnop")
    members += [
        (f"{short}/{'l' * 254}", tarfile.SYMTYPE, "../" * 16),
        ("escape", tarfile.SYMTYPE, f"{short}/{'l' * 254}/../.."),
        ("escape/outside", tarfile.REGTYPE, b"evil"),
    ]
    tar_of(tmp_path / "a.tar", *members)
    with pytest.raises(UserError, match="contains a link or device"):
        unpack(tmp_path / "a.tar", tmp_path / "in" / "here")
    assert not list(tmp_path.rglob("outside"))


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE]
)
def test_links_and_devices_in_a_tar_are_refused(kind, tmp_path):
    tar_of(tmp_path / "a.tar", ("x", tarfile.REGTYPE, b"1"), ("y", kind, "x"))
    with pytest.raises(UserError, match="contains a link or device: 'y'"):
        unpack(tmp_path / "a.tar", tmp_path / "in")


def test_links_in_a_zip_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("x")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc")
    with pytest.raises(UserError, match="contains a link or device"):
        unpack(tmp_path / "a.zip", tmp_path / "in")


def test_links_that_are_there_already_are_not_followed(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "sub").symlink_to(tmp_path / "target")
    tar_of(tmp_path / "a.tar", ("sub/x", tarfile.REGTYPE, b"1"))
    unpack(tmp_path / "a.tar", tmp_path / "in")
    assert not list((tmp_path / "target").iterdir())
    assert (tmp_path / "in/sub/x").read_bytes() == b"1"
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(UserError, match="is a link"):
        unpack(tmp_path / "a.tar", tmp_path / "link")


def test_too_much_content_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_BYTES", 10**6)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", bytes(10**7))
    with pytest.raises(UserError, match="unpacks to more than 1,000,000 bytes"):
        unpack(tmp_path / "a.zip", tmp_path / "in")
    monkeypatch.setattr(archives, "MAX_FILES", 3)
    tar_of(tmp_path / "a.tar", *((str(i), tarfile.REGTYPE, b"") for i in range(5)))
    with pytest.raises(UserError, match="more than 3 files"):
        unpack(tmp_path / "a.tar", tmp_path / "in")


# Other formats -------------------------------------------------------------------------------


def digits(path, count=3):
    images = np.zeros((32, 32, 3, count), np.uint8)
    savemat(path, {"X": images, "y": np.ones((count, 1))}, do_compression=True)


def test_packed_bombs_are_refused(tmp_path, monkeypatch):
    digits(tmp_path / "x.mat", 300)
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(10**6)))
    (tmp_path / "x.bz2").write_bytes(bz2.compress(b"1 1:0\n" * 10**6))
    monkeypatch.setattr(readers, "MAX_BYTES", 10**5)
    for read, name in (
        (readers.read_mat, "x.mat"),
        (readers.read_idx, "x.gz"),
        (readers.read_libsvm, "x.bz2"),
        (readers.read_zip_text, "x.gz"),
    ):
        with pytest.raises(ValueError, match="holds more than 100,000 bytes"):
            read(tmp_path / name)


def test_a_file_of_matlab_7_3_says_so(tmp_path):
    (tmp_path / "x.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(512, b" "))
    with pytest.raises(ValueError, match=r"7\.3 files are not supported"):
        readers.read_mat(tmp_path / "x.mat")


def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "x")
    for read in (
        readers.read_idx,
        readers.read_mat,
        readers.read_npy,
        readers.read_cifar_batch,
        readers.read_libsvm,
    ):
        with pytest.raises(OSError, match="not a regular file"):
            read(tmp_path / "x")
    with pytest.raises(ValueError, match="not a regular file"):
        decoding.read_rgb(tmp_path / "x")


BAD_MATS = {
    "empty": b"",
    "cut": None,
    "text": b"hello" * 100,
    "7.3": b"MATLAB 7.3 MAT-file".ljust(512, b" "),
}


@pytest.mark.parametrize("damage", BAD_MATS)
def test_one_bad_file_does_not_stop_the_import_of_the_others(damage, cli, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    digits(folder / "synth_test_32x32.mat", 9_553)
    digits(folder / "test_32x32.mat", 4)
    content = BAD_MATS[damage]
    cut = (folder / "test_32x32.mat").read_bytes()[:200]
    (folder / "test_32x32.mat").write_bytes(cut if content is None else content)
    done = cli("data", "import", "digits", folder, "--trust", "--data", tmp_path / "data")
    assert done.code == 1, done.err
    assert "syn-test: unverified, 9,553 images" in done.out
    (line,) = [line for line in done.out.splitlines() if line.startswith("svhn-test")]
    assert "test_32x32.mat cannot be read" in line
    assert "Traceback" not in done.out + done.err


def test_files_that_are_absent_are_no_error_of_an_import(cli, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    digits(folder / "synth_test_32x32.mat", 9_553)
    command = ("data", "import", "digits", folder, "--data", tmp_path / "data")
    assert cli(*command).code == 2  # nothing: its content has no known hash
    done = cli(*command, "--trust")
    assert done.code == 0
    assert "svhn-test: missing. not found in this folder" in done.out


def test_only_bad_files_to_import_are_damage_too(cli, tmp_path):
    (tmp_path / "test_32x32.mat").write_bytes(b"")
    done = cli("data", "import", "digits", tmp_path, "--trust", "--data", tmp_path / "data")
    assert done.code == 1
    assert "test_32x32.mat cannot be read" in done.out


def test_a_bad_file_of_a_split_that_is_stored_is_named(cli, tmp_path):
    digits(tmp_path / "synth_test_32x32.mat", 9_553)
    command = ("data", "import", "digits", tmp_path, "--trust", "--data", tmp_path / "data")
    assert cli(*command).code == 0
    (tmp_path / "synth_test_32x32.mat").write_bytes(b"")
    done = cli(*command)
    assert done.code == 1
    (line,) = [line for line in done.out.splitlines() if line.startswith("syn-test")]
    assert line.startswith("syn-test: unverified, 9,553 images (")
    assert "synth_test_32x32.mat cannot be read" in line


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"count": "x"}', b"null", b"[" * 10**5])
def test_a_damaged_part_is_named_and_imported_again(content, cli, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    digits(folder / "synth_test_32x32.mat", 9_553)
    part = tmp_path / "data/parts/syn-test/part.json"
    part.parent.mkdir(parents=True)
    part.write_bytes(content)
    other = tmp_path / "data/parts/svhn-test/part.json"
    other.parent.mkdir(parents=True)
    other.write_bytes(content)
    for verb in (("status",), ("verify", "digits")):
        done = cli("data", *verb, "--data", tmp_path / "data")
        assert "damaged" in done.out
        assert "Traceback" not in done.out + done.err
    done = cli("data", "import", "digits", folder, "--trust", "--data", tmp_path / "data")
    assert done.code == 1
    assert "syn-test: unverified, 9,553 images" in done.out
    assert "svhn-test: missing. not found in this folder; " in done.out


# Imports: one line for each bad file, and the rest is imported ------------------------------------


def npy(header, version=b"\x01\x00", length=None):
    """A .npy file with a header of one's choice."""
    text = header.encode()
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", length or len(text))
    return b"\x93NUMPY" + version + size + text


def saved(array, pickled=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=pickled)
    return buffer.getvalue()


ROWS = np.zeros((2, 3072), np.uint8)
BAD_BATCHES = {
    "data_batch_1": POINTERS,
    "data_batch_2": pickle.dumps({b"data": ROWS, b"labels": [0.5, "x"]}, 2),
    "data_batch_3": b"\x80\x02" + b"]" * 10**5 + b".",
    "data_batch_4": b"",
    "data_batch_5": pickle.dumps({b"data": ROWS, b"labels": [1]}, 2),
    "test_batch": pickle.dumps([ROWS], 2),
}
SHAPE = "{'descr': '|u1', 'fortran_order': False, 'shape': %s}\n"
BAD_ARRAYS = {
    "fog.npy": npy(SHAPE % "(1000000000000, 32, 32, 3)"),
    "frost.npy": npy(SHAPE % "(-1, 32, 32, 3)"),
    "snow.npy": saved(np.array([None, {}]), pickled=True),
    "brightness.npy": npy(SHAPE % "(2, 32, 32, 3)", b"\x03\x00", 2**31 - 1),
    "contrast.npy": saved(np.array(7, np.uint8)),
    "pixelate.npy": saved(np.zeros((2, 32, 32, 3))),
    "elastic_transform.npy": npy("__import__('os').system('true')\n"),
    "jpeg_compression.npy": npy(SHAPE % "(2, 32, 32, 3)")[:40],
    "gaussian_noise.npy": saved(np.zeros((2, 32, 32, 3), np.uint8)),
}


@pytest.mark.parametrize("labels", [np.array([0.5, 1.5]), np.array(["0", "1"]), np.arange(3)])
def test_bad_batches_and_arrays_are_one_line_each(labels, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for name, content in {**BAD_BATCHES, **BAD_ARRAYS, "labels.npy": saved(labels)}.items():
        (folder / name).write_bytes(content)
    outcomes = list(import_splits(Cifar10C, folder, tmp_path / "data", trust=True))
    assert not any(outcome.stored for outcome in outcomes)
    remarks = {outcome.split.name.partition("-")[2]: outcome.remark for outcome in outcomes}
    failed = {outcome.split.name.partition("-")[2] for outcome in outcomes if outcome.failed}
    assert failed == {name.removesuffix(".npy") for name in (*BAD_BATCHES, *BAD_ARRAYS)}
    assert len(remarks) == len(Cifar10C.splits)
    for name in (*BAD_BATCHES, *BAD_ARRAYS):
        remark = remarks[name.removesuffix(".npy")]
        assert f"{name} cannot be read (" in remark or f"{name} has 2 images" in remark, name
        assert remark.count("\n") == 0
    assert remarks["shot_noise"].startswith("not found")


def tiny_split(name):
    def candidates(folder):
        for path in sorted(folder.glob(f"{name}.mat")):
            yield Candidate((path,), partial(readers.read_mat, path))

    return DataSplit(name, 3, candidates)


class Tiny(DownloadedDataset):
    """Two splits of three images."""

    name, splits = "tiny", (tiny_split("first"), tiny_split("second"))


def put(path, kind):
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind != "gone":
        path.write_bytes(kind)


BAD = ("folder", "pipe", "loop", "gone", b"", b"\x93NUMPY\x01\x00\xff\xff", saved(np.zeros(7)))


@pytest.mark.parametrize("name", ["part.json", "images.npy", "labels.npy", "lock", "owner"])
@pytest.mark.parametrize("kind", BAD, ids=range(len(BAD)))
def test_a_damaged_part_folder_stops_nothing(name, kind, tmp_path):
    for split in Tiny.splits:
        digits(tmp_path / f"{split.name}.mat")
    data = tmp_path / "data"
    outcomes = list(import_splits(Tiny, tmp_path, data, trust=True))
    assert [outcome.stored.state for outcome in outcomes] == ["unverified", "unverified"]
    put(data / "parts" / "first" / name, kind)
    store = SplitStore(data)
    for use in (store.verify, lambda split: store.get(split.name).load()):
        try:
            use(Tiny.splits[0])
        except (UserError, AttributeError):  # AttributeError: of None, the part is gone
            continue
    (_, first, remark, _), (_, second, *_) = import_splits(Tiny, tmp_path, data, trust=True)
    assert second.state == "unverified"
    assert first is not None or name in remark
    assert remark.count("\n") == 0


def test_a_part_that_is_a_file_is_named(tmp_path):
    for split in Tiny.splits:
        digits(tmp_path / f"{split.name}.mat")
    (tmp_path / "data/parts").mkdir(parents=True)
    (tmp_path / "data/parts/first").write_bytes(b"")
    (_, first, remark, _), (_, second, *_) = import_splits(Tiny, tmp_path, tmp_path / "data", True)
    assert first is None
    assert "There is a file where a folder is needed" in remark
    assert second.state == "unverified"


HOSTILE_PARTS = {
    "images.npy": (np.zeros((3, 32, 32, 3)), np.zeros((2, 32, 32, 3), np.uint8), np.zeros(3, "S4")),
    "labels.npy": (np.array([0.5, 1, 2]), np.array(["a"] * 3), np.arange(4), np.array(1)),
}


@pytest.mark.parametrize("name", HOSTILE_PARTS)
def test_hostile_arrays_in_a_part_are_refused_at_opening(name, tmp_path):
    digits(tmp_path / "first.mat")
    list(import_splits(Tiny, tmp_path, tmp_path / "data", trust=True))
    stored = SplitStore(tmp_path / "data").get("first")
    stored.load()
    for array in HOSTILE_PARTS[name]:
        np.save(stored.folder / name, array)
        with pytest.raises(UserError, match="is damaged"):
            stored.load()
