"""d-SNE, domain adaptation by stochastic neighbourhood embedding, for a single source."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sdgbench.method import Around, Uniform, param
from sdgbench.methods._pairs import TwoBatches
from sdgbench.registry import register_method


@register_method(
    "dsne",
    title="d-SNE",
    paper="Xu et al., CVPR 2019",
    skips={"segmentation": "it compares images by their class, and here each pixel has its own"},
)
class DSNE(TwoBatches):
    """Pull the farthest image of the same class closer than the nearest of another (d-SNE).

    The paper compares images across two domains. With a single source, two independent batches
    of it take their place, and one update on both replaces the two with swapped roles.
    """

    @dataclass(frozen=True)
    class Params:
        """Values of the authors' digit experiments."""

        weight: float = param(
            0.25,
            "share of the d-SNE loss, 0 to 1 (their scripts' default: 0.1); 0: this is ERM",
            search=Uniform(0.05, 0.95),
        )
        margin: float = param(
            1.0, "by how much the squared distances should differ", search=Around(10)
        )
        normalise: bool = param(
            False, "compare features of length 1, an option of the code; false: its default"
        )

        def __post_init__(self) -> None:
            if not 0 <= self.weight <= 1 or self.margin < 0:
                raise ValueError("dsne needs a weight from 0 to 1 and a margin of 0 or more")

    def alignment(self, a: Tensor, y_a: Tensor, b: Tensor, y_b: Tensor) -> Tensor:
        """The d-SNE loss with each batch's images as anchors in turn, averaged."""
        distance = (a[:, None] - b).square().sum(2)
        same = y_a[:, None] == y_b
        return (
            self.per_anchor(distance, same).mean() + self.per_anchor(distance.T, same.T).mean()
        ) / 2

    def per_anchor(self, distance: Tensor, same: Tensor) -> Tensor:
        """Each row's hinge loss: its farthest of the same class against its nearest of another."""
        # If none has the same class, the farthest is at 0, as in the code; if none has another,
        # the nearest is the row's largest distance, which leaves the margin and no gradient.
        farthest = (distance * same).amax(1)
        nearest = torch.where(same, distance.amax(1, keepdim=True), distance).amin(1)
        margin: float = self.params.margin
        return (farthest - nearest + margin).clamp(min=0)
