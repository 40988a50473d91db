"""Readers of the formats that public data comes in. None of them runs code from a file."""

import bz2
import gzip
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.io import loadmat

from sdgbench.data.parts import Arrays


def read_idx(path: Path) -> np.ndarray:
    """An MNIST file, packed or not: a magic number that holds type and rank, then sizes."""
    data = gzip.decompress(path.read_bytes()) if _is_gzip(path) else path.read_bytes()
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise ValueError("not an idx file of bytes")
    rank = data[3]
    shape = np.frombuffer(data, ">i4", rank, 4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * rank)
    if values.size != shape.prod():
        raise ValueError("cut off")
    return values.reshape(shape)


def read_idx_pair(images: Path, labels: Path) -> Arrays:
    """The two files of a split of MNIST."""
    return read_idx(images), read_idx(labels).astype(np.int64)


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def read_mat(path: Path) -> Arrays:
    """SVHN and SYN: X is 32x32x3xN, y counts from 1 with 10 for zero (or is 0..9 already)."""
    content = loadmat(path)
    images = np.ascontiguousarray(content["X"].transpose(3, 0, 1, 2))
    labels = content["y"].reshape(-1).astype(np.int64) % 10
    return images.astype(np.uint8), labels


def read_libsvm(path: Path) -> Arrays:
    """USPS of LIBSVM: classes 1..10, 256 values in [-1, 1]."""
    from sklearn.datasets import load_svmlight_file  # seconds to load

    data = bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else path.read_bytes()
    values, classes = load_svmlight_file(io.BytesIO(data), n_features=256)
    return _usps(values.toarray(), classes - 1)


def read_zip_text(path: Path) -> Arrays:
    """USPS as zip.train and zip.test: a label and 256 values per line."""
    table = np.loadtxt(path, ndmin=2)  # unpacks .gz by itself
    return _usps(table[:, 1:], table[:, 0])


def _usps(values: np.ndarray, labels: np.ndarray) -> Arrays:
    pixels = np.rint((values + 1) / 2 * 255).clip(0, 255).astype(np.uint8)
    return pixels.reshape(-1, 16, 16), labels.astype(np.int64)


def read_listed_pngs(listing: Path, folder: Path) -> Arrays:
    """MNIST-M: a text of "name label" lines and a folder of colour PNGs."""
    lines = [line.split() for line in listing.read_text().splitlines() if line.strip()]
    images = np.stack([_rgb(folder / name) for name, _ in lines])
    return images, np.array([int(label) for _, label in lines])


def _rgb(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


class _ArraysOnly(pickle.Unpickler):
    """Rebuilds NumPy arrays and plain values, and nothing else: a pickle can name any code."""

    ALLOWED = (
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    )

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        """Look up one of the few allowed names."""
        if (module, name) not in self.ALLOWED:
            raise ValueError(f"it asks for {module}.{name}, which a data file must not")
        found: Callable[..., Any] = super().find_class(module, name)
        return found


def read_cifar_batch(path: Path) -> Arrays:
    """A CIFAR-10 batch of the Python version."""
    try:
        with path.open("rb") as file:
            content = _ArraysOnly(file, encoding="bytes").load()
        named = {key.decode() if isinstance(key, bytes) else key: content[key] for key in content}
        rows, labels = named["data"], named["labels"]
    except (pickle.UnpicklingError, AttributeError, TypeError, IndexError) as error:
        raise ValueError(f"not a CIFAR batch: {error}") from None
    if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.shape[1:] != (3072,):
        raise ValueError("not a CIFAR batch")
    images = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), np.asarray(labels, dtype=np.int64)


def read_npy(path: Path) -> np.ndarray:
    """An array of the released CIFAR-10-C, memory-mapped."""
    array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array
