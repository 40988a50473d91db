"""Empirical risk minimisation."""

from torch import Tensor

from sdgbench.method import Method
from sdgbench.registry import register_method


@register_method("erm", paper="Vapnik, Statistical Learning Theory, 1998")
class ERM(Method):
    """Minimise the empirical risk on the source; the baseline of every table."""

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """One step on a source batch."""
        return self.optimise(self.task.loss(self.network(x), y))
