"""The points of ``train.jsonl``: losses of each phase, and scores on held-out source."""

import json
from pathlib import Path
from typing import Any

CURVE_FILE = "train.jsonl"


def read_points(folder: Path) -> list[dict[str, Any]]:
    """All points of a run's curve; a line that was cut off is left out."""
    try:
        text = (folder / CURVE_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    points = []
    for line in text.splitlines():
        try:
            point = json.loads(line)
        except ValueError:
            continue
        if isinstance(point, dict):
            points.append(point)
    return points
