"""PACS: seven classes as photographs, paintings, cartoons and sketches."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sdgbench.data import readers
from sdgbench.data.decoding import read_rgb
from sdgbench.data.domain import Arrays
from sdgbench.data.listing import list_images
from sdgbench.data.splits import Candidate, DataSplit, File, paths_named
from sdgbench.dataset import param
from sdgbench.datasets._domain_splits import DomainSplits
from sdgbench.registry import register_dataset
from sdgbench.task import Classification

CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
HELD_OUT = {"photo": 171, "art_painting": 208, "cartoon": 237, "sketch": 398}
COUNTS = {"photo": 1670, "art_painting": 2048, "cartoon": 2344, "sketch": 3929}
SIZE = 227  # of the released images
REVISION = "394113073258ead631f617d2e13bb377c0715c4b"
PARQUET = File(
    "train-00000-of-00001.parquet",
    (
        f"https://huggingface.co/datasets/flwrlabs/pacs/resolve/{REVISION}/data/"
        "train-00000-of-00001.parquet",
    ),
    size=191_395_900,
    sha256="4fc041ee92eec6043fe6e2859e8bdd138e5f958bc621afd153879812cbe65ff5",
)


def _split(domain: str) -> DataSplit:
    def candidates(folder: Path) -> Iterator[Candidate]:
        for path in paths_named(folder, (PARQUET.name,)):
            yield Candidate((path,), partial(readers.read_parquet, (path,), domain, CLASSES))
        for path in paths_named(folder, (domain,)):
            if all((path / name).is_dir() for name in CLASSES):
                yield Candidate((path,), partial(_read_folder, path))

    return DataSplit(f"pacs-{domain}", COUNTS[domain], candidates, (PARQUET,))


def _read_folder(folder: Path) -> Arrays:
    """The images below ``folder/class``, which all have one size."""
    items = [i for i in list_images(folder.parent).items if i.domain == folder.name]
    items = [item for item in items if item.label in CLASSES]
    images = [read_rgb(folder.parent / item.path) for item in items]
    if len({image.shape for image in images}) > 1:
        raise ValueError("its images differ in size; use --dataset folder for such")
    return np.stack(images), np.array([CLASSES.index(item.label) for item in items])


@register_dataset("pacs", paper="Li et al., ICCV 2017")
class PACS(DomainSplits):
    """Photographs, paintings, cartoons and sketches of seven classes; one is the source.

    The other three are unseen, in full. Of the source as many images are held out as in the
    published lists (171, 208, 237 and 398), but which ones is this project's choice.
    """

    task = Classification(classes=len(CLASSES), names=CLASSES)
    families = ("channels", "hue", "posterize")  # paintings and drawings: other colours, flat ones
    twin = "styles-mini"
    counts, held_out = COUNTS, HELD_OUT
    splits = tuple(_split(domain) for domain in COUNTS)

    @dataclass(frozen=True)
    class Options:
        """What may be chosen."""

        source: Literal["photo", "art_painting", "cartoon", "sketch"] = param(
            "photo", "domain to learn from"
        )

    def data_flags(self) -> dict[str, Any]:
        """Also the size of the stored images, if it is not that of the release."""
        sizes = {load[0].shape[1] for load in (self.load_split(name) for name in self._loaded)}
        reduced = [f"{size}x{size} instead of {SIZE}x{SIZE}" for size in sorted(sizes - {SIZE})]
        return {**super().data_flags(), **({"reduced_images": reduced} if reduced else {})}
