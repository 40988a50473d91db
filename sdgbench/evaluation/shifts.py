"""Held-out source under the families of ``spec/shifts.py``: two strengths or sides of each.

The change of an image depends on its position alone, so that all trials of all searches are scored
on the same images.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from sdgbench.evaluation.evaluator import score_domain
from sdgbench.method import Method
from sdgbench.training.feeds import ScoredImages

Change = Callable[[Tensor], Tensor]  # of images in [0, 1]

GREY = 0.5
DARKEST = 0.3


def _posterize(bits: int) -> Change:
    levels = 2**bits
    return lambda x: (x * levels).floor().clamp(max=levels - 1) / (levels - 1)


def _solarize(threshold: float) -> Change:
    return lambda x: torch.where(x > threshold, 1 - x, x)


def _rotate(degrees: float) -> Change:
    return lambda x: _affine(x, degrees, 0.0)


def _shear(amount: float) -> Change:
    return lambda x: _affine(x, 0.0, float(np.degrees(np.arctan(amount))))


def _affine(x: Tensor, angle: float, shear: float) -> Tensor:
    from torchvision.transforms.v2 import functional as vision  # slow to import, for trials alone

    moved: Tensor = vision.affine(
        x,
        angle=angle,
        translate=[0, 0],
        scale=1.0,
        shear=[shear, 0.0],
        interpolation=vision.InterpolationMode.BILINEAR,
    )
    return moved


def _hue(turn: float) -> Change:
    def adjust(x: Tensor) -> Tensor:
        from torchvision.transforms.v2 import functional as vision

        turned: Tensor = vision.adjust_hue(x, turn)
        return turned

    return adjust


def _shading(dim: int) -> Change:
    def shade(x: Tensor) -> Tensor:
        light = torch.linspace(1.0, DARKEST, x.shape[dim], device=x.device)
        return x * (light[:, None] if dim == 2 else light)

    return shade


def _occlusion(row: int, column: int) -> Change:
    def cover(x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        size = max(1, min(height, width) // 3)
        top, left = ((2 * k + 1) * side // 4 for k, side in ((row, height), (column, width)))
        covered = x.clone()
        covered[
            :,
            :,
            max(0, top - size // 2) : top - size // 2 + size,
            max(0, left - size // 2) : left - size // 2 + size,
        ] = GREY
        return covered

    return cover


def _stripes(dim: int) -> Change:
    def stripe(x: Tensor) -> Tensor:
        striped = x.clone()
        striped.movedim(dim, 0)[::4] = 0.0
        return striped

    return stripe


def _wave(sign: int) -> Change:
    """Rows move by up to a tenth of the width, in two waves; borders are repeated."""

    def bend(x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        across = torch.linspace(-1, 1, width, device=x.device).expand(height, width)
        down = torch.linspace(-1, 1, height, device=x.device)[:, None].expand(height, width)
        moved = across + sign * 0.2 * torch.sin(2 * torch.pi * down)
        grid = torch.stack([moved, down], -1).expand(len(x), height, width, 2)
        return F.grid_sample(x, grid.to(x.dtype), padding_mode="border", align_corners=True)

    return bend


CHANGES: dict[str, tuple[Change, ...]] = {
    "channels": (lambda x: x[:, [1, 2, 0]], lambda x: x[:, [2, 1, 0]]),
    "hue": (_hue(1 / 6), _hue(-1 / 6)),
    "invert": (lambda x: 1 - x,),
    "posterize": (_posterize(2), _posterize(3)),
    "solarize": (_solarize(1 / 2), _solarize(1 / 3)),
    "rotate": (_rotate(20.0), _rotate(-20.0)),
    "shear": (_shear(0.3), _shear(-0.3)),
    "shading": (_shading(2), _shading(3)),
    "occlusion": tuple(_occlusion(row, column) for row in (0, 1) for column in (0, 1)),
    "stripes": (_stripes(2), _stripes(3)),
    "wave": (_wave(1), _wave(-1)),
}


class ShiftedImages:
    """A domain whose images are changed by a family as they are read, for evaluation alone."""

    def __init__(self, images: ScoredImages, family: str) -> None:
        self.plain, self.device, self.changes = images, images.device, CHANGES[family]

    def __len__(self) -> int:
        return len(self.plain)

    def span(self, start: int, stop: int) -> Tensor:
        """Images ``start`` to ``stop`` in [0, 1]; the changes take turns."""
        x = self.plain.span(start, stop)
        changed = torch.empty_like(x)
        for number, change in enumerate(self.changes):
            first = (number - start) % len(self.changes)
            changed[first :: len(self.changes)] = change(x[first :: len(self.changes)])
        return changed.clamp_(0, 1)

    def truth(self, start: int, stop: int) -> np.ndarray:
        """Labels ``start`` to ``stop``."""
        return self.plain.truth(start, stop)


def score_families(
    method: Method, images: ScoredImages, batch: int, families: Iterable[str]
) -> dict[str, float]:
    """The task's score on a domain under each family."""
    scores = {}
    for family in families:
        shifted = ShiftedImages(images, family)
        result, _ = score_domain(method, shifted, batch, f"held-out source ({family})")
        scores[family] = result.score(method.task.metric)
    return scores
