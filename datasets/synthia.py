"""SYNTHIA sequences: a highway against New York-like and old European streets."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch.nn import functional as F

from sdgbench.data import decoding
from sdgbench.data.domain import Arrays, Domain, Split, lazy_rows
from sdgbench.data.downloaded_dataset import DownloadedDataset
from sdgbench.data.splits import Candidate, DataSplit
from sdgbench.dataset import param
from sdgbench.datasets import _recipes as recipes
from sdgbench.datasets._scenes import CLASSES, CONDITIONS, PALETTE
from sdgbench.errors import UserError
from sdgbench.recipe import Recipe
from sdgbench.registry import register_dataset
from sdgbench.spec.seeds import permutation
from sdgbench.task import Segmentation

LOCATIONS = {"highway": "01", "new-york": "02", "old-european": "04"}
SIZE = (192, 320)
SOURCE_IMAGES, HELD_OUT = 900, 100
CAMERA = Path("Stereo_Left", "Omni_F")  # left front
# Ids 0..12 are their own class, 15 (traffic light) is class 13; 13 and 14 are reserved.
CLASS_OF_ID = np.zeros(256, dtype=np.uint8)
CLASS_OF_ID[:13] = range(13)
CLASS_OF_ID[15] = 13


def split_name(domain: str) -> str:
    """The split that holds a domain, such as new-york/fog."""
    location, condition = domain.split("/")
    return f"synthia-{LOCATIONS[location]}-{condition}"


def _split(domain: str) -> DataSplit:
    location, condition = domain.split("/")
    sequence = f"SYNTHIA-SEQS-{LOCATIONS[location]}-{condition.upper()}"

    def candidates(folder: Path) -> Iterator[Candidate]:
        for path in (folder, *sorted(path for path in folder.rglob("*") if path.is_dir())):
            if path.name.upper() == sequence and (path / "RGB" / CAMERA).is_dir():
                yield Candidate((path,), partial(read_sequence, path))

    manual = (
        f"SYNTHIA asks for a form on its site (synthia-dataset.net). Download {sequence}.rar of "
        f"SYNTHIA-SEQS, unpack it to a folder {sequence}/ that contains RGB/{CAMERA} and "
        f"GT/LABELS/{CAMERA}, and run: sdgbench data import synthia DIR --trust"
    )
    return DataSplit(split_name(domain), 0, candidates, manual=manual)


def read_sequence(folder: Path) -> Arrays:
    """All frames of the left front camera at 192x320, decoded by several threads."""
    frames = sorted((folder / "RGB" / CAMERA).glob("*.png"))
    truths = [folder / "GT" / "LABELS" / CAMERA / frame.name for frame in frames]
    missing = [truth for truth in truths if not truth.exists()]
    if not frames or missing:
        raise ValueError(
            f"{missing[0] if missing else folder / 'RGB' / CAMERA} is missing or empty"
        )
    with ThreadPoolExecutor() as threads:  # decoding releases the GIL
        images = np.stack(list(threads.map(read_image, frames)))
        labels = np.stack(list(threads.map(read_labels, truths)))
    return images, labels


def read_image(path: Path) -> np.ndarray:
    """A frame, shrunk bilinearly (with anti-aliasing)."""
    image = torch.from_numpy(decoding.read_rgb(path).copy()).permute(2, 0, 1)[None].float()
    small = F.interpolate(image, SIZE, mode="bilinear", antialias=True)
    return small[0].round().clamp(0, 255).byte().permute(1, 2, 0).numpy()


def read_labels(path: Path) -> np.ndarray:
    """The class of each pixel: the first channel of a 16-bit PNG, shrunk to the nearest pixel."""
    truth = torch.from_numpy(decoding.read_first_channel(path))
    if int(truth.max()) > 255:
        raise ValueError(f"{path} has class ids above 255: it is not a label image of SYNTHIA")
    small = F.interpolate(truth[None, None].float(), SIZE, mode="nearest-exact")
    classes: np.ndarray = CLASS_OF_ID[small[0, 0].long().numpy()]
    return classes


def halve(images: np.ndarray) -> np.ndarray:
    """The mean of each four pixels, rounded, with the channels first."""
    wide = images.transpose(0, 3, 1, 2).astype(np.uint16)
    rows = wide[:, :, ::2] + wide[:, :, 1::2]
    return ((rows[..., ::2] + rows[..., 1::2] + 2) >> 2).astype(np.uint8)


@register_dataset("synthia", paper="Ros et al., CVPR 2016; protocol: Qiao et al., CVPR 2020")
class Synthia(DownloadedDataset):
    """Highway scenes against New York-like and old European streets, 14 classes, 192x320.

    900 random frames of the highway (sequence 01) in one condition, from a frozen seed, are the
    source; up to 100 others are held out. Targets are all frames of the sequences 02 and 04 in five
    conditions. The left front camera is used throughout.
    """

    task = Segmentation(classes=14, names=CLASSES, void=0)
    families = ("hue", "shading")  # other light
    colours = PALETTE
    twin = "streets-mini"
    streams = True
    splits = (
        *(_split(f"highway/{condition}") for condition in ("dawn", "fog", "spring")),
        *(_split(f"new-york/{condition}") for condition in CONDITIONS),
        *(_split(f"old-european/{condition}") for condition in CONDITIONS),
    )

    @dataclass(frozen=True)
    class Options:
        """What may be chosen."""

        source: Literal["dawn", "fog", "spring"] = param("dawn", "condition of the highway source")

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The paper's recipe, and shorter ones with a smaller encoder on half-size frames."""
        paper = recipes.SYNTHIA
        return {
            "paper": paper,
            "quick": replace(
                paper,
                network="fcn32-resnet18",
                image_size=(96, 160),
                epochs=3,
                lr=5e-4,
                validations=3,
                test_images=100,
                eval_batch=32,
                reduced="FCN on ResNet-18, 96x160 frames, 3 epochs at lr 5e-4 instead of 50, 100 "
                "test frames per domain",
            ),
            "smoke": replace(
                paper,
                network="fcn32-tu-test_resnet",
                image_size=(96, 160),
                epochs=0,
                steps=4,
                lr=5e-4,
                batch=4,
                validations=1,
                test_images=4,
                reduced="FCN on a tiny ResNet, 96x160 frames, 4 steps, 4 test frames per domain",
            ),
        }

    @classmethod
    def source_name(cls, options: Any) -> str:
        """The highway in the chosen condition."""
        return f"highway/{options.source}"

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """The two other locations in five conditions."""
        return {
            f"{location}/{condition}": {"location": location, "condition": condition}
            for location in ("new-york", "old-european")
            for condition in CONDITIONS
        }

    @classmethod
    def source_splits(cls, options: Any) -> list[str]:
        """The highway sequence."""
        return [split_name(cls.source_name(options))]

    @classmethod
    def target_splits(cls, options: Any) -> dict[str, str]:
        """One sequence per target."""
        return {name: split_name(name) for name in cls.target_tags(options)}

    def source(self, split: Split) -> Domain:
        """The frozen choice of frames; "val": other frames."""
        name = self.source_name(self.options)
        whole = self.target(name)
        order = permutation(0, len(whole), "synthia source")
        trained = min(SOURCE_IMAGES, len(order) * 9 // 10)
        chosen = order[:trained] if split == "train" else order[trained : trained + HELD_OUT]
        rows = np.sort(chosen)
        images, labels = lazy_rows(whole.images, rows), lazy_rows(whole.labels, rows)
        return replace(whole, images=images, labels=labels)

    def target(self, name: str) -> Domain:
        """All frames of a sequence."""
        images, labels = self.load_split(split_name(name))
        wanted = self.recipe_used.image_size
        if wanted == (SIZE[0] // 2, SIZE[1] // 2):  # mean of four pixels, label of one of them
            images, labels = lazy_rows(images, transform=halve), labels[:, ::2, ::2]
        elif wanted == SIZE:
            images = images.transpose(0, 3, 1, 2)
        else:
            raise UserError(f"synthia comes at image_size 192,320 or 96,160, not {wanted}.")
        return Domain(name, images, labels, self.streams)
