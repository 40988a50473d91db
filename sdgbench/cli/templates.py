"""The first versions of a method's and of a dataset's file, which already run."""

METHOD = '''"""@NAME@: say here what the method is about."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sdgbench.method import Method, param
from sdgbench.registry import register_method


# Whose idea it is: authors, title, venue and year. `sdgbench info @NAME@` shows it.
# title="My-Idea" sets the display name of LaTeX tables and figures, by default the class's name.
@register_method("@NAME@", paper="")
class @CLASS@(Method):
    """Train on images with noise: replace this by a sentence about your method."""

    @dataclass(frozen=True)
    class Params:
        """What can be set, as in `--set noise=0.2`: each with a type, a default and a line."""

        # A value at which the method becomes ERM lets a test show that nothing else differs.
        noise: float = param(0.1, "standard deviation of the noise on each pixel; 0: plain ERM")

        def __post_init__(self) -> None:
            if self.noise < 0:
                raise ValueError(f"noise must not be below 0, not {self.noise}")

    # Values for single datasets, where they differ from the defaults above:
    # per_dataset = {"digits": {"noise": 0.2}, "digits/quick": {"noise": 0.3}}

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """Learn from one batch of the source: images in [0, 1] and their labels."""
        # Draw random numbers as you like: each step starts freshly seeded.
        if self.params.noise > 0:
            x = x + self.params.noise * torch.randn_like(x)
        # The network and the task are those of the dataset; the loss is a mean cross-entropy
        # over images or pixels. optimise does the backward pass and the step, on schedule.
        return self.optimise(self.task.loss(self.network(x), y))

    # More, where a method needs it (sdgbench/method.py documents all):
    # setup()              makes further networks, optimisers and tensors as attributes of self;
    #                      all of them are saved, but for names with a leading underscore
    # plan()               returns phases: [Phase("warm", 100), Phase("train", self.train_steps)];
    #                      each calls its own step, warm_step(x, y) and train_step(x, y)
    # predict(x)           gives logits, by default self.network(x), and changes nothing
    # inference_modules()  lists what predict uses
'''

DATASET = '''"""@NAME@: say here what the domains are and what makes them differ."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sdgbench.dataset import Dataset, Domain, Recipe, Split, param
from sdgbench.registry import register_dataset
from sdgbench.task import Classification

DOMAINS = ("plain", "dark", "inverted")
IMAGES = 300  # of each domain


# Whose data it is: authors, title, venue and year. `sdgbench info @NAME@` shows it.
@register_dataset("@NAME@", paper="")
class @CLASS@(Dataset):
    """Stripes in three directions, drawn here: replace this by a sentence about your data."""

    # One label per image; sdgbench.task.Segmentation has one per pixel.
    task = Classification(classes=3, names=("across", "down", "diagonal"))
    # Raise it whenever content or protocol changes: records of versions never share a table.
    version = 1

    @dataclass(frozen=True)
    class Options:
        """What can be set, as in `--set source=dark`: each with a type, a default and a line."""

        source: Literal["plain", "dark", "inverted"] = param("plain", "domain to learn from")

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """What all methods share; `reduced` says what is smaller than at `paper`."""
        return {
            "paper": Recipe(network="wrn-16-4", lr=1e-3, steps=2000, batch=64),
            "quick": Recipe(network="wrn-10-1", lr=1e-3, steps=200, reduced="WRN-10-1, 200 steps"),
            "smoke": Recipe(
                network="wrn-10-1",
                lr=1e-3,
                steps=10,
                batch=16,
                test_images=32,
                validations=2,
                reduced="WRN-10-1, 10 steps, 32 test images per domain",
            ),
        }

    @classmethod
    def source_name(cls, options: Any) -> str:
        """The domain that methods learn from."""
        return str(options.source)

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """The unseen domains, in the order of the table; tags may describe them."""
        return {name: {} for name in DOMAINS if name != options.source}

    def source(self, split: Split) -> Domain:
        """The source; "val" is held out and must share no image with "train"."""
        images, labels = _draw(self.options.source)
        rows = slice(0, 250) if split == "train" else slice(250, None)
        return Domain(self.options.source, images[rows], labels[rows])

    def target(self, name: str) -> Domain:
        """An unseen domain; it is opened after training only."""
        return Domain(name, *_draw(name))

    # More, where a dataset needs it (sdgbench/dataset.py documents all):
    # prepare(reporter)  checks or makes the data before training
    # averages(targets)  names groups of targets to average over; the first is the ranked one
    # data_flags()       what a table must state about the data
    # Base classes with more in them: sdgbench.data.generated_dataset.GeneratedDataset caches what
    # is drawn, sdgbench.data.downloaded_dataset.DownloadedDataset fetches and verifies files,
    # sdgbench.data.folder_dataset.FolderDataset reads folders of images.


def _draw(domain: str) -> tuple[np.ndarray, np.ndarray]:
    """Images as uint8 (N, 3, H, W) of the recipe's size, and labels 0, 1, ... as integers."""
    # A fixed seed: the same images every time, or results could not be compared.
    rng = np.random.default_rng(DOMAINS.index(domain))
    labels = np.arange(IMAGES) % 3
    down, across = np.mgrid[:32, :32]
    position = np.stack([down, across, down + across])[labels] + rng.integers(0, 8, (IMAGES, 1, 1))
    stripes = np.where(position // 4 % 2, 200, 50) + rng.normal(0, 20, (IMAGES, 32, 32))
    look = {"plain": stripes, "dark": stripes / 3, "inverted": 255 - stripes}[domain]
    grey = look.clip(0, 255).astype(np.uint8)
    return np.repeat(grey[:, None], 3, axis=1), labels
'''
