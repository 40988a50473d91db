"""JiGen: domain generalization by solving jigsaw puzzles."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sdgbench.method import Method, Phase, Uniform, param
from sdgbench.methods._permutations import PERMUTATIONS
from sdgbench.registry import register_method

GRID = 3  # tiles per side
LUMA = (0.299, 0.587, 0.114)


@register_method(
    "jigen",
    paper="Carlucci et al., CVPR 2019",
    skips={"segmentation": "it predicts the order of tiles from one feature vector per image"},
)
class JiGen(Method):
    """Predict the order of an image's shuffled tiles in addition to its class (JiGen).

    Images are resized to the next multiple of three, in training and in prediction alike, since
    tiles of different sizes could not be exchanged.
    """

    @dataclass(frozen=True)
    class Params:
        """The published commands have weight 0.9 with bias 0.7, and weight 0.7 with bias 0.9."""

        weight: float = param(
            0.7,
            "weight of the jigsaw loss; 0: this is ERM, nothing is resized or shuffled",
            search=Uniform(0.1, 1.5),
        )
        bias: float = param(
            0.6, "probability that an image is not shuffled", search=Uniform(0.3, 0.95)
        )
        classify: Literal["ordered", "all"] = param(
            "ordered", "images in the class loss: ordered (paper) or all (code)"
        )
        grey: float = param(0.0, "probability that a tile turns grey (code: 0.1)")

        def __post_init__(self) -> None:
            if self.weight < 0 or not 0 <= self.bias <= 1 or not 0 <= self.grey <= 1:
                raise ValueError("jigen needs weight of 0 or more, bias and grey from 0 to 1")

    def setup(self) -> None:
        """Add a second linear head on the features, one class per order of the tiles."""
        if not self.params.weight:
            return
        device = self.device.torch
        orders = [tuple(range(GRID * GRID)), *PERMUTATIONS]
        self._orders = torch.tensor(orders, device=device)
        blank = to_grid(torch.zeros(1, 3, *self.recipe.image_size, device=device))
        self.network.eval()
        with torch.no_grad():  # the embedding alone, so that no image is counted
            width = self.network.embed(blank).shape[1]
        self.network.train()
        self.jigsaw_head = nn.Linear(width, len(orders)).to(device)
        self.optimizer.add_param_group({"params": self.jigsaw_head.parameters()})

    def shardable(self, phase: Phase) -> bool:
        """Only as ERM: the class loss is a mean over a random part of the batch."""
        return not self.params.weight

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """Shuffle some of the images, then predict class and order."""
        if not self.params.weight:
            return self.optimise(self.task.loss(self.network(x), y))
        order = self.draw_orders(len(x))
        tiles = self.make_grey(cut(to_grid(x)))
        z = self.network.features(join(rearrange(tiles, self._orders[order])))
        included = order == 0 if self.params.classify == "ordered" else torch.ones_like(order)
        losses = self.task.loss_per_image(self.network.head(z), y)
        classification = (losses * included).sum() / included.sum().clamp(min=1)
        jigsaw = F.cross_entropy(self.jigsaw_head(z), order)
        return self.optimise(classification + self.params.weight * jigsaw)

    def predict(self, x: Tensor) -> Tensor:
        """Logits of the image in its right order, at the size of training."""
        logits: Tensor = self.network(to_grid(x) if self.params.weight else x)
        return logits

    def draw_orders(self, count: int) -> Tensor:
        """A random order per image; 0, the right one, has P = bias + (1 - bias) / 31."""
        device = self._orders.device
        drawn = torch.randint(len(self._orders), (count,), device=device)
        return drawn.masked_fill(torch.rand(count, device=device) < self.params.bias, 0)

    def make_grey(self, tiles: Tensor) -> Tensor:
        """Turn random tiles grey, each independently."""
        if not self.params.grey:
            return tiles
        luma = torch.tensor(LUMA, device=tiles.device).view(3, 1, 1)
        chosen = torch.rand(*tiles.shape[:2], 1, 1, 1, device=tiles.device) < self.params.grey
        return torch.where(chosen, (tiles * luma).sum(2, keepdim=True), tiles)


def to_grid(images: Tensor) -> Tensor:
    """Resize to the next multiple of the grid."""
    size = [side + -side % GRID for side in images.shape[2:]]
    return F.interpolate(images, size, mode="bilinear", align_corners=False)


def cut(images: Tensor) -> Tensor:
    """Turn (N, C, H, W) into tiles (N, tile, C, h, w), row by row."""
    count, channels, height, width = images.shape
    parts = images.reshape(count, channels, GRID, height // GRID, GRID, width // GRID)
    return parts.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)


def rearrange(tiles: Tensor, orders: Tensor) -> Tensor:
    """Put tile ``orders[n, i]`` of image n at position i."""
    return tiles[torch.arange(len(tiles), device=tiles.device)[:, None], orders]


def join(tiles: Tensor) -> Tensor:
    """Undo ``cut``."""
    grid: Tensor = tiles.unflatten(1, (GRID, GRID)).permute(0, 3, 1, 4, 2, 5)
    return grid.flatten(4, 5).flatten(2, 3)
