"""The protocol of CIFAR-10-C: 19 corruptions x 5 severities, and the clean test images."""

from collections.abc import Sequence
from typing import Any

from sdgbench.corruptions.names import ALL_19, SEVERITIES, STANDARD_15

CLEAN = "clean"


class CorruptedTargets:
    """Base of the datasets that follow this protocol: target names, tags and averages."""

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
        """Means over corruptions; the first, ranked one is the paper's: all 19 at severity 5."""
        groups = {
            "acc19_L5": [f"{name}/5" for name in ALL_19],
            "acc15_L5": [f"{name}/5" for name in STANDARD_15],
        }
        for severity in SEVERITIES[:-1]:
            groups[f"acc19_L{severity}"] = [f"{name}/{severity}" for name in ALL_19]
        groups["acc15_all"] = [f"{name}/{s}" for name in STANDARD_15 for s in SEVERITIES]
        groups[CLEAN] = [CLEAN]
        known = set(targets)
        return {group: [n for n in names if n in known] for group, names in groups.items()}
