"""PACS: seven classes as photographs, paintings, cartoons and sketches."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from sdgbench.data import image_cache, readers
from sdgbench.data.decoding import read_rgb
from sdgbench.data.domain import Arrays, Domain, Split, lazy_rows
from sdgbench.data.downloaded_dataset import DownloadedDataset
from sdgbench.data.listing import list_images
from sdgbench.data.splits import Candidate, DataSplit, File, paths_named
from sdgbench.dataset import param
from sdgbench.datasets import _recipes as recipes
from sdgbench.recipe import Recipe
from sdgbench.registry import register_dataset
from sdgbench.reporter import Reporter, Silent
from sdgbench.spec.seeds import permutation
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
            yield Candidate((path,), partial(readers.read_parquet, path, domain, CLASSES))
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
class PACS(DownloadedDataset):
    """Photographs, paintings, cartoons and sketches of seven classes; one is the source.

    The other three are unseen, in full. Of the source as many images are held out as in the
    published lists (171, 208, 237 and 398), but which ones is this project's choice.
    """

    task = Classification(classes=len(CLASSES), names=CLASSES)
    families = ("channels", "hue", "posterize")  # paintings and drawings: other colours, flat ones
    twin = "styles-mini"
    splits = tuple(_split(domain) for domain in COUNTS)

    @dataclass(frozen=True)
    class Options:
        """What may be chosen."""

        source: Literal["photo", "art_painting", "cartoon", "sketch"] = param(
            "photo", "domain to learn from"
        )

    def __init__(self, root: Path, options: Any, recipe: Recipe) -> None:
        super().__init__(root, options, recipe)
        self._reporter: Reporter = Silent()

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The usual recipe of single-source papers, and shorter ones with a small network."""
        return dict(recipes.PACS)

    @classmethod
    def source_name(cls, options: Any) -> str:
        """The domain that the options choose."""
        name: str = options.source
        return name

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """The other three domains."""
        return {name: {} for name in COUNTS if name != options.source}

    @classmethod
    def source_splits(cls, options: Any) -> list[str]:
        """The source is one split, of which a part is held out."""
        return [f"pacs-{options.source}"]

    @classmethod
    def target_splits(cls, options: Any) -> dict[str, str]:
        """Each domain is one split."""
        return {name: f"pacs-{name}" for name in cls.target_tags(options)}

    def prepare(self, reporter: Reporter | None = None) -> None:
        """Check that the data are there and bring them to the recipe's size."""
        self._reporter = reporter or Silent()
        super().prepare(reporter)
        for name in (self.options.source, *self.target_tags(self.options)):
            if self.store.get(f"pacs-{name}"):
                self._domain(name)

    def data_flags(self) -> dict[str, Any]:
        """Also the size of the stored images, if it is not that of the release."""
        sizes = {load[0].shape[1] for load in (self.load_split(name) for name in self._loaded)}
        reduced = [f"{size}x{size} instead of {SIZE}x{SIZE}" for size in sorted(sizes - {SIZE})]
        return {**super().data_flags(), **({"reduced_images": reduced} if reduced else {})}

    def source(self, split: Split) -> Domain:
        """A fixed random division with the published sizes."""
        name = self.options.source
        order = permutation(0, COUNTS[name], "pacs", name)
        held_out, rest = np.split(order, [HELD_OUT[name]])
        return self._domain(name, np.sort(rest if split == "train" else held_out))

    def target(self, name: str) -> Domain:
        """Another domain in full."""
        return self._domain(name)

    def _domain(self, name: str, rows: np.ndarray | None = None) -> Domain:
        images, labels = self.load_split(f"pacs-{name}")
        stored, (height, width) = self._loaded[f"pacs-{name}"], self.recipe_used.image_size
        rows = np.arange(len(labels)) if rows is None else rows
        if images.shape[1:3] == (height, width):
            sized = lazy_rows(images, rows, lambda block: block.transpose(0, 3, 1, 2))
        else:
            folder = self.root / "decoded" / f"{stored.metadata['sha256'][:12]}-{height}x{width}"
            decoded = image_cache.decode(
                folder,
                len(images),
                (height, width),
                lambda row: _resized(images[row], height, width),
                self._reporter,
                f"resize {name}",
            )
            sized = lazy_rows(decoded.images, rows)
        return Domain(name, sized, np.asarray(labels)[rows].astype(np.uint8))


def _resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    small = Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(small).transpose(2, 0, 1)
