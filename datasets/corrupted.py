"""Any classification dataset against its own held-out images under 19 corruptions."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sdgbench import registry
from sdgbench.corruptions import stored
from sdgbench.corruptions.names import ALL_19, SEVERITIES
from sdgbench.data.corruption_protocol import CLEAN, CorruptedTargets
from sdgbench.data.domain import Domain, Split, load_array
from sdgbench.data.splits import check_space
from sdgbench.dataset import Dataset, param
from sdgbench.datasets import _recipes as recipes
from sdgbench.errors import UserError, unknown
from sdgbench.recipe import Recipe
from sdgbench.registry import register_dataset
from sdgbench.reporter import Reporter, Silent
from sdgbench.spec import parameters
from sdgbench.spec.seeds import permutation
from sdgbench.task import Classification, Task


@register_dataset("corrupted", paper="after Hendrycks and Dietterich, ICLR 2019")
class Corrupted(CorruptedTargets, Dataset):
    """The source of another dataset against its held-out images under 19 corruptions.

    Half of the held-out source is corrupted at 5 severities and tested; the other half stays for
    validation. The strengths are those of CIFAR-10-C at every image size.
    """

    task = Classification(classes=10)  # of the class; an object has that of the dataset `of`
    family = "cifar10c"

    @dataclass(frozen=True)
    class Options:
        """What is corrupted."""

        of: str = param("styles-mini", "the dataset whose source is learned and corrupted")
        options: str = param("", "its options, such as root=DIR,source=photo")
        images: int = param(200, "test images at most; on disk each takes 95 times its pixels")

        def __post_init__(self) -> None:
            if self.images < 1:
                raise ValueError(f"images must be above 0, not {self.images}")

    def __init__(self, root: Path, options: Any, recipe: Recipe) -> None:
        super().__init__(root, options, recipe)
        inner, inner_options = self._inner(options)
        self.inner = inner(root, inner_options, recipe)
        self._reporter: Reporter = Silent()

    @classmethod
    def _inner(cls, options: Any) -> tuple[type[Dataset], Any]:
        """The dataset that is corrupted, and its options."""
        inner: type[Dataset] = registry.get("dataset", options.of).load()
        if issubclass(inner, Corrupted) or inner.task.kind != "classification":
            raise UserError(
                f"{options.of} cannot be corrupted: of must name a dataset for classification, "
                "such as --set of=folder"
            )
        known, values = parameters.fields(inner.Options), {}
        for part in filter(None, options.options.split(",")):
            key, equals, text = part.partition("=")
            if not equals:
                raise UserError(f'"{part}" is not an option of {options.of}: write KEY=VALUE.')
            if key not in known:
                raise unknown(f"option of {options.of} called", key, known)
            values[key] = parameters.parse_field(options.of, known[key], text)
        return inner, parameters.build(inner.Options, values)

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The recipe of CIFAR-10, and shorter ones; set recipe.image_size for larger images."""
        paper = recipes.CIFAR
        return {
            "paper": paper,
            "quick": replace(
                paper,
                network="wrn-16-1",
                epochs=0,
                steps=400,
                batch=64,
                test_images=100,
                validations=4,
                reduced="WRN-16-1, 400 steps of 64 instead of 200 epochs of 128, 100 test images",
            ),
            "smoke": replace(
                paper,
                network="wrn-10-1",
                epochs=0,
                steps=10,
                batch=16,
                test_images=8,
                validations=2,
                reduced="WRN-10-1, 10 steps, 8 test images per domain",
            ),
        }

    @classmethod
    def task_for(cls, options: Any) -> Task:
        """That of the dataset that is corrupted."""
        inner, inner_options = cls._inner(options)
        return inner.task_for(inner_options)

    @classmethod
    def source_name(cls, options: Any) -> str:
        """That of the dataset that is corrupted."""
        inner, inner_options = cls._inner(options)
        return inner.source_name(inner_options)

    def prepare(self, reporter: Reporter | None = None) -> None:
        """Prepare the dataset and corrupt its test images."""
        self._reporter = reporter or Silent()
        self.inner.prepare(reporter)
        _ = self._folder

    def data_flags(self) -> dict[str, Any]:
        """The corruptions are made here."""
        flags = {"regenerated": ["corruptions"], "frost_overlays": ["procedural"]}
        return {**self.inner.data_flags(), **flags}

    def source(self, split: Split) -> Domain:
        """The source of the dataset; of its held-out images, the half that is not tested."""
        domain = self.inner.source(split)
        return domain if split == "train" else domain.select(self._divided()[1])

    def target(self, name: str) -> Domain:
        """The test images, clean or corrupted."""
        clean = self._clean
        if name == CLEAN:
            return Domain(name, clean.images, clean.labels)
        corruption, severity = name.split("/")
        path = stored.path(self._folder, corruption)
        images = load_array(path, "Delete it: it will be generated again.", mmap=True)
        first = SEVERITIES.index(int(severity)) * len(clean)
        return Domain(name, images[first : first + len(clean)], clean.labels)

    def _divided(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the held-out source: those to test, at most ``images``, and the others."""
        count = len(self.inner.source("val"))
        if count < 2:
            raise UserError(
                f"{self.options.of} holds out {count} image of its source: corruptions need at "
                "least two, one to validate and one to test."
            )
        order = permutation(0, count, "corrupted")
        tested = min(count // 2, self.options.images)
        return np.sort(order[:tested]), np.sort(order[tested:])

    @cached_property
    def _clean(self) -> Domain:
        domain = self.inner.source("val").select(self._divided()[0])
        return Domain(CLEAN, np.asarray(domain.images), np.asarray(domain.labels))

    @cached_property
    def _folder(self) -> Path:
        """Where the corrupted images are, by the content of the clean ones; made if need be."""
        images = self._clean.images
        folder = self.root / self._clean.sha256()[:16]
        if not all(stored.path(folder, name).exists() for name in ALL_19):
            needed = len(ALL_19) * len(SEVERITIES) * images.nbytes
            check_space(folder, needed)
            self._reporter.note(
                f"corrupting {len(images)} images in 95 ways, {needed / 1e6:,.0f} MB in {folder}"
            )
            stored.generate(folder, images, self._reporter)
        return folder
