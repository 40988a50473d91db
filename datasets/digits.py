"""The Digits benchmark: MNIST against SVHN, MNIST-M, SYN and USPS."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from sdgbench.data import readers
from sdgbench.data.domain import Domain, Split, lazy_rows
from sdgbench.data.downloaded_dataset import DownloadedDataset
from sdgbench.data.splits import Candidate, DataSplit, File, paths_named
from sdgbench.dataset import param
from sdgbench.datasets import _recipes as recipes
from sdgbench.errors import UserError
from sdgbench.recipe import Recipe
from sdgbench.registry import register_dataset
from sdgbench.task import Classification

MNIST_URLS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
SVHN_URL = "http://ufldl.stanford.edu/housenumbers/"
SYN_URL = (  # the files are in Git LFS, which this host serves
    "https://media.githubusercontent.com/media/domainadaptation/datasets/"
    "91ff02225a73db330883843bc41ee3aca59a19d9/synth/"
)
MNIST_M = File(
    "mnist_m.tar.gz",
    ("https://cornell.box.com/shared/static/jado7quprg6hzzdubvwzh9umr75damwi",),
    md5="859df31c91afe82e80e5012ba928f279",
)
USPS_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"


def _mnist(
    split: str,
    stem: str,
    count: int,
    sizes: tuple[int, int],
    sums: tuple[str, str],
    content: str,
) -> DataSplit:
    names = (f"{stem}-images-idx3-ubyte", f"{stem}-labels-idx1-ubyte")
    files = tuple(
        File(f"{name}.gz", tuple(url + f"{name}.gz" for url in MNIST_URLS), size, md5)
        for name, size, md5 in zip(names, sizes, sums, strict=True)
    )

    def candidates(folder: Path) -> Iterator[Candidate]:
        spellings = (names[0], f"{names[0]}.gz", f"{stem}-images.idx3-ubyte")
        for images in paths_named(folder, spellings):
            name = images.name.replace("images", "labels").replace("idx3", "idx1")
            labels = images.with_name(name)
            if labels.exists():
                yield Candidate((images, labels), partial(readers.read_idx_pair, images, labels))

    return DataSplit(f"mnist-{split}", count, candidates, files, (content,))


def _mat(name: str, file: File, count: int) -> DataSplit:
    def candidates(folder: Path) -> Iterator[Candidate]:
        for path in paths_named(folder, (file.name,)):
            yield Candidate((path,), partial(readers.read_mat, path))

    return DataSplit(name, count, candidates, (file,))


def _mnist_m(split: str, count: int, content: tuple[str, ...] = ()) -> DataSplit:
    def candidates(folder: Path) -> Iterator[Candidate]:
        for listing in paths_named(folder, (f"mnist_m_{split}_labels.txt",)):
            images = listing.with_name(f"mnist_m_{split}")
            if images.is_dir():
                yield Candidate((listing,), partial(readers.read_listed_pngs, listing, images))

    return DataSplit(f"mnist-m-{split}", count, candidates, (), content, MNIST_M)


def _usps(split: str, name: str, about: int, md5: str, count: int, content: str) -> DataSplit:
    def candidates(folder: Path) -> Iterator[Candidate]:
        for path in paths_named(folder, (name, name.removesuffix(".bz2"))):
            yield Candidate((path,), partial(readers.read_libsvm, path))
        for path in paths_named(folder, (f"zip.{split}", f"zip.{split}.gz")):
            yield Candidate((path,), partial(readers.read_zip_text, path))

    file = File(name, (USPS_URL + name,), md5=md5, about=about)
    return DataSplit(f"usps-{split}", count, candidates, (file,), (content,))


@register_dataset("digits", paper="Volpi et al., NeurIPS 2018; Qiao et al., CVPR 2020")
class Digits(DownloadedDataset):
    """MNIST against SVHN, MNIST-M, SYN and USPS, all 32x32 RGB.

    The source is the first 10,000 training images of MNIST, or all training images of another
    domain. Targets are the whole test sets of the others; held-out source is the source's own test
    set. MNIST and USPS are enlarged by Lanczos.
    """

    task = Classification(classes=10, names=tuple("0123456789"))
    # Other colours, dark on light, turned and slanting digits, uneven light.
    families = ("channels", "hue", "invert", "rotate", "shear", "shading")
    twin = "digits-mini"
    splits = (
        _mnist(
            "train",
            "train",
            60_000,
            (9_912_422, 28_881),
            ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432"),
            "37b8ce5c5605dc85dcce3e8e3800109f352238b02e6767bad7c2823f193ecbf5",
        ),
        _mnist(
            "test",
            "t10k",
            10_000,
            (1_648_877, 4_542),
            ("9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"),
            "95ee084cdc3ec0aad90afe6a52da94054d2c3ac91d880f0215da20707261adcb",
        ),
        _mat(
            "svhn-train",
            File(
                "train_32x32.mat",
                (SVHN_URL + "train_32x32.mat",),
                182_040_794,
                md5="e26dedcc434d2e4c54c9b2d4a06d8373",
            ),
            73_257,
        ),
        _mat(
            "svhn-test",
            File(
                "test_32x32.mat",
                (SVHN_URL + "test_32x32.mat",),
                64_275_384,
                md5="eb5a983be6a315427106f1b164d9cef3",
            ),
            26_032,
        ),
        _mnist_m("train", 59_001),
        _mnist_m(
            "test", 9_001, ("edead2c801aa3914d83ee59dea7bc5bc42de4ccf2a90109e319b83c42c39aaf8",)
        ),
        _mat(
            "syn-train",
            File(
                "synth_train_32x32.mat",
                (SYN_URL + "synth_train_32x32.mat",),
                size=895_578_032,
                sha256="e0e0924ecd0c0b5a55ed6485aaa7d39937af982397717b89a3d91777aca9433c",
            ),
            479_400,
        ),
        _mat(
            "syn-test",
            File(
                "synth_test_32x32.mat",
                (SYN_URL + "synth_test_32x32.mat",),
                size=17_851_156,
                sha256="6285fe9a1c6f27b379a47263907a37899b59ce86948fd343a5b904435cde5bcc",
            ),
            9_553,
        ),
        _usps(
            "train",
            "usps.bz2",
            6_600_000,
            "ec16c51db3855ca6c91edd34d0e9b197",
            7_291,
            "bb5c7d3f8acdd6f5189e2ce46c7d6d0c6fc528bbab7d7c36012887c6bc11386e",
        ),
        _usps(
            "test",
            "usps.t.bz2",
            1_800_000,
            "8ea070ee2aca1ac39742fdd1ef5ed118",
            2_007,
            "146a7da2d1e7e3003ea024a6f7c09c0d8e1aa9dbccbbbae07262982c5c3c55e2",
        ),
    )

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
                paper,
                network="convnet-32",
                lr=5e-4,
                steps=1000,
                test_images=2000,
                reduced="ConvNet of half the width, 1,000 steps at lr 5e-4 instead of 10,000 at "
                "1e-4, at most 2,000 test images per domain",
            ),
            "smoke": replace(
                paper,
                network="convnet-8",
                lr=1e-3,
                steps=20,
                test_images=64,
                validations=2,
                reduced="ConvNet of an eighth of the width, 20 steps, 64 test images per domain",
            ),
        }

    @classmethod
    def source_name(cls, options: Any) -> str:
        """The source that the options choose."""
        name: str = options.source
        return name

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """The other domains, in the order of the paper's table."""
        names = ("svhn", "mnist-m", "syn", "usps", "mnist")
        return {name: {} for name in names if name != options.source}

    @classmethod
    def source_splits(cls, options: Any) -> list[str]:
        """Both splits of the source."""
        return [f"{options.source}-train", f"{options.source}-test"]

    @classmethod
    def target_splits(cls, options: Any) -> dict[str, str]:
        """The test split of each target."""
        return {name: f"{name}-test" for name in cls.target_tags(options)}

    def source(self, split: Split) -> Domain:
        """Training images; "val": 2,000 of the source's test images."""
        name = self.options.source
        images, labels = self.load_split(f"{name}-{'train' if split == 'train' else 'test'}")
        if split == "val":
            return _domain(name, images, labels).subsample(2000)
        if name == "mnist":
            chosen = slice(
                self.options.mnist_offset, self.options.mnist_offset + self.options.mnist_images
            )
            images, labels = images[chosen], labels[chosen]
        return _domain(name, images, labels)

    def target(self, name: str) -> Domain:
        """The whole test set of another domain."""
        return _domain(name, *self.load_split(f"{name}-test"))

    def target_train(self, name: str) -> Domain | None:
        """The whole training set of another domain, if it is stored; enlarged as it is read."""
        if self.store.get(f"{name}-train") is None:
            return None
        images, labels = self.load_split(f"{name}-train")
        return Domain(name, lazy_rows(images, transform=_as_rgb32), labels.astype(np.uint8))


def _as_rgb32(images: np.ndarray) -> np.ndarray:
    """Images as RGB of 32x32 pixels, channels first; grey ones are enlarged."""
    if images.ndim == 4:
        return images.transpose(0, 3, 1, 2)
    grey = np.stack(
        [
            np.asarray(Image.fromarray(image).resize((32, 32), Image.Resampling.LANCZOS))
            for image in np.asarray(images)
        ]
    )
    return np.repeat(grey[:, None], 3, axis=1)


def _domain(name: str, images: np.ndarray, labels: np.ndarray) -> Domain:
    images = _as_rgb32(images)
    if labels.min() < 0 or labels.max() > 9:
        raise UserError(f"{name} has labels outside 0..9: it is damaged. Import it again.")
    return Domain(name, images, labels.astype(np.uint8))
