"""The Digits benchmark in small: real handwriting, and four unseen domains that are rendered."""

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sdgbench.data.domain import Arrays, Domain, Split
from sdgbench.data.generated_dataset import GeneratedDataset
from sdgbench.datasets import _recipes as recipes
from sdgbench.recipe import Recipe
from sdgbench.registry import register_dataset
from sdgbench.spec.seeds import permutation
from sdgbench.task import Classification

HELD_OUT = 500  # of 1,797 handwritten digits, never trained on
PER_DOMAIN = 1000
FEW_SHOT = 500  # images of a domain's training split


@register_dataset("digits-mini", paper="handwriting: Alpaydin and Kaynak, UCI, 1998 (scikit-learn)")
class DigitsMini(GeneratedDataset):
    """Handwritten digits against textured, printed, street-number and scanned ones.

    The source is the handwriting that ships with scikit-learn, enlarged to 32x32. The four unseen
    domains mimic MNIST-M (texture), SYN (print), SVHN (street) and USPS (scan); they are not
    those data sets.
    """

    task = Classification(classes=10, names=tuple("0123456789"))
    family = "digits"
    # Other colours, dark on light, turned and slanting digits, uneven light.
    families = ("channels", "hue", "invert", "rotate", "shear", "shading")

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The paper's recipe for Digits, and shorter ones with a narrower network."""
        paper = recipes.DIGITS
        return {
            "paper": paper,
            "quick": replace(
                paper,
                network="convnet-16",
                lr=5e-4,
                steps=600,
                reduced="ConvNet of a quarter of the width, 600 steps at 5e-4, not 10,000 at 1e-4",
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
        return self.cached(name, lambda: _render(name, name, PER_DOMAIN, _held_out_twice))

    def target_train(self, name: str) -> Domain:
        """500 other images of a domain, for few-shot samples.

        As in MNIST-M, handwriting in it is handwriting of the source's training images: never one
        that the domain is tested with.
        """
        key = f"{name}-train"
        return self.cached(name, lambda: _render(name, key, FEW_SHOT, _first_of_training), key=key)


def _render(name: str, key: str, count: int, digits: Callable[[], Arrays]) -> Arrays:
    from sdgbench.datasets import _digit_domains as domains  # needs scikit-learn, seconds to load

    rng = np.random.default_rng(zlib.crc32(key.encode()))
    if name == "street":
        return domains.street(count, rng)
    if name == "print":
        return domains.printed(count, rng)
    return (domains.texture if name == "texture" else domains.scan)(*digits(), rng)


def _handwriting(split: Split) -> Arrays:
    from sdgbench.datasets._digit_domains import handwriting

    grey, labels = handwriting()
    order = permutation(0, len(grey), "digits-mini")
    chosen = np.sort(order[:HELD_OUT] if split == "val" else order[HELD_OUT:])
    return grey[chosen], labels[chosen]


def _as_rgb(images: Arrays) -> Arrays:
    return np.repeat(images[0][:, None], 3, axis=1), images[1]


def _held_out_twice() -> Arrays:
    """Each held-out digit appears with two backgrounds or distortions."""
    images, labels = _handwriting("val")
    return np.concatenate([images] * 2), np.concatenate([labels] * 2)


def _first_of_training() -> Arrays:
    images, labels = _handwriting("train")
    return images[:FEW_SHOT], labels[:FEW_SHOT]
