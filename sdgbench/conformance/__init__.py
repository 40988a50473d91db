"""The rules for methods, as checks that anyone can run on a file of their own.

``sdgbench check FILE`` runs them all. In a test of your own::

    from sdgbench.conformance import MethodHarness, difference, weights

    mixup = MethodHarness("mixup", "digits-mini", tmp_path / "mixup", alpha="0")
    erm = MethodHarness("erm", "digits-mini", tmp_path / "erm")
    assert difference(weights(mixup.uninterrupted), weights(erm.uninterrupted)) is None
"""

from sdgbench.conformance.checks import CHECKS
from sdgbench.conformance.dataset import check_dataset
from sdgbench.conformance.harness import MethodHarness, difference, weights
from sdgbench.conformance.outcome import Check, Failed, Result, Skipped, explain
from sdgbench.conformance.parallel_checks import check_all
from sdgbench.conformance.selection import (
    embedded_datasets,
    representative_datasets,
    skipped_datasets,
)

__all__ = [
    "CHECKS",
    "Check",
    "Failed",
    "MethodHarness",
    "Result",
    "Skipped",
    "check_all",
    "check_dataset",
    "difference",
    "embedded_datasets",
    "explain",
    "representative_datasets",
    "skipped_datasets",
    "weights",
]
