"""The PACS benchmark in small: seven classes, photographed, painted, drawn and sketched."""

from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any, Literal

import numpy as np
from PIL import Image

from sdgbench.data.domain import Arrays, Domain, Split
from sdgbench.data.generated_dataset import GeneratedDataset
from sdgbench.dataset import param
from sdgbench.datasets import _recipes as recipes
from sdgbench.datasets import _styles as styles
from sdgbench.recipe import Recipe
from sdgbench.registry import register_dataset
from sdgbench.reporter import Reporter
from sdgbench.spec.seeds import permutation
from sdgbench.task import Classification

PER_CLASS = 120
HELD_OUT = 20  # of them, when the style is the source
CHUNK = 60  # images drawn from one seed, so that processes can share the work


@register_dataset("styles-mini", paper="after Li et al., ICCV 2017 (PACS)")
class StylesMini(GeneratedDataset):
    """Figures of seven classes as photographs, paintings, cartoons and sketches, 64x64.

    Any style can be the source; the other three are unseen, in full. Classes and names of the
    domains are those of PACS; the images are rendered and are not those of PACS.
    """

    task = Classification(classes=len(styles.CLASSES), names=styles.CLASSES)
    family = "pacs"
    families = ("channels", "hue", "posterize")  # paintings and drawings: other colours, flat ones

    @dataclass(frozen=True)
    class Options:
        """What may be chosen."""

        source: Literal["photo", "art_painting", "cartoon", "sketch"] = param(
            "photo", "style to learn from"
        )

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """A recipe without pretraining, and shorter ones with a smaller network."""
        paper = Recipe(
            network="wrn-16-4",
            image_size=(styles.SIZE, styles.SIZE),
            optimiser="sgd",
            lr=0.05,
            momentum=0.9,
            weight_decay=5e-4,
            schedule="cosine",
            epochs=60,
            batch=64,
            augment=recipes.STYLES_AUGMENT,
            eval_batch=128,
        )
        return {
            "paper": paper,
            "quick": replace(
                paper,
                network="wrn-10-1",
                image_size=(32, 32),
                epochs=0,
                steps=400,
                batch=32,
                validations=4,
                reduced="WRN-10-1, images reduced to 32x32, 400 steps of 32 instead of 60 epochs "
                "of 64",
            ),
            "smoke": replace(
                paper,
                network="wrn-10-1",
                image_size=(32, 32),
                epochs=0,
                steps=10,
                batch=16,
                validations=2,
                test_images=32,
                reduced="WRN-10-1, images reduced to 32x32, 10 steps, 32 test images per domain",
            ),
        }

    @classmethod
    def source_name(cls, options: Any) -> str:
        """The style that the options choose."""
        name: str = options.source
        return name

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """The other three styles."""
        return {name: {"style": name} for name in styles.STYLES if name != options.source}

    _workers: Executor | None = None

    def prepare(self, reporter: Reporter | None = None) -> None:
        """Render what is missing, on all cores."""
        # Threads of torch do not survive a fork, so the workers start afresh (when first needed).
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as self._workers:
            super().prepare(reporter)
        self._workers = None

    def source(self, split: Split) -> Domain:
        """The chosen style: of each class 20 images are held out."""
        whole = self._style(self.source_name(self.options))
        number = np.empty(len(whole), dtype=np.int64)  # of each image among those of its class
        for label in range(self.task.classes):
            of_class = np.flatnonzero(whole.labels == label)
            number[of_class] = np.arange(len(of_class))
        held_out = number >= PER_CLASS - HELD_OUT
        return self._sized(whole.select(np.flatnonzero(held_out == (split == "val"))))

    def target(self, name: str) -> Domain:
        """Another style, in full."""
        return self._sized(self._style(name))

    def _style(self, name: str) -> Domain:
        return self.cached(name, lambda: self._render(name))

    def _render(self, name: str) -> Arrays:
        order = permutation(0, PER_CLASS * self.task.classes, "styles-mini", name)
        labels = (order % self.task.classes).astype(np.uint8)
        chunks = np.split(labels, range(CHUNK, len(labels), CHUNK))
        run = self._workers.map if self._workers else map
        drawn = run(partial(styles.render, name), chunks, range(len(chunks)))
        return np.concatenate(list(drawn)), labels

    def _sized(self, domain: Domain) -> Domain:
        """The images at the recipe's size."""
        height, width = self.recipe_used.image_size
        if (height, width) == (styles.SIZE, styles.SIZE):
            return domain
        images = np.stack(
            [
                np.asarray(
                    Image.fromarray(image).resize((width, height), Image.Resampling.LANCZOS)
                ).transpose(2, 0, 1)
                for image in np.ascontiguousarray(domain.images.transpose(0, 2, 3, 1))
            ]
        )
        return Domain(domain.name, images, domain.labels)
