"""Shapes that figures are made of, as polygons; y points downwards."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BODY, SECOND, THIRD, DARK, LIGHT = range(1, 6)  # materials; 0 is the surroundings

Points = np.ndarray  # (n, 2)
ROUND = np.linspace(0, 2 * np.pi, 20, endpoint=False)


@dataclass(frozen=True)
class Part:
    """Shapes of one material that are outlined as one; later parts cover earlier ones."""

    material: int
    shapes: tuple[Points, ...]
    shade: float = 1.0  # below 1: the side that is turned away
    lined: bool = True  # has an outline where a style draws any
    head: bool = False  # belongs to the head, which close views show


def oval(x: float, y: float, width: float, height: float, turn: float = 0.0) -> Points:
    """A closed line round an ellipse."""
    across, along = width * np.cos(ROUND), height * np.sin(ROUND)
    return np.stack(
        [
            x + across * np.cos(turn) - along * np.sin(turn),
            y + across * np.sin(turn) + along * np.cos(turn),
        ],
        axis=1,
    )


def box(left: float, top: float, right: float, bottom: float) -> Points:
    """An upright rectangle."""
    return np.array([(left, top), (right, top), (right, bottom), (left, bottom)], dtype=float)


def polygon(*corners: tuple[float, float]) -> Points:
    """A polygon by its corners."""
    return np.array(corners, dtype=float)


def limb(joints: Sequence[tuple[float, float]], widths: Sequence[float]) -> tuple[Points, ...]:
    """A chain of tapered pieces with round joints; widths are radii."""
    points = np.array(joints, dtype=float)
    shapes = [oval(x, y, r, r) for (x, y), r in zip(points, widths, strict=True)]
    for first, second, start, end in zip(points, points[1:], widths, widths[1:], strict=False):
        along = second - first
        side = np.array([-along[1], along[0]]) / (np.hypot(*along) + 1e-9)
        shapes.append(
            np.stack(
                [
                    first + start * side,
                    second + end * side,
                    second - end * side,
                    first - start * side,
                ]
            )
        )
    return tuple(shapes)


def curve(corners: Sequence[tuple[float, float]], steps: int = 6) -> Points:
    """A smooth closed line through the corners (Catmull-Rom)."""
    p1 = np.array(corners, dtype=float)
    p0, p2, p3 = np.roll(p1, 1, 0), np.roll(p1, -1, 0), np.roll(p1, -2, 0)
    pieces = []
    for t in np.arange(steps) / steps:
        pieces.append(
            0.5
            * (
                2 * p1
                + (p2 - p0) * t
                + (2 * p0 - 5 * p1 + 4 * p2 - p3) * t**2
                + (3 * p1 - p0 - 3 * p2 + p3) * t**3
            )
        )
    return np.stack(pieces, axis=1).reshape(-1, 2)
