"""Two batches of the single source in place of two domains, for CCSA and d-SNE."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from sdgbench.method import Method, Phase, Read


class TwoBatches(Method):
    """Classify both batches and align one with the other; ``params.weight`` 0 is ERM."""

    def alignment(self, a: Tensor, y_a: Tensor, b: Tensor, y_b: Tensor) -> Tensor:
        """The loss between features of the two batches."""
        raise NotImplementedError

    def setup(self) -> None:
        """Track the mean norm of the features: the losses compare distances with a margin."""
        self.feature_norm = torch.zeros((), device=self.device.torch)

    def plan(self) -> Sequence[Phase]:
        """Two batches per step; one where the weight is 0, as for ERM."""
        reads = (Read(), Read()) if self.params.weight else (Read(),)
        return [Phase("train", self.train_steps, reads)]

    def shardable(self, phase: Phase) -> bool:
        """Only without pairs of images, which need the whole batch."""
        return not self.params.weight

    def train_step(
        self, x: Tensor, y: Tensor, x2: Tensor | None = None, y2: Tensor | None = None
    ) -> Tensor:
        """One update on both batches, in place of two updates with swapped roles."""
        if x2 is None or y2 is None:
            return self.optimise(self.task.loss(self.network(x), y))
        z = self.network.features(torch.cat([x, x2])).float()  # for the distances
        classification = self.task.loss(self.network.head(z), torch.cat([y, y2]))
        norm = z.detach().norm(dim=1).mean()
        self.feature_norm = self.feature_norm.lerp(norm, 0.01 if self.updates else 1.0)
        if self.params.normalise:
            z = F.normalize(z, dim=1)
        alignment = self.alignment(z[: len(x)], y, z[len(x) :], y2)
        weight = self.params.weight
        return self.optimise((1 - weight) * classification + weight * alignment)
