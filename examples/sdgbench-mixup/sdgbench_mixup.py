"""MixUp: train on mixtures of two images and of their losses."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sdgbench.method import Method, param
from sdgbench.registry import register_method


@register_method(
    "mixup", paper="Zhang et al., mixup: Beyond Empirical Risk Minimization, ICLR 2018"
)
class MixUp(Method):
    """Mix each batch with a shuffled copy of itself, images and losses alike."""

    @dataclass(frozen=True)
    class Params:
        """The strength of the mixing."""

        alpha: float = param(1.0, "shares are drawn from Beta(alpha, alpha); 0: plain ERM")

        def __post_init__(self) -> None:
            if self.alpha < 0:
                raise ValueError(f"alpha must not be below 0, not {self.alpha}")

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """One step on a mixed source batch; all its images are mixed by the same share."""
        alpha = self.params.alpha
        if alpha == 0:
            return self.optimise(self.task.loss(self.network(x), y))
        share = torch.distributions.Beta(alpha, alpha).sample().item()
        other = self.device.to_device(torch.randperm(len(x)))
        return self.optimise(self.mixed_loss(x, y, share, other))

    def mixed_loss(self, x: Tensor, y: Tensor, share: float, other: Tensor) -> Tensor:
        """Mix the losses instead of the labels, which is the same for a cross-entropy."""
        logits = self.network(share * x + (1 - share) * x[other])
        loss, other_loss = self.task.loss(logits, y), self.task.loss(logits, y[other])
        return share * loss + (1 - share) * other_loss
