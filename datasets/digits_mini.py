"""The Digits benchmark in small: real handwriting, and four unseen domains made from scratch."""

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sdgbench.dataset import Domain, Recipe, Split
from sdgbench.datasets import _digit_domains as domains
from sdgbench.datasets import _recipes as recipes
from sdgbench.embedded import EmbeddedDataset, Images
from sdgbench.registry import register_dataset
from sdgbench.seeds import permutation
from sdgbench.task import Classification

HELD_OUT = 500  # of 1,797 handwritten digits, never trained on
PER_DOMAIN = 1000


@register_dataset("digits-mini", paper="handwriting: Alpaydin and Kaynak, UCI, 1998 (scikit-learn)")
class DigitsMini(EmbeddedDataset):
    """Handwritten digits against textured, printed, street-number and scanned ones.

    The source is the handwriting that ships with scikit-learn, enlarged to 32x32. The four unseen
    domains mimic MNIST-M (texture), SYN (print), SVHN (street) and USPS (scan); they are not
    those data sets.
    """

    task = Classification(classes=10, names=tuple("0123456789"))
    family = "digits"

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The paper's recipe for Digits, and shorter ones with a narrower network."""
        paper = recipes.DIGITS
        return {
            "paper": paper,
            "quick": replace(
                paper, network="convnet-16", lr=5e-4, steps=600,
                reduced="ConvNet of a quarter of the width, 600 steps at 5e-4, not 10,000 at 1e-4",
            ),
            "smoke": replace(
                paper, network="convnet-8", lr=1e-3, steps=20, test_images=64, validations=2,
                reduced="ConvNet of an eighth of the width, 20 steps, 64 test images per domain",
            ),
        }  # fmt: skip

    @classmethod
    def source_name(cls, options: Any) -> str:
        """Handwriting."""
        return "handwriting"

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """In the order of the paper's table: SVHN, MNIST-M, SYN, USPS."""
        likeness = {"street": "SVHN", "texture": "MNIST-M", "print": "SYN", "scan": "USPS"}
        return {name: {"mimics": real} for name, real in likeness.items()}

    def source(self, split: Split) -> Domain:
        """A fixed random division of the handwriting."""
        return self.cached("handwriting", lambda: _as_rgb(_handwriting(split)), key=split)

    def target(self, name: str) -> Domain:
        """One unseen domain of 1,000 images; handwriting in it is held-out handwriting."""
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        make: dict[str, Callable[[], Images]] = {
            "street": lambda: domains.street(PER_DOMAIN, rng),
            "texture": lambda: domains.texture(*_twice(_handwriting("val")), rng),
            "print": lambda: domains.printed(PER_DOMAIN, rng),
            "scan": lambda: domains.scan(*_twice(_handwriting("val")), rng),
        }
        return self.cached(name, make[name])


def _handwriting(split: Split) -> Images:
    grey, labels = domains.handwriting()
    order = permutation(0, len(grey), "digits-mini")
    chosen = np.sort(order[:HELD_OUT] if split == "val" else order[HELD_OUT:])
    return grey[chosen], labels[chosen]


def _as_rgb(images: Images) -> Images:
    return np.repeat(images[0][:, None], 3, axis=1), images[1]


def _twice(images: Images) -> Images:
    """Each held-out digit appears with two backgrounds or distortions."""
    return np.concatenate([images[0]] * 2), np.concatenate([images[1]] * 2)
