"""Draws the README's pictures from the program itself: ``python docs/pictures.py [NAME ...]``."""

import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from rich import _export_format
from rich.console import Console
from rich.text import Text

from sdgbench import registry
from sdgbench.corruptions.generator import corrupt
from sdgbench.corruptions.names import ALL_19
from sdgbench.datasets import _scenes as scenes
from sdgbench.launch.progress import LineReporter
from sdgbench.spec import parameters
from sdgbench.spec.resolution import resolve
from sdgbench.training.build_method import build_method
from sdgbench.training.device import Device
from sdgbench.training.trainer import Trainer

HERE = Path(__file__).parent
METHODS = "erm,jigen,gud,me-ada,mada,trivialaugment,randconv"  # of the table in the picture


def compare() -> None:
    """What ``sdgbench compare`` prints in a terminal of 100 columns, without outside fonts."""
    console = Console(record=True, width=100, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "100", "TERM": "xterm-256color"}
    folder = "leaderboards/records"
    arguments = ["sdgbench", "compare", "--runs", folder, "--dataset", "digits-mini"]
    arguments += ["--methods", METHODS]
    console.print(Text.assemble(("$ ", "green"), (" ".join(arguments), "bold")))
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        cwd=HERE.parent,
    )
    console.print(Text.from_ansi(done.stdout))
    template = re.sub(r"@font-face \{\{.*?\}\}", "", _export_format.CONSOLE_SVG_FORMAT, flags=re.S)
    template = template.replace("Fira Code, monospace", "monospace")
    console.save_svg(str(HERE / "compare.svg"), title="sdgbench", code_format=template)


def dataset(name: str, preset: str = "paper"):
    """A dataset with its defaults, prepared."""
    cls = registry.get("dataset", name).load()
    root = Path(os.environ.get("SDGBENCH_DATA", "data"))
    dataset = cls(root, parameters.build(cls.Options, {}), cls.recipe(preset))
    dataset.prepare()
    return dataset


def digits() -> None:
    """A row per domain, ten classes, two of each: the source first."""
    mini = dataset("digits-mini")
    rows = []
    for domain in (mini.source("train"), *map(mini.target, mini.target_tags(None))):
        chosen = [np.flatnonzero(domain.labels == c)[k] for c in range(10) for k in (3, 7)]
        rows.append(np.concatenate(domain.images[chosen], axis=2).transpose(1, 2, 0))
    sheet = Image.fromarray(np.concatenate(rows))
    sheet.resize((sheet.width * 3 // 2, sheet.height * 3 // 2), Image.Resampling.LANCZOS).save(
        HERE / "digits-mini.png", optimize=True
    )


def augmented() -> None:
    """Ten digits of the source, of each domain that M-ADA makes, and of each unseen one."""
    mini, spec = dataset("digits-mini"), resolve("mada", "digits-mini", "quick", 0)
    source, columns = mini.source("train"), 24
    with tempfile.TemporaryDirectory() as folder:
        run_folder = Path(folder)
        method = build_method(spec, mini, Device("cpu"), source, run_folder / "pool")
        Trainer(
            method, source, mini.source("val"), run_folder, spec.id, LineReporter(Console(), "mada")
        ).run()
        rows = [("source", source.images[:columns] / 255.0)]
        newest = [phase.reads[0].only for phase in method.plan() if phase.name == "wae"][1:]
        starts = [0, *(ranges[0][1] for ranges in newest), len(method.pool)]
        for k, (start, stop) in enumerate(itertools.pairwise(starts), 1):
            chosen = np.linspace(start, stop - 1, columns).astype(int)
            rows.append((f"S+{k}", method.pool.gather(chosen)[0].numpy().clip(0, 1)))
    for name in mini.target_tags(None):
        rows.append((name, mini.target(name).images[:columns] / 255.0))
    side, label = 40, 64
    sheet = Image.new("RGB", (label + columns * side, len(rows) * (side + 4)), "white")
    pen = ImageDraw.Draw(sheet)
    for row, (name, images) in enumerate(rows):
        top = row * (side + 4)
        pen.text((4, top + 14), name, fill="black")
        for column, image in enumerate(images):
            tile = Image.fromarray((255 * image.transpose(1, 2, 0)).astype(np.uint8))
            sheet.paste(tile.resize((side, side)), (label + column * side, top))
    sheet.save(HERE / "augmented.png", optimize=True)


def streets() -> None:
    """Locations as rows, conditions as columns; the last row is one row's truth."""
    rows = []
    for location in scenes.LOCATIONS:
        drawn = [scenes.render(location, c, 1, (128, 212)) for c in scenes.CONDITIONS]
        rows.append(np.concatenate([image for image, _ in drawn], axis=1))
    palette = np.array(scenes.PALETTE, np.uint8)
    rows.append(np.concatenate([palette[labels] for _, labels in drawn], axis=1))
    Image.fromarray(np.concatenate(rows)).save(HERE / "streets-mini.jpg", quality=85)


def styles() -> None:
    """Styles as rows, two figures of each class as columns."""
    mini = dataset("styles-mini", "paper")
    domains = [mini.source("train"), *map(mini.target, mini.target_tags(mini.options))]
    rows = []
    for domain in domains:
        chosen = [np.flatnonzero(domain.labels == label)[:2] for label in range(7)]
        images = domain.images[np.concatenate(chosen)].transpose(0, 2, 3, 1)
        rows.append(np.concatenate(list(images), axis=1))
    Image.fromarray(np.concatenate(rows)).save(HERE / "styles-mini.png", optimize=True)


def corruptions() -> None:
    """A row per corruption, five severities of three images."""
    clean = dataset("shapes10c", "smoke").target("clean").images.transpose(0, 2, 3, 1)
    small = np.ascontiguousarray(clean[[3, 11, 24]])
    label = 130
    sheet = Image.new("RGB", (label + 15 * 66 + 24, 19 * 68), "white")
    pen = ImageDraw.Draw(sheet)
    for row, name in enumerate(ALL_19):
        pen.text((4, row * 68 + 26), name, fill="black")
        for column in range(15):
            image, severity = divmod(column, 5)
            damaged = corrupt(small, name, severity + 1)[image]
            tile = Image.fromarray(damaged).resize((64, 64), Image.Resampling.NEAREST)
            sheet.paste(tile, (label + column * 66 + 8 * image, row * 68 + 2))
    sheet.save(HERE / "corruptions.png", optimize=True)


if __name__ == "__main__":
    pictures = {
        draw.__name__: draw for draw in (digits, augmented, streets, styles, corruptions, compare)
    }
    for name in sys.argv[1:] or pictures:
        pictures[name]()
