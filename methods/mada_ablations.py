"""The ablations of the M-ADA paper, as methods of their own."""

from dataclasses import dataclass

from sdgbench.method import param
from sdgbench.methods.mada import MADA
from sdgbench.registry import register_method


@register_method(
    "mada-no-relax", title="M-ADA w/o relaxation", paper="Qiao et al., CVPR 2020, ablation"
)
class NoRelaxation(MADA):
    """M-ADA without relaxation: augmented domains stay near the source."""

    @dataclass(frozen=True)
    class Params(MADA.Params):
        """As M-ADA, beta 0."""

        beta: float = param(0.0, "weight of the relaxation")


@register_method(
    "mada-no-const", title="M-ADA w/o constraint", paper="Qiao et al., CVPR 2020, ablation"
)
class NoConstraint(MADA):
    """M-ADA without constraint: augmented images may leave their class."""

    @dataclass(frozen=True)
    class Params(MADA.Params):
        """As M-ADA, alpha 0."""

        alpha: float = param(0.0, "weight of the constraint")


@register_method(
    "mada-no-meta", title="M-ADA w/o meta-learning", paper="Qiao et al., CVPR 2020, ablation"
)
class NoMeta(MADA):
    """M-ADA without meta-learning: both losses at the same weights."""

    @dataclass(frozen=True)
    class Params(MADA.Params):
        """As M-ADA, meta off."""

        meta: bool = param(False, "evaluate augmented batches after an inner step")
