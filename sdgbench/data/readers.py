"""Readers of the file formats of public data sets. None of them executes code from a file."""

import bz2
import gzip
import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from scipy.io import loadmat, whosmat

from sdgbench import storage
from sdgbench.data.decoding import decode_fitted, decode_rgb, read_rgb
from sdgbench.data.domain import Arrays
from sdgbench.data.pickles import read_pickle

MAX_BYTES = 2**31  # of decompressed content: the largest file of the public sets has 1.5 GB
MAX_PICKLE_BYTES = 2**26  # a batch of CIFAR-10 has half of that
COLUMNS = ("image", "domain", "label")  # of the tables of flwrlabs/pacs and flwrlabs/office-home


def read_idx(path: Path) -> np.ndarray:
    """Read an MNIST file, gzipped or not: a magic number with type and rank, then the shape."""
    data = _content(path)
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise ValueError("not an idx file of bytes")
    rank = data[3]
    shape = np.frombuffer(data, ">i4", rank, 4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * rank)
    if values.size != shape.prod():
        raise ValueError("truncated")
    return values.reshape(shape)


def read_idx_pair(images: Path, labels: Path) -> Arrays:
    """Read the two files of a split of MNIST."""
    return read_idx(images), read_idx(labels).astype(np.int64)


def _content(path: Path) -> bytes:
    """The bytes of a file, unpacked if it is packed, up to a limit."""
    with storage.open_regular(path) as file:
        start = file.read(3)
        file.seek(0)
        if start.startswith(b"\x1f\x8b"):
            return _limited(gzip.GzipFile(fileobj=file))
        if start == b"BZh":
            return _limited(bz2.BZ2File(file))
        return _limited(file)


def _limited(stream: IO[bytes] | gzip.GzipFile | bz2.BZ2File) -> bytes:
    content, total = [], 0
    while chunk := stream.read(2**24):
        content.append(chunk)
        total += len(chunk)
        if total > MAX_BYTES:
            raise ValueError(f"it holds more than {MAX_BYTES:,} bytes")
    return b"".join(content)


def read_mat(path: Path) -> Arrays:
    """Read SVHN or SYN: X is 32x32x3xN, y has 10 for the digit 0 (or is 0..9 already)."""
    _check_mat(path)
    content = loadmat(str(path), variable_names=["X", "y"])
    pixels, digits = content["X"], content["y"].reshape(-1)
    if pixels.dtype != np.uint8 or digits.dtype.kind not in "uif":
        raise ValueError("X must hold bytes and y numbers")
    if (digits != np.rint(digits)).any() or digits.min() < 0 or digits.max() > 10:
        raise ValueError("y must hold digits, and 10 for the digit 0")
    return np.ascontiguousarray(pixels.transpose(3, 0, 1, 2)), digits.astype(np.int64) % 10


def _check_mat(path: Path) -> None:
    """Refuse a file that does not hold images and labels, or decompresses to too much."""
    with storage.open_regular(path) as file:
        start = file.read(128)
        if start.startswith(b"MATLAB 7.3"):
            raise ValueError("MATLAB 7.3 files are not supported: save it as version 7")
        order = "<" if start[126:128] == b"IM" else ">"
        total = 0
        while len(tag := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            total += _inflated(file, size) if kind == 15 else size
            if total > MAX_BYTES:
                raise ValueError(f"it holds more than {MAX_BYTES:,} bytes")
            if kind != 15:
                file.seek(size, io.SEEK_CUR)
    shapes = {name: shape for name, shape, _ in whosmat(str(path))}
    images, labels = shapes.get("X", ()), shapes.get("y", ())
    if images[:3] != (32, 32, 3) or len(images) != 4 or np.prod(labels) != images[3]:
        raise ValueError("it does not hold X of 32 x 32 x 3 x N and y of N")


def _inflated(file: IO[bytes], size: int) -> int:
    """The size of a compressed element when it is unpacked, at most one byte above the limit."""
    unpacker, total = zlib.decompressobj(), 0
    while size > 0 and (chunk := file.read(min(size, 2**20))):
        size -= len(chunk)
        while chunk:
            total += len(unpacker.decompress(chunk, 2**24))
            if total > MAX_BYTES:
                return MAX_BYTES + 1
            chunk = unpacker.unconsumed_tail
    return total


def read_libsvm(path: Path) -> Arrays:
    """Read USPS in the format of LIBSVM: classes 1..10, 256 values in [-1, 1]."""
    from sklearn.datasets import load_svmlight_file  # takes seconds to import

    values, classes = load_svmlight_file(io.BytesIO(_content(path)), n_features=256)
    return _usps(values.toarray(), classes - 1)


def read_zip_text(path: Path) -> Arrays:
    """Read USPS as zip.train or zip.test: a label and 256 values per line."""
    table = np.loadtxt(io.StringIO(_content(path).decode("ascii")), ndmin=2)
    return _usps(table[:, 1:], table[:, 0])


def _usps(values: np.ndarray, labels: np.ndarray) -> Arrays:
    if not (np.isfinite(values).all() and (labels == np.rint(labels)).all()):
        raise ValueError("it has values that are not numbers")
    if labels.min(initial=0) < 0 or labels.max(initial=0) > 9:
        raise ValueError("its labels are not digits")
    pixels = np.rint((values + 1) / 2 * 255).clip(0, 255).astype(np.uint8)
    return pixels.reshape(-1, 16, 16), labels.astype(np.int64)


def read_listed_pngs(listing: Path, folder: Path) -> Arrays:
    """Read MNIST-M: a text file of "name label" lines and a folder of colour PNGs."""
    lines = [line.split() for line in _content(listing).decode().splitlines() if line.strip()]
    images = np.stack([read_rgb(folder / name) for name, _ in lines])
    return images, np.array([int(label) for _, label in lines])


def read_cifar_batch(path: Path) -> Arrays:
    """Read a CIFAR-10 batch of the Python version."""
    content = read_pickle(storage.read_bytes(path, MAX_PICKLE_BYTES))
    if not isinstance(content, dict):
        raise ValueError("not a CIFAR batch")
    named = {key.decode() if isinstance(key, bytes) else key: content[key] for key in content}
    rows, labels = named.get("data"), named.get("labels")
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.shape[1:] != (3072,):
        raise ValueError("not a CIFAR batch")
    if not isinstance(labels, list) or any(type(label) is not int for label in labels):
        raise ValueError("not a CIFAR batch: its labels are not integers")
    images = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), np.asarray(labels, dtype=np.int64)


def read_npy(path: Path) -> np.ndarray:
    """Read an array of the released CIFAR-10-C, memory-mapped."""
    storage.open_regular(path).close()  # a pipe would block
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise ValueError("not an array")
    return array


def read_parquet(
    paths: Sequence[Path],
    domain: str,
    classes: Sequence[str],
    size: tuple[int, int] | None = None,
) -> Arrays:
    """Read one domain of a table with the columns image (encoded bytes), domain and label.

    The table may have several files. With a ``size`` all images are stretched to it; without, they
    must have one size.
    """
    try:
        from pyarrow import parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ValueError("parquet files need pyarrow: pip install 'sdgbench[parquet]'") from None
    images, labels = [], []
    for path in paths:
        try:
            for batch in parquet.ParquetFile(path).iter_batches(64, columns=list(COLUMNS)):
                for row in batch.to_pylist():
                    if row["domain"] == domain:
                        images.append(_decoded(row["image"]["bytes"], path, size))
                        labels.append(_class_number(row["label"], classes))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ValueError(f"not a table of images, domains and labels: {error}") from None
    if not images or len({image.shape for image in images}) > 1:
        raise ValueError(f"it has no images of {domain}, or of several sizes")
    return np.stack(images), np.array(labels, dtype=np.int64)


def _decoded(data: bytes, path: Path, size: tuple[int, int] | None) -> np.ndarray:
    if size is None:
        return decode_rgb(data, path)
    return decode_fitted(data, path, size).transpose(1, 2, 0)


def _class_number(label: str | int, classes: Sequence[str]) -> int:
    number = classes.index(label) if isinstance(label, str) else label
    if type(number) is not int:  # a float would be cut to an integer
        raise ValueError("its labels are neither names of classes nor integers")
    return number
