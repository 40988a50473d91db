"""Figures of the seven classes of PACS: polygons by part, in many builds, poses and views.

Coordinates are about -1..1, y points downwards, and everything faces left before it is placed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from sdgbench.datasets._styles.shapes import (
    BODY,
    DARK,
    LIGHT,
    SECOND,
    THIRD,
    Part,
    Points,
    box,
    curve,
    limb,
    oval,
    polygon,
)

CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")


@dataclass(frozen=True)
class _Animal:
    """Proportions of an animal with four legs; lengths in units of half its body."""

    girth: tuple[float, float]  # radii of chest and hips
    legs: float
    leg: tuple[float, float]  # radii at the top and at the foot
    neck: tuple[float, float]  # where the head is, seen from the shoulder
    neck_width: tuple[float, float]
    head: tuple[float, float]  # length and radius
    muzzle: float  # radius
    droop: float  # of the head, in radians below the horizontal
    slope: float = 0.0  # of the back, down towards the hips


def _four_legs(
    build: _Animal, toon: float, rng: Generator
) -> tuple[list[Part], tuple[float, float], tuple[float, float], float]:
    """Legs, body, neck and head, and the places of skull and muzzle and the size of the head."""
    stride = rng.uniform(0, 0.35)
    low = build.legs * (1 - 0.3 * toon)
    shoulder, hip = (-0.75, -build.slope / 2), (0.75, build.slope / 2)
    drop = max(build.girth) * 0.6
    parts = []
    for near, shade in ((0, 0.75), (1, 1.0)):
        legs: list[Points] = []
        for place, bend in ((shoulder, -1), (hip, 1)):
            swing = stride * (1 if near else -1) * bend + rng.normal(0, 0.04)
            top = (place[0] + 0.12 * (near - 0.5), place[1] + drop)
            knee = (top[0] + 0.5 * swing + 0.05 * bend, top[1] + low * 0.5)
            foot = (top[0] + swing, top[1] + low)
            middle = 0.55 * build.leg[0] + 0.45 * build.leg[1]
            widths = (build.leg[0], middle, build.leg[1])
            legs += limb((top, knee, foot), widths)
            legs.append(oval(foot[0] - 0.04, foot[1], build.leg[1] * 1.25, build.leg[1] * 0.8))
        parts.append(Part(BODY, tuple(legs), shade))
    middle = sum(build.girth) / 2 * rng.uniform(0.88, 1.05)
    trunk = limb((shoulder, (0, 0.03), hip), (build.girth[0], middle, build.girth[1]))
    size = 1 + 0.5 * toon
    lift = rng.normal(0, 0.12)
    reach = np.array(build.neck) @ [[np.cos(lift), np.sin(lift)], [-np.sin(lift), np.cos(lift)]]
    base = (shoulder[0] - 0.1, shoulder[1] - build.girth[0] * 0.35)
    skull = (base[0] + float(reach[0]), base[1] + float(reach[1]))
    between = ((base[0] + skull[0]) / 2 + 0.05, (base[1] + skull[1]) / 2)
    wide, thin = build.neck_width
    neck = limb((base, between, skull), (wide, (wide + thin) / 2, thin))
    droop = build.droop + rng.normal(0, 0.15)
    length, radius = build.head[0] * size, build.head[1] * size
    nose = (skull[0] - length * np.cos(droop), skull[1] + length * np.sin(droop))
    face = limb((skull, nose), (radius, build.muzzle * size))
    parts[-1] = Part(BODY, (*parts[-1].shapes, *trunk, *neck))
    parts.append(Part(BODY, (*face, oval(*skull, thin * 0.9, thin * 0.9)), 1.0, head=True))
    return parts, skull, (float(nose[0]), float(nose[1])), radius


def _eye(x: float, y: float, radius: float, toon: float) -> list[Part]:
    if toon:
        white = Part(LIGHT, (oval(x, y, radius * 0.5, radius * 0.6),), head=True)
        return [white, Part(DARK, (oval(x - radius * 0.12, y, radius * 0.22, radius * 0.3),))]
    return [Part(DARK, (oval(x, y, radius * 0.2, radius * 0.2),), lined=False)]


def _dog(toon: float, rng: Generator) -> list[Part]:
    a, b, c = rng.random(3)
    build = _Animal(
        girth=(0.36 + 0.1 * a, 0.28 + 0.08 * a),
        legs=0.55 + 0.45 * b,
        leg=(0.17, 0.085 + 0.03 * a),
        neck=(-0.35, -0.5 - 0.1 * b),
        neck_width=(0.27, 0.2),
        head=(0.42 + 0.12 * c, 0.26),
        muzzle=0.13 + 0.03 * a,
        droop=0.15,
    )
    parts, skull, nose, size = _four_legs(build, toon, rng)
    curl = rng.uniform(-0.3, 0.5)
    tail = limb(((0.95, -0.1), (1.25, -0.4), (1.25 + curl, -0.85)), (0.1, 0.08, 0.05))
    x, y = skull
    if rng.random() < 0.6:  # hanging ears
        ear = curve([(x + 0.02, y - size), (x + 0.3, y - size * 0.5), (x + 0.32, y + size * 1.1),
                      (x + 0.14, y + size * 1.2), (x + 0.02, y)])  # fmt: skip
    else:
        ear = polygon((x - 0.1, y - size * 0.7), (x + 0.1, y - size * 2), (x + 0.24, y - 0.1))
    return [
        Part(BODY, tail, 0.9),
        *parts,
        Part(SECOND, (ear,), head=True),
        Part(DARK, (oval(nose[0] - build.muzzle * 0.7, nose[1] - 0.05, 0.09, 0.07),)),
        *_eye(x - size * 0.55, y - size * 0.25, size, toon),
    ]


def _elephant(toon: float, rng: Generator) -> list[Part]:
    a, b, c = rng.random(3)
    build = _Animal(
        girth=(0.62 + 0.06 * a, 0.6 + 0.08 * b),
        legs=0.75 + 0.15 * b,
        leg=(0.25, 0.19),
        neck=(-0.45, -0.15 - 0.1 * c),
        neck_width=(0.42, 0.34),
        head=(0.24, 0.38),
        muzzle=0.22,
        droop=0.7,
    )
    parts, skull, nose, size = _four_legs(build, toon, rng)
    x, y = nose
    lift = rng.uniform(-0.9, 0.25)
    end = (x - 0.35 - 0.3 * a, y + 0.65 + lift)
    trunk = limb(
        ((x, y), (x - 0.16, y + 0.4), (x - 0.2 - 0.1 * a, y + 0.75 + lift / 3), end),
        (0.22, 0.16, 0.12, 0.08),
    )
    flap = 0.38 + 0.14 * c
    ear = curve([
        (skull[0] + 0.05, skull[1] - flap), (skull[0] + flap, skull[1] - flap * 0.9),
        (skull[0] + flap * 1.25, skull[1] + 0.1), (skull[0] + flap * 0.7, skull[1] + flap * 1.1),
        (skull[0] + 0.1, skull[1] + flap * 0.6)])  # fmt: skip
    tusk = polygon((x - 0.02, y + 0.1), (x - 0.42, y + 0.34), (x - 0.02, y + 0.2))
    tail = limb(((1.3, -0.1), (1.42, 0.3), (1.4, 0.6)), (0.05, 0.04, 0.06))
    tusks = [Part(LIGHT, (tusk,), head=True)] if rng.random() < 0.6 else []
    return [
        Part(BODY, tail, 0.8),
        *parts,
        Part(BODY, trunk, head=True),
        *tusks,
        Part(SECOND, (ear,), 0.92, head=True),
        *_eye(skull[0] - size * 0.6, skull[1] - size * 0.1, size * 0.7, toon),
    ]


def _giraffe(toon: float, rng: Generator) -> list[Part]:
    a, b, c = rng.random(3)
    build = _Animal(
        girth=(0.38 + 0.05 * a, 0.28),
        legs=1.25 + 0.2 * b,
        leg=(0.15, 0.07),
        neck=(-0.45 - 0.35 * c, -1.45 - 0.25 * a),
        neck_width=(0.26, 0.12),
        head=(0.38, 0.15),
        muzzle=0.09,
        droop=0.5,
        slope=0.22,
    )
    parts, skull, _, size = _four_legs(build, toon, rng)
    x, y = skull
    horns = (
        *limb(((x - 0.03, y - size), (x - 0.04, y - size - 0.16)), (0.025, 0.05)),
        *limb(((x + 0.08, y - size), (x + 0.1, y - size - 0.16)), (0.025, 0.05)),
    )
    ear = oval(x + 0.2, y - size * 0.5, 0.14, 0.06, -0.4)
    tail = limb(((1.0, 0.1), (1.12, 0.5), (1.1, 0.85)), (0.04, 0.03, 0.06))
    return [
        Part(BODY, tail, 0.8),
        Part(DARK, horns, head=True),
        *parts,
        Part(BODY, (ear,), 0.9, head=True),
        *_eye(x - size * 0.4, y - size * 0.1, size * 1.2, toon),
    ]


def _horse(toon: float, rng: Generator) -> list[Part]:
    a, b, c = rng.random(3)
    build = _Animal(
        girth=(0.42 + 0.05 * a, 0.38 + 0.05 * a),
        legs=0.95 + 0.2 * b,
        leg=(0.18, 0.075),
        neck=(-0.55 - 0.15 * c, -0.75 + 0.3 * c),
        neck_width=(0.34, 0.19),
        head=(0.55, 0.19),
        muzzle=0.12,
        droop=0.75,
    )
    parts, skull, _, size = _four_legs(build, toon, rng)
    x, y = skull
    mane = curve([
        (x - 0.1, y - size * 1.2), (x + 0.18, y - size * 0.9), (x + 0.42, y + 0.3),
        (x + 0.5 + 0.1 * b, y + 0.62), (x + 0.3, y + 0.5), (x + 0.12, y + 0.1)])  # fmt: skip
    ear = polygon((x - 0.06, y - size * 0.7), (x + 0.02, y - size * 2.1), (x + 0.13, y - 0.08))
    flow = 0.2 + 0.5 * c
    tail = curve([
        (1.0, -0.3), (1.25 + 0.3 * flow, -0.1), (1.3 + flow * 0.6, 0.9), (1.1 + flow * 0.5, 0.8),
        (1.02, 0.1)])  # fmt: skip
    return [
        Part(SECOND, (tail,)),
        *parts,
        Part(SECOND, (mane,), head=True),
        Part(BODY, (ear,), 0.9, head=True),
        *_eye(x - size * 0.7, y + size * 0.1, size, toon),
    ]


def _guitar(toon: float, rng: Generator) -> list[Part]:
    a, b, c = rng.random(3)
    waist, lower, upper = 0.3 + 0.05 * a, 0.5 + 0.08 * b, 0.38 + 0.06 * a
    electric = rng.random() < 0.35
    outline = [(0, 0.05), (upper, 0.15), (upper, 0.4), (waist, 0.65), (lower, 0.95), (lower, 1.25),
               (0, 1.5)]  # fmt: skip
    if electric:  # two horns beside the neck
        outline = [(0.1, 0.3), (0.2, 0.1), (upper + 0.05, -0.05 - 0.1 * c), (upper, 0.4),
                   (waist, 0.65), (lower, 0.95), (lower * 0.95, 1.25), (0, 1.45)]  # fmt: skip
    mirrored = [(-x, y) for x, y in outline[::-1] if x]
    body = curve([*outline, *mirrored])
    neck = box(-0.075, -1.15, 0.075, 0.5)
    head = polygon((-0.08, -1.15), (-0.14, -1.55), (0.14, -1.55), (0.08, -1.15))
    pegs = tuple(oval(s * 0.2, y, 0.06, 0.045) for s in (-1, 1) for y in (-1.25, -1.36, -1.47))
    parts = [Part(BODY, (body,)), Part(SECOND, (neck,)), Part(DARK, pegs), Part(SECOND, (head,))]
    if electric:
        parts.append(Part(LIGHT, (box(-0.2, 0.62, 0.2, 0.72), box(-0.2, 0.85, 0.2, 0.95))))
    else:
        parts.append(Part(DARK, (oval(0, 0.62, 0.17, 0.17),)))
    parts.append(Part(THIRD, (box(-0.2, 1.12, 0.2, 1.2),)))
    wires = tuple(box(x - 0.008, -1.45, x + 0.008, 1.15) for x in (-0.045, 0, 0.045))
    parts.append(Part(LIGHT, wires, lined=False))
    turn = rng.choice([-0.9, -0.4, 0, 0.4, 0.9]) + rng.normal(0, 0.2)
    return [replace(part, shapes=tuple(map(_turned(turn), part.shapes))) for part in parts]


def _turned(angle: float) -> Callable[[Points], Points]:
    matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return lambda points: points @ matrix


def _house(toon: float, rng: Generator) -> list[Part]:
    a, b, c = rng.random(3)
    eaves, low, top = -0.1 - 0.3 * a, 0.9, -0.85 - 0.35 * b
    side = rng.uniform(-0.1, 0.45)  # where gable and side wall meet
    middle, ridge = (side - 1) / 2, 0.55 + 0.25 * c
    front = polygon((-1, low), (-1, eaves), (middle, top), (side, eaves), (side, low))
    wall = polygon((side, eaves), (1.15, eaves), (1.15, low - 0.05), (side, low))
    roof = polygon((middle - 0.02, top - 0.06), (ridge, top), (1.25, eaves + 0.08),
                    (side + 0.02, eaves + 0.08))  # fmt: skip
    gable = limb(((-1.1, eaves + 0.1), (middle, top - 0.02), (side + 0.04, eaves + 0.08)),
                  (0.05, 0.05, 0.05))  # fmt: skip
    chimney = box(ridge - 0.4, top - 0.3 * b - 0.15, ridge - 0.18, (eaves + top) / 2)
    width = (side + 1) * 0.3
    door = box(middle - width / 2 - 0.1, 0.32, middle + width / 2 - 0.1, low)
    panes = [box(middle - 0.12, eaves - 0.12, middle + 0.12, eaves + 0.16)]
    count = 2 if side < 0.25 else 1
    for x in side + (1.15 - side) * (np.arange(count) + 0.5) / count:
        panes.append(box(x - 0.14, eaves + 0.3, x + 0.14, eaves + 0.62))
    parts = [
        Part(THIRD, (chimney,)),
        Part(BODY, (wall,), 0.78),
        Part(BODY, (front,)),
        Part(SECOND, (roof,), 0.92),
        Part(SECOND, gable),
        Part(THIRD, (door,)),
        Part(LIGHT, tuple(panes)),
    ]
    bars = tuple(
        shape
        for pane in panes
        for (left, top_), (right, bottom) in [(pane[0], pane[2])]
        for shape in (
            box((left + right) / 2 - 0.015, top_, (left + right) / 2 + 0.015, bottom),
            box(left, (top_ + bottom) / 2 - 0.015, right, (top_ + bottom) / 2 + 0.015),
        )
    )
    parts.append(Part(DARK, bars, lined=False))
    return parts


def _person(toon: float, rng: Generator) -> list[Part]:
    a, b, c = rng.random(3)
    size = (0.2 + 0.02 * a) * (1 + 0.7 * toon)
    waist, shoulder, neck = 0.15, 0.3 + 0.06 * b, -0.55
    y = neck - size * 0.95
    stride, swing = rng.uniform(0, 0.3), rng.uniform(-0.2, 0.5)
    foot = 0.95 + 0.1 * b - 0.25 * toon
    legs = [
        Part(SECOND, limb(((s * 0.13, waist), (s * (0.15 + stride / 2), 0.55),
                            (s * (0.15 + stride), foot)), (0.15, 0.115, 0.085)), shade)
        for s, shade in ((-1, 0.82), (1, 1.0))
    ]  # fmt: skip
    shoes = tuple(oval(s * (0.15 + stride) - 0.05, foot + 0.07, 0.15, 0.065) for s in (-1, 1))
    trunk = curve([(-shoulder, neck + 0.1), (0, neck), (shoulder, neck + 0.1), (0.24, -0.1),
                    (0.26, waist + 0.12), (-0.26, waist + 0.12), (-0.24, -0.1)])  # fmt: skip
    if rng.random() < 0.3:  # a dress
        trunk = curve([(-shoulder, neck + 0.1), (0, neck), (shoulder, neck + 0.1), (0.2, -0.15),
                        (0.45, 0.6), (-0.45, 0.6), (-0.2, -0.15)])  # fmt: skip
    arms: list[Points] = []
    hands: list[Points] = []
    for s in (-1, 1):
        lift = rng.uniform(-0.9, 0.1) if rng.random() < 0.3 else 0.0
        elbow = (s * (shoulder + 0.12), -0.18 + lift * 0.5)
        hand = (s * (shoulder + 0.1 + 0.25 * swing), 0.12 + lift * 1.3)
        arms += limb(((s * (shoulder - 0.03), neck + 0.14), elbow, hand), (0.095, 0.08, 0.065))
        hands.append(oval(*hand, 0.08, 0.08))
    throat = box(-0.08, neck - 0.12, 0.08, neck + 0.06)
    face = oval(0, y, size * 0.8, size)
    long = rng.random() < 0.5
    hair = [curve([(-size * 0.92, y + 0.02), (-size * 0.8, y - size * 0.8), (0, y - size * 1.25),
                    (size * 0.85, y - size * 0.8), (size * 0.92, y + 0.02), (size * 0.6, y - 0.08),
                    (0, y - size * (0.35 + 0.3 * c)), (-size * 0.6, y - 0.08)])]  # fmt: skip
    back = [Part(THIRD, (oval(0, y + size * 0.45, size * 1.05, size * 1.35),), 0.85, head=True)]
    gaze = rng.normal(0, 0.06) * size
    eyes = [e for s in (-1, 1) for e in _eye(s * size * 0.32 + gaze, y + 0.02, size * 0.7, toon)]
    mouth = oval(gaze, y + size * 0.55, size * 0.22, size * 0.06 + 0.01)
    return [
        *(back if long else []),
        *legs,
        Part(DARK, shoes),
        Part(BODY, (throat,), 0.85, head=True),
        Part(BODY, tuple(hands)),
        Part(SECOND if toon else LIGHT, (trunk,)),
        Part(SECOND if toon else LIGHT, tuple(arms), 0.9),
        Part(BODY, (face,), head=True),
        Part(THIRD, tuple(hair), head=True),
        *eyes,
        Part(DARK, (mouth,), lined=False),
    ]


FIGURES = (_dog, _elephant, _giraffe, _guitar, _horse, _house, _person)
CLOSE_VIEWS = 0.2  # how often an animal or a person is shown from near


def build(label: int, toon: float, size: int, rng: Generator) -> list[Part]:
    """A figure in pixels of a square image; ``toon`` in 0..1 makes heads and eyes larger."""
    parts = FIGURES[label](toon, rng)
    heads = [shape for part in parts if part.head for shape in part.shapes]
    near = bool(heads) and rng.random() < CLOSE_VIEWS
    shown = np.concatenate(heads if near else [shape for part in parts for shape in part.shapes])
    middle, extent = (shown.max(0) + shown.min(0)) / 2, np.ptp(shown, axis=0).max()
    scale = size * (rng.uniform(0.62, 0.8) if near else rng.uniform(0.68, 0.92)) / extent
    mirror, stretch = rng.choice([-1.0, 1.0]), rng.uniform(0.92, 1.08)
    turn, shear = rng.normal(0, 0.06), rng.normal(0, 0.06)
    matrix = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    matrix = matrix @ np.array([[mirror * stretch, 0], [shear, 1 / stretch]]) * scale
    centre = size * (0.5 + rng.normal(0, 0.03, 2))
    return [
        replace(part, shapes=tuple((shape - middle) @ matrix + centre for shape in part.shapes))
        for part in parts
    ]
