"""Empirical risk minimisation."""

from torch import Tensor

from sdgbench.method import Method, Phase
from sdgbench.registry import register_method


@register_method("erm", paper="Vapnik, Statistical Learning Theory, 1998")
class ERM(Method):
    """Minimise the empirical risk on the source; the baseline of every table."""

    def shardable(self, phase: Phase) -> bool:
        """The loss is a mean over the images."""
        return True

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """One step on a source batch."""
        return self.optimise(self.task.loss(self.network(x), y))
