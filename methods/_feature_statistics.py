"""Training with changed channel statistics of early feature maps, for MixStyle and DSU."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sdgbench.method import Method, Uniform, param

EPSILON = 1e-6  # added to variances (code of both)


class FeatureStatistics(Method):
    """A method that gives feature maps other means and standard deviations while it trains.

    The network predicts with its own maps.
    """

    @dataclass(frozen=True)
    class Params:
        """When and where the statistics change."""

        probability: float = param(
            0.5,
            "probability that a stage's maps change in a step (code); 0: ERM",
            search=Uniform(0.1, 1.0),
        )
        stages: tuple[int, ...] = param((0, 1), "stages of the network, from 0 (paper: early ones)")

        def __post_init__(self) -> None:
            if not 0 <= self.probability <= 1:
                raise ValueError(f"probability must be from 0 to 1, not {self.probability}")

    def setup(self) -> None:
        """Refuse stages that the network does not have."""
        if self.params.probability:
            self.network.check_stages(self.params.stages)

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """An ordinary step, in which some stages have other statistics."""
        hook = self.change if self.params.probability else None
        return self.optimise(self.task.loss(self.network(x, hook), y))

    def change(self, feature_map: Tensor, stage: int) -> Tensor:
        """Change the maps of a stage, or not; whether is drawn for the whole batch."""
        p = self.params
        if stage not in p.stages or torch.rand(()).item() >= p.probability:
            return feature_map
        with self.device.no_autocast():
            variance, mean = torch.var_mean(feature_map.float(), (2, 3), keepdim=True)
            return self.restyle(feature_map, mean, (variance + EPSILON).sqrt()).to(feature_map)

    def restyle(self, feature_map: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        """The maps with other statistics than these, which are theirs, per image and channel."""
        raise NotImplementedError
