"""The points of ``train.jsonl``: losses of each phase, and scores on held-out source."""

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sdgbench.storage import open_regular, read_bytes

CURVE_FILE = "train.jsonl"
MOST_BYTES = 2**18  # that are read at a time
_CHECKED_BYTES = 128  # before a position, by which a file is known to be the same


def read_points(folder: Path) -> list[dict[str, Any]]:
    """All points of a run's curve; a line that is cut off or damaged is left out."""
    try:
        data = read_bytes(folder / CURVE_FILE)
    except OSError:  # such as a pipe in its place
        return []
    return _points(data.decode(errors="replace").splitlines())


@dataclass(frozen=True)
class NewPoints:
    """What a curve has got since a position, and the position to go on from."""

    points: list[dict[str, Any]] = field(default_factory=list)
    offset: int = 0  # in bytes
    check: str = ""  # of what is before the offset
    from_start: bool = True  # the file is not the one that was read before, or was never read
    is_more: bool = False  # ask again at once


def read_new_points(folder: Path, offset: int = 0, check: str = "") -> NewPoints:
    """The whole lines after a position, at most ``MOST_BYTES`` of them.

    A run that resumes cuts its curve and writes that part again: then the bytes before the
    position differ, and reading starts from the beginning.
    """
    try:
        with open_regular(folder / CURVE_FILE) as file:

            def check_before(position: int) -> str:
                start = max(0, position - _CHECKED_BYTES)
                file.seek(start)
                return f"{zlib.crc32(file.read(position - start)):08x}"

            same = 0 < offset <= file.seek(0, 2) and check_before(offset) == check
            offset = offset if same else 0
            file.seek(offset)
            data = file.read(MOST_BYTES)
            full = len(data) == MOST_BYTES
            end = data.rfind(b"\n") + 1
            if not end and full:  # no line is that long: skip the damage
                end = len(data)
            lines = data[:end].decode(errors="replace").splitlines()
            offset += end
            return NewPoints(_points(lines), offset, check_before(offset), not same, full)
    except OSError:  # not there yet, or not any more
        return NewPoints()


def _points(lines: Iterable[str]) -> list[dict[str, Any]]:
    points = []
    for line in lines:
        try:
            point = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(point, dict):
            points.append(point)
    return points
