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
from torchvision.io import ImageReadMode, decode_png, read_file

from sdgbench.data.dataset import RealDataset
from sdgbench.data.parts import Arrays, Candidate, Part
from sdgbench.dataset import Domain, Recipe, Split, rows_of
from sdgbench.datasets import _recipes as recipes
from sdgbench.datasets._scenes import CLASSES, CONDITIONS
from sdgbench.errors import UserError
from sdgbench.registry import register_dataset
from sdgbench.seeds import permutation
from sdgbench.settings import param
from sdgbench.task import Segmentation

LOCATIONS = {"highway": "01", "new-york": "02", "old-european": "04"}
SIZE = (192, 320)
SOURCE_IMAGES, HELD_OUT = 900, 100
CAMERA = Path("Stereo_Left", "Omni_F")  # left front
# Ids 0..12 are their own class, 15 (traffic light) is class 13; 13 and 14 are reserved.
CLASS_OF_ID = np.zeros(256, dtype=np.uint8)
CLASS_OF_ID[:13] = range(13)
CLASS_OF_ID[15] = 13


def part_name(domain: str) -> str:
    """The part that holds a domain, such as new-york/fog."""
    location, condition = domain.split("/")
    return f"synthia-{LOCATIONS[location]}-{condition}"


def _part(domain: str) -> Part:
    location, condition = domain.split("/")
    sequence = f"SYNTHIA-SEQS-{LOCATIONS[location]}-{condition.upper()}"

    def find(folder: Path) -> Iterator[Candidate]:
        for found in (folder, *sorted(path for path in folder.rglob("*") if path.is_dir())):
            if found.name.upper() == sequence and (found / "RGB" / CAMERA).is_dir():
                yield Candidate((found,), partial(read_sequence, found))

    manual = (
        f"SYNTHIA asks for a form on its site (synthia-dataset.net). Download {sequence}.rar of "
        f"SYNTHIA-SEQS, unpack it to a folder {sequence}/ that holds RGB/{CAMERA} and "
        f"GT/LABELS/{CAMERA}, and run: sdgbench data import synthia DIR --trust"
    )
    return Part(part_name(domain), 0, find, manual=manual)


def read_sequence(folder: Path) -> Arrays:
    """All frames of the left front camera at 192x320, decoded by several threads."""
    frames = sorted((folder / "RGB" / CAMERA).glob("*.png"))
    truths = [folder / "GT" / "LABELS" / CAMERA / frame.name for frame in frames]
    lost = [truth for truth in truths if not truth.exists()]
    if not frames or lost:
        raise ValueError(f"{lost[0] if lost else folder / 'RGB' / CAMERA} is missing or empty")
    with ThreadPoolExecutor() as threads:  # decoding releases Python's lock
        images = np.stack(list(threads.map(read_image, frames)))
        labels = np.stack(list(threads.map(read_labels, truths)))
    return images, labels


def read_image(path: Path) -> np.ndarray:
    """A frame, shrunk bilinearly (with anti-aliasing)."""
    image = decode_png(read_file(str(path)), ImageReadMode.RGB)[None].float()
    small = F.interpolate(image, SIZE, mode="bilinear", antialias=True)
    return small[0].round().clamp(0, 255).byte().permute(1, 2, 0).numpy()


def read_labels(path: Path) -> np.ndarray:
    """The class of each pixel: the first channel of a 16-bit PNG, shrunk to the nearest pixel."""
    truth = decode_png(read_file(str(path)), ImageReadMode.UNCHANGED)[0].to(torch.int32)
    if int(truth.max()) > 255:
        raise ValueError(f"{path} has class ids above 255: it is no label image of SYNTHIA")
    small = F.interpolate(truth[None, None].float(), SIZE, mode="nearest-exact")
    return CLASS_OF_ID[small[0, 0].long().numpy()]


def halve(images: np.ndarray) -> np.ndarray:
    """The mean of each four pixels, rounded, with the channels first."""
    wide = images.transpose(0, 3, 1, 2).astype(np.uint16)
    rows = wide[:, :, ::2] + wide[:, :, 1::2]
    return ((rows[..., ::2] + rows[..., 1::2] + 2) >> 2).astype(np.uint8)


@register_dataset("synthia", paper="Ros et al., CVPR 2016; protocol: Qiao et al., CVPR 2020")
class Synthia(RealDataset):
    """Highway scenes against New York-like and old European streets, 14 classes, 192x320.

    900 random frames of the highway (sequence 01) in one condition, from a frozen seed, are the
    source; up to 100 others are held out. Targets are all frames of the sequences 02 and 04 in five
    conditions. The left front camera is used throughout.
    """

    task = Segmentation(classes=14, names=CLASSES, void=0)
    twin = "streets-mini"
    streams = True
    parts = (
        *(_part(f"highway/{condition}") for condition in ("dawn", "fog", "spring")),
        *(_part(f"new-york/{condition}") for condition in CONDITIONS),
        *(_part(f"old-european/{condition}") for condition in CONDITIONS),
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
                paper, network="fcn32-resnet18", image_size=(96, 160), epochs=3, lr=5e-4,
                validations=3, test_images=100, eval_batch=32,
                reduced="FCN on ResNet-18, 96x160 frames, 3 epochs at lr 5e-4 instead of 50, 100 "
                "test frames per domain",
            ),
            "smoke": replace(
                paper, network="fcn32-tu-test_resnet", image_size=(96, 160), epochs=0, steps=4,
                lr=5e-4, batch=4, validations=1, test_images=4,
                reduced="FCN on a tiny ResNet, 96x160 frames, 4 steps, 4 test frames per domain",
            ),
        }  # fmt: skip

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
    def source_parts(cls, options: Any) -> list[str]:
        """The highway sequence."""
        return [part_name(cls.source_name(options))]

    @classmethod
    def target_parts(cls, options: Any) -> dict[str, str]:
        """One sequence per target."""
        return {name: part_name(name) for name in cls.target_tags(options)}

    def source(self, split: Split) -> Domain:
        """The frozen choice of frames, or frames beside it."""
        name = self.source_name(self.options)
        whole = self.target(name)
        order = permutation(0, len(whole), "synthia source")
        trained = min(SOURCE_IMAGES, len(order) * 9 // 10)
        chosen = order[:trained] if split == "train" else order[trained : trained + HELD_OUT]
        rows = np.sort(chosen)
        images, labels = rows_of(whole.images, rows), rows_of(whole.labels, rows)
        return replace(whole, images=images, labels=labels)

    def target(self, name: str) -> Domain:
        """All frames of a sequence."""
        images, labels = self.part(part_name(name))
        wanted = self.recipe_used.image_size
        if wanted == (SIZE[0] // 2, SIZE[1] // 2):  # mean of four pixels, label of one of them
            images, labels = rows_of(images, change=halve), labels[:, ::2, ::2]
        elif wanted == SIZE:
            images = images.transpose(0, 3, 1, 2)
        else:
            raise UserError(f"synthia comes at image_size 192,320 or 96,160, not {wanted}.")
        return Domain(name, images, labels, self.streams)
