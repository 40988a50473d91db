"""CIFAR-10 against CIFAR-10-C: 19 corruptions at 5 severities."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

import numpy as np

from sdgbench import storage
from sdgbench.corruptions.frost import load_frost
from sdgbench.corruptions.generator import corrupt
from sdgbench.corruptions.names import ALL_19, SEVERITIES
from sdgbench.data import readers
from sdgbench.data.corruption_protocol import CLEAN, CorruptedTargets
from sdgbench.data.domain import Arrays, Domain, Split
from sdgbench.data.download import download
from sdgbench.data.downloaded_dataset import DownloadedDataset
from sdgbench.data.splits import (
    Candidate,
    DataSplit,
    File,
    SplitStore,
    check_space,
    paths_named,
)
from sdgbench.dataset import param
from sdgbench.datasets import _recipes as recipes
from sdgbench.errors import UserError
from sdgbench.recipe import Recipe
from sdgbench.registry import register_dataset
from sdgbench.reporter import Reporter
from sdgbench.spec.seeds import permutation
from sdgbench.task import Classification

CIFAR = File(
    "cifar-10-python.tar.gz",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
    size=170_498_071,
    md5="c58f30108f718f92721af3b95e74349a",
)
CIFAR_C = File(
    "CIFAR-10-C.tar",
    ("https://zenodo.org/records/2535967/files/CIFAR-10-C.tar?download=1",),
    size=2_918_471_680,
    sha256="c72763e101c723b7c507b96205f7e938912a5d587376173b825850cf3cb876a7",
)
FROST_URL = "https://raw.githubusercontent.com/hendrycks/robustness/master/ImageNet-C/create_c/"
FROST = tuple(
    File(name, (FROST_URL + name,), sha256=sha256)
    for name, sha256 in (
        ("frost1.png", "ff9f907860bd7a835d459e32f9d588062b7f61ee267343cc7222b56753a14755"),
        ("frost2.png", "fe211a89b336999c207a852ce05818d4545d0b57c5beadd824b4cc9d9a9b6137"),
        ("frost3.png", "2d0d50b4a9bb213f38b024ef7768731bb83cc08d2f26b5766bbc167cdfa0e504"),
        ("frost4.jpg", "3f8b91ca1a9fa7167b09e773da53f5ae60d0a1fd88f02a783f6e328a72887f6e"),
        ("frost5.jpg", "5fc6a19df4a429ba68abdcc8f8a4278d4c9f81c9ccafd2c92ab0c8cf8992ebd2"),
    )
)
CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
BATCHES = {  # file: its md5, and the hash of its content where it is known
    "data_batch_1": (
        "c99cafc152244af753f735de768cd75f",
        "6361d09348ff9501f65987ea2f30a43190f5e93a6f068fb910aac8511c555d42",
    ),
    "data_batch_2": (
        "d4bba439e000b95fd0a9bffe97cbabec",
        "207973b635d4d11832549f017e5dc1002f5fdeb3ab13f7e93377f0247c706940",
    ),
    "data_batch_3": ("54ebc095f3ab1f0389bbae665268c751", ""),
    "data_batch_4": ("634d18415352ddfa80567beed471001a", ""),
    "data_batch_5": ("482c414d41f54cd18b22e5b47cb7c3cb", ""),
    "test_batch": (
        "40351d587109b95175f43aff81a1287e",
        "ad453768ce37e3dfbb0ecf67f2d0e11994b143443d09204ca9550ff5286f621f",
    ),
}
TRAIN_SPLITS = tuple(f"cifar10-{name}" for name in BATCHES if name != "test_batch")
TEST_SPLIT = "cifar10-test_batch"


def _batch(name: str) -> DataSplit:
    md5, content = BATCHES[name]

    def candidates(folder: Path) -> Iterator[Candidate]:
        for path in paths_named(folder, (name,)):
            yield Candidate((path,), partial(readers.read_cifar_batch, path))

    known = (content,) if content else ()
    return DataSplit(f"cifar10-{name}", 10_000, candidates, (File(name, md5=md5),), known, CIFAR)


def _corruption(name: str) -> DataSplit:
    def candidates(folder: Path) -> Iterator[Candidate]:
        for path in paths_named(folder, (f"{name}.npy",)):
            labels = path.with_name("labels.npy")
            if labels.exists():
                yield Candidate((path, labels), partial(_read_corruption, path, labels))

    return DataSplit(f"cifar10c-{name}", 50_000, candidates, (), (), CIFAR_C)


def _read_corruption(path: Path, labels: Path) -> Arrays:
    images = readers.read_npy(path)
    if images.dtype != np.uint8 or images.shape[1:] != (32, 32, 3):
        raise ValueError("not an array of CIFAR-10-C")
    return images, np.asarray(readers.read_npy(labels))


@register_dataset("cifar10c", paper="Hendrycks and Dietterich, ICLR 2019; Qiao et al., CVPR 2020")
class Cifar10C(CorruptedTargets, DownloadedDataset):
    """CIFAR-10 against its test set under 19 corruptions at 5 severities, and clean.

    Of the 50,000 training images 1,000 are held out for source validation (option holdout); the
    clean test images are no choice for that, since the targets are made from them.
    """

    task = Classification(classes=10, names=CLASSES)
    twin = "shapes10c"
    splits = (*(_batch(name) for name in BATCHES), *(_corruption(name) for name in ALL_19))

    @dataclass(frozen=True)
    class Options:
        """What may be chosen."""

        holdout: int = param(1000, "training images held out for source validation")

        def __post_init__(self) -> None:
            if not 100 <= self.holdout <= 5000:
                raise ValueError("holdout must lie between 100 and 5,000 images")

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The paper's recipe, and shorter ones with a narrower network."""
        paper = recipes.CIFAR
        return {
            "paper": paper,
            "quick": replace(
                paper,
                network="wrn-16-1",
                epochs=0,
                steps=600,
                batch=64,
                test_images=200,
                validations=4,
                reduced="WRN-16-1, 600 steps of 64 instead of 200 epochs, 200 images per domain",
            ),
            "smoke": replace(
                paper,
                network="wrn-10-1",
                epochs=0,
                steps=10,
                batch=32,
                test_images=16,
                validations=2,
                reduced="WRN-10-1, 10 steps, 16 test images per domain",
            ),
        }

    @classmethod
    def source_name(cls, options: Any) -> str:
        """CIFAR-10."""
        return "cifar-10"

    @classmethod
    def source_splits(cls, options: Any) -> list[str]:
        """At least the first batch; tables say when batches are missing."""
        return [TRAIN_SPLITS[0], TEST_SPLIT]

    @classmethod
    def wanted_splits(cls, options: Any) -> list[str]:
        """All of them."""
        return [split.name for split in cls.splits]

    @classmethod
    def target_splits(cls, options: Any) -> dict[str, str]:
        """The array that each target is read from."""
        names = [name for name in cls.target_tags(options) if name != CLEAN]
        return {name: f"cifar10c-{name.split('/')[0]}" for name in names}

    def source(self, split: Split) -> Domain:
        """A fixed random division of all training batches that are stored."""
        stored = [name for name in TRAIN_SPLITS if self.store.get(name)]
        loaded = [self.load_split(name) for name in stored or TRAIN_SPLITS[:1]]
        images = np.concatenate([arrays[0] for arrays in loaded])
        labels = np.concatenate([arrays[1] for arrays in loaded])
        order = permutation(0, len(images), "cifar10 holdout")
        held_out, rest = np.split(order, [self.options.holdout])
        chosen = np.sort(rest if split == "train" else held_out)
        return _domain("cifar-10", images[chosen], labels[chosen])

    def target(self, name: str) -> Domain:
        """One block of 10,000 images of an array, or the clean test set."""
        if name == CLEAN:
            return _domain(name, *self.load_split(TEST_SPLIT))
        corruption, severity = name.split("/")
        images, labels = self.load_split(f"cifar10c-{corruption}")
        size = len(images) // len(SEVERITIES)
        block = slice((int(severity) - 1) * size, int(severity) * size)
        return _domain(name, images[block], labels[block])

    def data_flags(self) -> dict[str, Any]:
        """Also the number of training batches, if some are missing."""
        stored = [name for name in TRAIN_SPLITS if self.store.get(name)]
        short = f"{len(stored)} of {len(TRAIN_SPLITS)} training batches"
        more = {} if len(stored) == len(TRAIN_SPLITS) else {"incomplete_source": short}
        return {**super().data_flags(), **more}

    @classmethod
    def import_extras(cls, folder: Path, root: Path) -> list[str]:
        """Import the released frost overlays, which the generator prefers."""
        by_name = {file.name: file for file in FROST}
        overlays = {
            path.name: path
            for path in paths_named(folder, by_name)
            if by_name[path.name].matches(path)
        }
        for name, path in overlays.items():
            storage.write_atomic(root / "frost" / name, partial(_copy, path))
        return (
            [f"frost overlays: {len(overlays)} of {len(FROST)} released files"] if overlays else []
        )

    @classmethod
    def generate(cls, root: Path, reporter: Reporter) -> None:
        """Generate the corrupted arrays from the CIFAR-10 test set, one process per core."""
        store = SplitStore(root)
        if store.get(TEST_SPLIT) is None:
            raise UserError(
                "Corruptions are generated from the CIFAR-10 test set, which is missing. Get it: "
                "sdgbench data import cifar10c DIR, or sdgbench data prepare cifar10c"
            )
        todo = [name for name in ALL_19 if store.get(f"cifar10c-{name}") is None]
        check_space(root, len(todo) * 50_000 * 3072)
        try:
            for file in FROST:
                download(file, root / "frost", reporter)
        except UserError:
            reporter.note(
                "frost overlays could not be downloaded: procedural ones are used instead"
            )
        reporter.begin("generate", len(ALL_19), len(ALL_19) - len(todo))
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as workers:
            jobs = [workers.submit(_generate, root, name) for name in todo]
            for done, job in enumerate(as_completed(jobs), len(ALL_19) - len(todo) + 1):
                job.result()
                reporter.update(done, None, 0.0)
        reporter.end()


def _copy(path: Path, file: IO[bytes]) -> None:
    file.write(path.read_bytes())


def _generate(root: Path, name: str) -> None:
    store = SplitStore(root)
    test = store.get(TEST_SPLIT)
    assert test is not None
    images, labels = test.load()
    overlays = load_frost(root / "frost")
    blocks = [corrupt(np.asarray(images), name, s, frost=overlays) for s in SEVERITIES]
    more = {"frost": overlays.source} if name == "frost" else {}
    store.save(
        f"cifar10c-{name}",
        (np.concatenate(blocks), np.tile(labels, len(SEVERITIES))),
        "regenerated",
        "generator, seed 0",
        **more,
    )


def _domain(name: str, images: np.ndarray, labels: np.ndarray) -> Domain:
    return Domain(name, images.transpose(0, 3, 1, 2), labels.astype(np.uint8))
