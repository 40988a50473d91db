"""The rules that every method keeps, as checks that anyone can run on a file of their own.

``sdgbench check FILE`` runs them all. In a test of your own::

    from sdgbench.conformance import World, difference, weights

    mixup = World("mixup", "digits-mini", tmp_path / "mixup", alpha="0")
    erm = World("erm", "digits-mini", tmp_path / "erm")
    assert difference(weights(mixup.undisturbed), weights(erm.undisturbed)) is None
"""

from sdgbench.conformance.checks import CHECKS
from sdgbench.conformance.outcome import Check, Failed, Result, Skipped
from sdgbench.conformance.together import examine_all
from sdgbench.conformance.world import World, difference, weights

__all__ = [
    "CHECKS",
    "Check",
    "Failed",
    "Result",
    "Skipped",
    "World",
    "difference",
    "examine_all",
    "weights",
]
