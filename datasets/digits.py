"""The Digits benchmark: MNIST against SVHN, MNIST-M, SYN and USPS."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from sdgbench.data import readers
from sdgbench.data.dataset import RealDataset
from sdgbench.data.parts import Candidate, File, Part, matching
from sdgbench.dataset import Domain, Recipe, Split, rows_of
from sdgbench.datasets import _recipes as recipes
from sdgbench.errors import UserError
from sdgbench.registry import register_dataset
from sdgbench.settings import param
from sdgbench.task import Classification

MNIST_URLS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
SVHN_URL = "http://ufldl.stanford.edu/housenumbers/"
USPS_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"


def _mnist(split: str, stem: str, count: int, sums: tuple[str, str], content: str) -> Part:
    names = (f"{stem}-images-idx3-ubyte", f"{stem}-labels-idx1-ubyte")
    files = tuple(
        File(f"{name}.gz", tuple(url + f"{name}.gz" for url in MNIST_URLS), md5=md5)
        for name, md5 in zip(names, sums, strict=True)
    )

    def find(folder: Path) -> Iterator[Candidate]:
        spellings = (names[0], f"{names[0]}.gz", f"{stem}-images.idx3-ubyte")
        for images in matching(folder, spellings):
            name = images.name.replace("images", "labels").replace("idx3", "idx1")
            labels = images.with_name(name)
            if labels.exists():
                yield Candidate((images, labels), partial(readers.read_idx_pair, images, labels))

    return Part(f"mnist-{split}", count, find, files, (content,))


def _mat(name: str, file: File, count: int, manual: str = "") -> Part:
    def find(folder: Path) -> Iterator[Candidate]:
        for path in matching(folder, (file.name,)):
            yield Candidate((path,), partial(readers.read_mat, path))

    return Part(name, count, find, (file,) if file.urls else (), manual=manual)


def _mnist_m(split: str, count: int, content: tuple[str, ...] = ()) -> Part:
    def find(folder: Path) -> Iterator[Candidate]:
        for listing in matching(folder, (f"mnist_m_{split}_labels.txt",)):
            images = listing.with_name(f"mnist_m_{split}")
            if images.is_dir():
                yield Candidate((listing,), partial(readers.read_listed_pngs, listing, images))

    manual = (
        "MNIST-M is handed out by its authors (Ganin et al., 2016) as mnist_m.tar.gz. Unpack it: "
        f"the folder mnist_m_{split} beside mnist_m_{split}_labels.txt."
    )
    return Part(f"mnist-m-{split}", count, find, (), content, manual=manual)


def _usps(split: str, name: str, md5: str, count: int, content: str) -> Part:
    def find(folder: Path) -> Iterator[Candidate]:
        for path in matching(folder, (name, name.removesuffix(".bz2"))):
            yield Candidate((path,), partial(readers.read_libsvm, path))
        for path in matching(folder, (f"zip.{split}", f"zip.{split}.gz")):
            yield Candidate((path,), partial(readers.read_zip_text, path))

    return Part(
        f"usps-{split}", count, find, (File(name, (USPS_URL + name,), md5=md5),), (content,)
    )


SYN_BY_HAND = (
    "Synthetic Digits is handed out by its authors (Ganin et al., 2016) as SynthDigits.zip. Unpack "
    "it: synth_train_32x32.mat and synth_test_32x32.mat."
)


@register_dataset("digits", paper="Volpi et al., NeurIPS 2018; Qiao et al., CVPR 2020")
class Digits(RealDataset):
    """MNIST against SVHN, MNIST-M, SYN and USPS, all 32x32 RGB.

    The source is the first 10,000 training images of MNIST, or all training images of another
    domain. Targets are the whole test sets of the others; held-out source is the source's own test
    set. MNIST and USPS are enlarged by Lanczos.
    """

    task = Classification(classes=10, names=tuple("0123456789"))
    twin = "digits-mini"
    parts = (
        _mnist("train", "train", 60_000,
               ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432"),
               "37b8ce5c5605dc85dcce3e8e3800109f352238b02e6767bad7c2823f193ecbf5"),
        _mnist("test", "t10k", 10_000,
               ("9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"),
               "95ee084cdc3ec0aad90afe6a52da94054d2c3ac91d880f0215da20707261adcb"),
        _mat("svhn-train", File("train_32x32.mat", (SVHN_URL + "train_32x32.mat",),
                                md5="e26dedcc434d2e4c54c9b2d4a06d8373"), 73_257),
        _mat("svhn-test", File("test_32x32.mat", (SVHN_URL + "test_32x32.mat",),
                               md5="eb5a983be6a315427106f1b164d9cef3"), 26_032),
        _mnist_m("train", 59_001),
        _mnist_m("test", 9_001,
                 ("edead2c801aa3914d83ee59dea7bc5bc42de4ccf2a90109e319b83c42c39aaf8",)),
        _mat("syn-train", File("synth_train_32x32.mat"), 479_400, SYN_BY_HAND),
        _mat("syn-test", File("synth_test_32x32.mat"), 9_553, SYN_BY_HAND),
        _usps("train", "usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197", 7_291,
              "bb5c7d3f8acdd6f5189e2ce46c7d6d0c6fc528bbab7d7c36012887c6bc11386e"),
        _usps("test", "usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118", 2_007,
              "146a7da2d1e7e3003ea024a6f7c09c0d8e1aa9dbccbbbae07262982c5c3c55e2"),
    )  # fmt: skip

    @dataclass(frozen=True)
    class Options:
        """What may be chosen."""

        source: Literal["mnist", "svhn", "mnist-m", "syn", "usps"] = param(
            "mnist", "the domain to learn from"
        )
        mnist_offset: int = param(
            0, "first MNIST training image: 0 (paper's text) or 5000 (what the M-ADA code used)"
        )
        mnist_images: int = param(10_000, "MNIST training images to learn from")

        def __post_init__(self) -> None:
            if not 0 <= self.mnist_offset < self.mnist_offset + self.mnist_images <= 60_000:
                raise ValueError("mnist_offset and mnist_images must lie within 60,000 images")

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The paper's recipe, and shorter ones with a narrower network."""
        paper = recipes.DIGITS
        return {
            "paper": paper,
            "quick": replace(
                paper, network="convnet-32", lr=5e-4, steps=1000, test_images=2000,
                reduced="ConvNet of half the width, 1,000 steps at lr 5e-4 instead of 10,000 at "
                "1e-4, at most 2,000 test images per domain",
            ),
            "smoke": replace(
                paper, network="convnet-8", lr=1e-3, steps=20, test_images=64, validations=2,
                reduced="ConvNet of an eighth of the width, 20 steps, 64 test images per domain",
            ),
        }  # fmt: skip

    @classmethod
    def source_name(cls, options: Any) -> str:
        """The chosen source."""
        name: str = options.source
        return name

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """The other domains, in the order of the paper's table."""
        names = ("svhn", "mnist-m", "syn", "usps", "mnist")
        return {name: {} for name in names if name != options.source}

    @classmethod
    def source_parts(cls, options: Any) -> list[str]:
        """Both splits of the source."""
        return [f"{options.source}-train", f"{options.source}-test"]

    @classmethod
    def target_parts(cls, options: Any) -> dict[str, str]:
        """The test split of each target."""
        return {name: f"{name}-test" for name in cls.target_tags(options)}

    def source(self, split: Split) -> Domain:
        """Training images, or the source's own test images to hold out."""
        name = self.options.source
        images, labels = self.part(f"{name}-{'train' if split == 'train' else 'test'}")
        if split == "val":
            return _domain(name, images, labels).take(2000)
        if name == "mnist":
            chosen = slice(self.options.mnist_offset,
                           self.options.mnist_offset + self.options.mnist_images)  # fmt: skip
            images, labels = images[chosen], labels[chosen]
        return _domain(name, images, labels)

    def target(self, name: str) -> Domain:
        """The whole test set of another domain."""
        return _domain(name, *self.part(f"{name}-test"))

    def target_train(self, name: str) -> Domain | None:
        """The whole training set of another domain, where it is there; enlarged as it is read."""
        if self.store.get(f"{name}-train") is None:
            return None
        images, labels = self.part(f"{name}-train")
        return Domain(name, rows_of(images, change=_enlarged), labels.astype(np.uint8))


def _enlarged(images: np.ndarray) -> np.ndarray:
    """RGB of 32x32 pixels, channels first."""
    if images.ndim == 4:
        return images.transpose(0, 3, 1, 2)
    grey = np.stack([
        np.asarray(Image.fromarray(image).resize((32, 32), Image.Resampling.LANCZOS))
        for image in np.asarray(images)
    ])  # fmt: skip
    return np.repeat(grey[:, None], 3, axis=1)


def _domain(name: str, images: np.ndarray, labels: np.ndarray) -> Domain:
    images = _enlarged(images)
    if labels.min() < 0 or labels.max() > 9:
        raise UserError(f"{name} has labels outside 0..9: it is damaged. Import it again.")
    return Domain(name, images, labels.astype(np.uint8))
