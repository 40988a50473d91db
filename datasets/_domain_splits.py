"""Real datasets whose domains are one split each, any of which can be the source."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from sdgbench.data import image_cache
from sdgbench.data.domain import Domain, Split, label_type, lazy_rows
from sdgbench.data.downloaded_dataset import DownloadedDataset
from sdgbench.datasets import _recipes as recipes
from sdgbench.recipe import Recipe
from sdgbench.reporter import Reporter, Silent
from sdgbench.spec.seeds import permutation


class DomainSplits(DownloadedDataset):
    """One domain is the source, of which a part is held out; the others are unseen, in full.

    The option ``source`` names it. A domain is stored as the split NAME-DOMAIN.
    """

    counts: ClassVar[Mapping[str, int]]  # images of each domain
    held_out: ClassVar[Mapping[str, int]]  # of them, when the domain is the source

    def __init__(self, root: Path, options: Any, recipe: Recipe) -> None:
        super().__init__(root, options, recipe)
        self._reporter: Reporter = Silent()

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The usual recipe of single-source papers on PACS, and shorter ones."""
        return dict(recipes.PACS)

    @classmethod
    def source_name(cls, options: Any) -> str:
        """The domain that the options choose."""
        name: str = options.source
        return name

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """The other domains."""
        return {name: {} for name in cls.counts if name != options.source}

    @classmethod
    def source_splits(cls, options: Any) -> list[str]:
        """The source is one split, of which a part is held out."""
        return [f"{cls.name}-{options.source}"]

    @classmethod
    def target_splits(cls, options: Any) -> dict[str, str]:
        """Each domain is one split."""
        return {name: f"{cls.name}-{name}" for name in cls.target_tags(options)}

    def prepare(self, reporter: Reporter | None = None) -> None:
        """Check that the data are there and bring them to the recipe's size."""
        self._reporter = reporter or Silent()
        super().prepare(reporter)
        for name in (self.options.source, *self.target_tags(self.options)):
            if self.store.get(f"{self.name}-{name}"):
                self._domain(name)

    def source(self, split: Split) -> Domain:
        """A fixed random division."""
        name = self.options.source
        order = permutation(0, self.counts[name], self.name, name)
        held_out, rest = np.split(order, [self.held_out[name]])
        return self._domain(name, np.sort(rest if split == "train" else held_out))

    def target(self, name: str) -> Domain:
        """Another domain in full."""
        return self._domain(name)

    def _domain(self, name: str, rows: np.ndarray | None = None) -> Domain:
        images, labels = self.load_split(f"{self.name}-{name}")
        stored, (height, width) = self._loaded[f"{self.name}-{name}"], self.recipe_used.image_size
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
        return Domain(name, sized, np.asarray(labels)[rows].astype(label_type(self.task.classes)))


def _resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    small = Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(small).transpose(2, 0, 1)
