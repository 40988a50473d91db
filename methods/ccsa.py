"""Classification and contrastive semantic alignment, for a single source."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sdgbench.method import Around, Uniform, param
from sdgbench.methods._pairs import TwoBatches
from sdgbench.registry import register_method


@register_method(
    "ccsa",
    paper="Motiian et al., ICCV 2017",
    skips={"segmentation": "it pairs images by their class, and here each pixel has its own"},
)
class CCSA(TwoBatches):
    """Pull features of one class together, push those of different classes apart (CCSA).

    The paper pairs images across two domains. With a single source, two independent batches of
    it take their place, and one update on both replaces the two with swapped roles.
    """

    @dataclass(frozen=True)
    class Params:
        """Values of the authors' code, which differ from the paper's by factors of 1/2 only."""

        weight: float = param(
            0.25, "share of the alignment loss, 0 to 1; 0: this is ERM", search=Uniform(0.05, 0.95)
        )
        margin: float = param(
            1.0, "distance up to which different classes are pushed apart", search=Around(10)
        )
        negatives: int = param(3, "random pairs of different classes kept per pair of one class")
        normalise: bool = param(False, "align features of length 1; false: as in the code")

        def __post_init__(self) -> None:
            if not 0 <= self.weight <= 1 or self.margin < 0 or self.negatives < 0:
                raise ValueError("ccsa needs weight from 0 to 1, margin and negatives of 0 or more")

    def alignment(self, a: Tensor, y_a: Tensor, b: Tensor, y_b: Tensor) -> Tensor:
        """The mean contrastive loss of the pairs (a_i, b_j) that are kept; 0 if there are none."""
        same = y_a[:, None] == y_b
        # Without the minimum the root would have no gradient where two features are equal.
        d = (a[:, None] - b).square().sum(2).clamp(min=1e-8).sqrt()
        loss = torch.where(same, d.square(), (self.params.margin - d).clamp(min=0).square())
        kept = same | self.draw_negatives(same)
        return (loss * kept).sum() / kept.sum().clamp(min=1)

    def draw_negatives(self, same: Tensor) -> Tensor:
        """Mark random pairs of different classes, ``negatives`` for each pair of one class."""
        # By rank instead of by chosen indices, whose number would have to leave the device.
        drawn = torch.rand(same.shape, device=same.device).masked_fill(same, 2.0)
        rank = drawn.flatten().argsort().argsort().view_as(same)
        negatives: int = self.params.negatives
        return ~same & (rank < negatives * same.sum())
