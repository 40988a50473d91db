"""MixStyle: mix the channel statistics of two images' feature maps."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sdgbench.method import Around, param
from sdgbench.methods._feature_statistics import FeatureStatistics
from sdgbench.registry import register_method


@register_method("mixstyle", paper="Zhou et al., Domain Generalization with MixStyle, ICLR 2021")
class MixStyle(FeatureStatistics):
    """Mix mean and standard deviation of early feature maps with those of another image.

    There is one domain, so the other image is any of the batch. probability=0 is ERM.
    """

    @dataclass(frozen=True)
    class Params(FeatureStatistics.Params):
        """Published values (released code)."""

        alpha: float = param(
            0.1, "an image keeps a share from Beta(alpha, alpha) (code)", search=Around(10)
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.alpha <= 0:
                raise ValueError(f"alpha must be above 0, not {self.alpha}")

    def restyle(self, feature_map: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        """Statistics are constants for the gradient, as in the paper."""
        mean, std = mean.detach(), std.detach()
        share, other = (self.device.to_device(drawn) for drawn in self.draw(len(mean)))
        mixed_mean = share * mean + (1 - share) * mean[other]
        mixed_std = share * std + (1 - share) * std[other]
        return (feature_map - mean) * (mixed_std / std) + mixed_mean

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        """The share that each image keeps, and the image that it is mixed with."""
        alpha = self.params.alpha
        shares = torch.distributions.Beta(alpha, alpha).sample((count, 1, 1, 1))
        return shares, torch.randperm(count)
