"""DSU: domain shifts as uncertain feature statistics."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sdgbench.method import Uniform, param
from sdgbench.methods._feature_statistics import EPSILON, FeatureStatistics
from sdgbench.registry import register_method


@register_method(
    "dsu",
    paper="Li et al., Uncertainty Modeling for Out-of-Distribution Generalization, ICLR 2022",
)
class DSU(FeatureStatistics):
    """Draw mean and standard deviation of early feature maps from normal distributions.

    Their centres are the image's own statistics; their widths, how these differ in the batch.
    probability=0 is ERM.
    """

    @dataclass(frozen=True)
    class Params(FeatureStatistics.Params):
        """Published values (released code)."""

        factor: float = param(
            1.0, "factor of the batch's standard deviations (code)", search=Uniform(0.1, 2.0)
        )

    def restyle(self, feature_map: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        """Noise is independent for each image, each channel and both statistics."""
        new_mean, new_std = (
            own + self.params.factor * torch.randn_like(own) * batch_std(own) for own in (mean, std)
        )
        restyled: Tensor = (feature_map - mean) * (new_std / std) + new_mean
        return restyled


def batch_std(statistics: Tensor) -> Tensor:
    """The standard deviation of each channel over the images; about 0 for a single one."""
    correction = min(1, len(statistics) - 1)
    return torch.var(statistics, 0, keepdim=True, correction=correction).add(EPSILON).sqrt()
