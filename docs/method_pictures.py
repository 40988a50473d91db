"""Draws what methods do to the same eight images: ``python docs/method_pictures.py [FAMILY ...]``.

Each method trains for a short while on shapes10c with a small network. Then it gets eight images of
the source, and the picture shows what it makes of them: the images that it puts into its pool, or
those that it shows to the network. Each column is another random draw.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from pictures import HERE, dataset
from PIL import Image, ImageDraw

from sdgbench.method import Method
from sdgbench.reporter import Silent
from sdgbench.spec.resolution import resolve
from sdgbench.spec.seeds import seed_everything
from sdgbench.training.build_method import build_method
from sdgbench.training.device import Device
from sdgbench.training.trainer import Trainer

COLUMNS, SIDE, LABEL = 8, 64, 120
# Each family is a picture. Of the images that the network gets in a step, a method's number says
# which part is shown; None: those that it adds to its pool.
FAMILIES: dict[str, dict[str, int | None]] = {
    "augmentation": {
        "randconv": 0,
        "rc-img": 0,
        "pro-randconv": 1,
        "augmix": 1,
        "trivialaugment": 0,
        "randaugment": 0,
        "jigen": 0,
    },
    "adversarial": {"gud": None, "me-ada": None, "mada": None, "advst": None},
    "learned": {"alt": 2, "alt-crop": 0, "l2d": 0},
}
SETTINGS = {
    "recipe.network": "convnet-16",
    "recipe.optimiser": "adam",
    "recipe.momentum": "0",
    "recipe.weight_decay": "0",
    "recipe.lr": "0.001",
    "recipe.schedule": "constant",
    "recipe.batch": "32",
    "recipe.epochs": "0",
    "recipe.steps": "150",
    "recipe.validations": "0",
    "T_adv": "25",
    "ascent_step": "1",  # more than published, so that the change can be seen
    "max_batches": "2",
    "wae_epochs": "1",
    "wae_steps": "200",
}


def trained(name: str, folder: Path) -> tuple[Method, torch.Tensor, torch.Tensor]:
    """A method after a short training, and eight images of the source with their labels."""
    shapes = dataset("shapes10c", "smoke")
    settings = {**SETTINGS, **({"recipe.steps": "60"} if name in FAMILIES["learned"] else {})}
    spec = resolve(name, "shapes10c", "smoke", 0, list(settings.items()))
    source = shapes.source("train")
    method = build_method(spec, shapes, Device("cpu"), source, folder / "pool")
    Trainer(method, source, shapes.source("val"), folder, spec.id, Silent()).run()
    chosen = [np.flatnonzero(source.labels == label)[0] for label in range(COLUMNS)]
    images = torch.from_numpy(source.images[chosen]).float() / 255
    return method, images, torch.from_numpy(source.labels[chosen]).long()


def made_by(name: str, part: int | None) -> np.ndarray:
    """What a method makes of the eight images; image n is from the n-th draw."""
    with tempfile.TemporaryDirectory() as folder:
        method, x, y = trained(name, Path(folder))
        shown = []
        for draw in range(COLUMNS):
            seed_everything(draw, "picture")
            images = pool_images(method, x, y) if part is None else step_images(method, x, y, part)
            shown.append(images[draw].clamp(0, 1).numpy())
        return np.stack(shown)


def pool_images(method: Method, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The images that one step of generation adds to the pool."""
    before = len(method.pool)
    method.generate_step(x, y)
    return method.pool.gather(range(before, before + len(x)))[0]


def step_images(method: Method, x: torch.Tensor, y: torch.Tensor, part: int) -> torch.Tensor:
    """A part of the largest batch that the network gets in one training step."""
    batches: list[torch.Tensor] = []
    plain = type(method.network).features

    def features(images, stage_hook=None):
        batches.append(images.detach())
        return plain(method.network, images, stage_hook)

    method.network.features = features
    method.train_step(x, y)
    del method.network.features
    return max(batches, key=len).split(len(x))[part]


def draw(family: str) -> None:
    """Write one picture: the source, then a row per method."""
    with tempfile.TemporaryDirectory() as folder:
        source = trained("erm", Path(folder))[1].numpy()
    rows = {"source": source}
    for name, part in FAMILIES[family].items():
        rows[name] = made_by(name, part)
    size = (LABEL + COLUMNS * (SIDE + 2), len(rows) * (SIDE + 4))
    sheet = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(sheet)
    for row, (name, images) in enumerate(rows.items()):
        top = row * (SIDE + 4)
        pen.text((4, top + SIDE // 2 - 6), name, fill="black")
        for column, image in enumerate(images):
            if image.shape[1] % 32:  # JiGen enlarges images to 33 pixels
                image = image[:, :32, :32]
            tile = Image.fromarray((255 * image.transpose(1, 2, 0)).round().astype(np.uint8))
            tile = tile.resize((SIDE, SIDE), Image.Resampling.NEAREST)
            sheet.paste(tile, (LABEL + column * (SIDE + 2), top))
    sheet.save(HERE / f"methods-{family}.png", optimize=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or FAMILIES:
        draw(name)
