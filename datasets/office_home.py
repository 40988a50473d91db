"""Office-Home: 65 classes as art, clip art, pictures of products and photographs."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from sdgbench.data import readers
from sdgbench.data.decoding import read_fitted
from sdgbench.data.domain import Arrays
from sdgbench.data.listing import list_images
from sdgbench.data.splits import Candidate, DataSplit, File, paths_named
from sdgbench.dataset import param
from sdgbench.datasets._domain_splits import DomainSplits
from sdgbench.registry import register_dataset
from sdgbench.task import Classification

CLASSES = (
    "Alarm_Clock", "Backpack", "Batteries", "Bed", "Bike", "Bottle", "Bucket", "Calculator",
    "Calendar", "Candles", "Chair", "Clipboards", "Computer", "Couch", "Curtains", "Desk_Lamp",
    "Drill", "Eraser", "Exit_Sign", "Fan", "File_Cabinet", "Flipflops", "Flowers", "Folder",
    "Fork", "Glasses", "Hammer", "Helmet", "Kettle", "Keyboard", "Knives", "Lamp_Shade", "Laptop",
    "Marker", "Monitor", "Mop", "Mouse", "Mug", "Notebook", "Oven", "Pan", "Paper_Clip", "Pen",
    "Pencil", "Postit_Notes", "Printer", "Push_Pin", "Radio", "Refrigerator", "Ruler", "Scissors",
    "Screwdriver", "Shelf", "Sink", "Sneakers", "Soda", "Speaker", "Spoon", "TV", "Table",
    "Telephone", "ToothBrush", "Toys", "Trash_Can", "Webcam",
)  # fmt: skip
COUNTS = {"art": 2427, "clipart": 4365, "product": 4439, "real_world": 4357}
HELD_OUT = {name: count // 10 for name, count in COUNTS.items()}
NAMES = {  # of the folders: the first is the archive's own
    "art": ("Art", "art"),
    "clipart": ("Clipart", "clipart"),
    "product": ("Product", "product"),
    "real_world": ("Real World", "RealWorld", "Real_World", "real_world"),
}
SIZE = (224, 224)  # as which images are stored; the released ones are of many sizes
DRIVE = "https://drive.usercontent.google.com/download?export=download&confirm=t&id="
ARCHIVE = File(
    "OfficeHomeDataset_10072016.zip",
    (
        f"{DRIVE}0B81rNlvomiwed0V1YUxQdC1uOTg&resourcekey=0-2SNWq0CDAuWOBRRBL7ZZsw",
        f"{DRIVE}1uY0pj7oFsjMxRwaD3Sxy0jgel0fsYXLC",
    ),
    md5="b1c14819770c4448fd5b6d931031c91c",
    about=1_160_000_000,
)
PARQUETS = tuple(f"train-{number:05d}-of-00003.parquet" for number in range(3))


def _split(domain: str) -> DataSplit:
    def candidates(folder: Path) -> Iterator[Candidate]:
        for path in paths_named(folder, NAMES[domain]):
            if all((path / name).is_dir() for name in CLASSES):
                yield Candidate((path,), partial(_read_folder, path))
        for path in paths_named(folder, PARQUETS[:1]):
            paths = tuple(path.with_name(name) for name in PARQUETS)
            if all(file.is_file() for file in paths):
                read = partial(readers.read_parquet, paths, NAMES[domain][0], CLASSES, SIZE)
                yield Candidate(paths, read)

    return DataSplit(f"office-home-{domain}", COUNTS[domain], candidates, archive=ARCHIVE)


def _read_folder(folder: Path) -> Arrays:
    """The images below ``folder/class``, at one size."""
    items = [i for i in list_images(folder.parent).items if i.domain == folder.name]
    items = [item for item in items if item.label in CLASSES]
    images = np.empty((len(items), *SIZE, 3), np.uint8)
    with ThreadPoolExecutor() as pool:
        decoded = pool.map(lambda item: read_fitted(folder.parent / item.path, SIZE), items)
        for row, image in enumerate(decoded):
            images[row] = image.transpose(1, 2, 0)
    return images, np.array([CLASSES.index(item.label) for item in items])


@register_dataset("office-home", paper="Venkateswara et al., CVPR 2017")
class OfficeHome(DomainSplits):
    """Photographs, product pictures, clip art and art of 65 classes; one is the source.

    The other three are unseen, in full. Images are stored at 224x224, stretched. Papers name no
    lists for a single source: a tenth of it is held out, which is this project's choice.
    """

    task = Classification(classes=len(CLASSES), names=CLASSES)
    family = "pacs"
    twin = "styles-mini"
    counts, held_out = COUNTS, HELD_OUT
    splits = tuple(_split(domain) for domain in COUNTS)

    @dataclass(frozen=True)
    class Options:
        """What may be chosen."""

        source: Literal["art", "clipart", "product", "real_world"] = param(
            "real_world", "domain to learn from"
        )
