"""The protocol of CIFAR-10-C: 19 corruptions x 5 severities, and the clean test images."""

from collections.abc import Sequence
from typing import Any

from sdgbench.metrics import ALL_19, STANDARD_15

SEVERITIES = (1, 2, 3, 4, 5)
CLEAN = "clean"


class CorruptedTargets:
    """What datasets of this protocol share: names, tags and averages."""

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """Clean images first (severity 0), then each corruption at each severity."""
        tags: dict[str, dict[str, Any]] = {CLEAN: {"corruption": None, "severity": 0}}
        for corruption in ALL_19:
            for severity in SEVERITIES:
                tags[f"{corruption}/{severity}"] = {"corruption": corruption, "severity": severity}
        return tags

    @classmethod
    def averages(cls, targets: Sequence[str]) -> dict[str, list[str]]:
        """The ranked one is the paper's: all 19 corruptions at the highest severity."""
        found = {
            "acc19_L5": [f"{name}/5" for name in ALL_19],
            "acc15_L5": [f"{name}/5" for name in STANDARD_15],
        }
        for severity in SEVERITIES[:-1]:
            found[f"acc19_L{severity}"] = [f"{name}/{severity}" for name in ALL_19]
        found["acc15_all"] = [f"{name}/{s}" for name in STANDARD_15 for s in SEVERITIES]
        found[CLEAN] = [CLEAN]
        known = set(targets)
        return {group: [n for n in names if n in known] for group, names in found.items()}
