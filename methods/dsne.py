"""d-SNE, domain adaptation by stochastic neighbourhood embedding, for a single source."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from sdgbench.method import Method, Phase, Read
from sdgbench.registry import register_method
from sdgbench.settings import param


@register_method(
    "dsne",
    paper="Xu et al., CVPR 2019",
    skips={"segmentation": "it compares images by their class, and here each pixel has its own"},
)
class DSNE(Method):
    """Bring the farthest image of one's class nearer than the nearest of another (d-SNE).

    The paper compares images across two domains. With a single source, two independent batches
    of it take their place, and one update on both replaces the two with swapped roles.
    """

    @dataclass(frozen=True)
    class Params:
        """Those of the authors' digit experiments."""

        weight: float = param(
            0.25, "share of the d-SNE loss, 0 to 1 (their scripts' default: 0.1); 0: this is ERM"
        )
        margin: float = param(1.0, "by how much the squared distances should differ")
        normalise: bool = param(
            False, "compare features of length 1, an option of the code; false: its default"
        )

        def __post_init__(self) -> None:
            if not 0 <= self.weight <= 1 or self.margin < 0:
                raise ValueError("dsne needs a weight from 0 to 1 and a margin of 0 or more")

    def setup(self) -> None:
        """Follow the features' length, by which the loss grows as a square."""
        self.feature_norm = torch.zeros((), device=self.device.torch)

    def plan(self) -> Sequence[Phase]:
        """Two batches per step, or ERM's one."""
        reads = (Read(), Read()) if self.params.weight else (Read(),)
        return [Phase("train", self.train_steps, reads)]

    def train_step(
        self, x: Tensor, y: Tensor, x2: Tensor | None = None, y2: Tensor | None = None
    ) -> Tensor:
        """Classify both batches, compare one with the other."""
        if x2 is None or y2 is None:
            return self.optimise(self.task.loss(self.network(x), y))
        z = self.network.features(torch.cat([x, x2]))
        classification = self.task.loss(self.network.head(z), torch.cat([y, y2]))
        norm = z.detach().norm(dim=1).mean()
        self.feature_norm = self.feature_norm.lerp(norm, 0.01 if self.updates else 1.0)
        if self.params.normalise:
            z = F.normalize(z, dim=1)
        separation = self.separation(z[: len(x)], y, z[len(x) :], y2)
        weight = self.params.weight
        return self.optimise((1 - weight) * classification + weight * separation)

    def separation(self, a: Tensor, y_a: Tensor, b: Tensor, y_b: Tensor) -> Tensor:
        """The d-SNE loss with each batch's images as anchors in turn, averaged."""
        distance = (a[:, None] - b).square().sum(2)
        same = y_a[:, None] == y_b
        return (
            self.per_anchor(distance, same).mean() + self.per_anchor(distance.T, same.T).mean()
        ) / 2

    def per_anchor(self, distance: Tensor, same: Tensor) -> Tensor:
        """Each row's hinge loss: its farthest of one class against its nearest of the others."""
        # Without one of its class the farthest is at 0, as in the code; without one of another
        # the nearest is the row's largest distance, which leaves the margin and no gradient.
        farthest = (distance * same).amax(1)
        nearest = torch.where(same, distance.amax(1, keepdim=True), distance).amin(1)
        return (farthest - nearest + self.params.margin).clamp(min=0)
