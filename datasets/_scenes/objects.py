"""What stands in a street: cars, people, bicycles, signs, trees, fences, houses, hills."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import lru_cache

from sdgbench.datasets._scenes.stage import (
    BAND,
    BICYCLE,
    BUILDING,
    CAR,
    CURTAIN,
    FENCE,
    FRONT,
    HILL,
    LEAF,
    LEFT,
    LIGHT,
    MESH,
    PEDESTRIAN,
    POLE,
    PUNCHED,
    RGB,
    RIGHT,
    SHUTTERS,
    SIGN,
    TILES,
    UP,
    VEGETATION,
    Part,
    Point,
    Stage,
    box,
    hue,
    pick,
    tint,
)

# fmt: off
CAR_PAINTS = ((30, 32, 36), (196, 198, 202), (236, 236, 234), (150, 28, 30), (34, 62, 128),
              (96, 100, 106), (70, 92, 84), (188, 160, 60), (120, 126, 134))
# Saloon, hatchback, off-roader, van, bus: half width, and the outline from the near bumper over the
# roof to the far one as z, y and narrowing. Points 2 to 5 are the cabin.
CARS: tuple[tuple[float, tuple[tuple[float, float, float], ...]], ...] = (
    (.90, ((0, .3, 1), (0, .85, 1), (.7, .95, .96), (1.25, 1.42, .76), (2.6, 1.45, .76),
           (3.4, .95, .95), (4.3, .78, .95), (4.4, .3, .95))),
    (.88, ((0, .3, 1), (0, .88, 1), (.1, .97, .98), (.5, 1.45, .8), (2.4, 1.52, .78),
           (3.2, .98, .95), (3.9, .82, .95), (4.0, .3, .95))),
    (.95, ((0, .4, 1), (0, 1., 1), (.1, 1.1, .98), (.4, 1.68, .82), (2.9, 1.72, .82),
           (3.6, 1.12, .95), (4.5, .98, .95), (4.6, .4, .95))),
    (1.0, ((0, .4, 1), (0, 1.1, 1), (.05, 1.2, 1), (.2, 2.1, .9), (3.8, 2.15, .9),
           (4.6, 1.2, .97), (5.1, 1.0, .97), (5.2, .4, .97))),
    (1.25, ((0, .5, 1), (0, 1.3, 1), (.02, 1.4, 1), (.1, 3.2, .98), (9.4, 3.2, .98), (9.6, 1.4, 1),
            (9.7, 1.3, 1), (9.7, .5, 1))))
TRAFFIC = (0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4)
COATS = ((150, 40, 44), (40, 52, 92), (60, 60, 62), (196, 186, 160), (88, 112, 72), (200, 150, 50))
SKINS, LEGS = ((214, 170, 140), (150, 104, 78), (96, 66, 50)), ((38, 42, 60), (30, 30, 32))
WALKER: tuple[Part, ...] = (
    (PEDESTRIAN, 1, "p", (-.14, .9, .06, .9, -.10, 0, -.26, 0)),
    (PEDESTRIAN, 1, "p", (-.05, .9, .15, .9, .24, 0, .10, 0)),
    (PEDESTRIAN, 0, "l", (.11, -.30, .9, -.21, 1.42, .21, 1.42, .25, .9)),
    (PEDESTRIAN, 0, "p", (-.2, 1.5, .2, 1.5, .19, .75, -.19, .75)),
    (PEDESTRIAN, (52, 40, 32), "d", (0, 1.67, .11, .13)),
    (PEDESTRIAN, 2, "d", (.02, 1.61, .08, .09)))
BIKE: tuple[Part, ...] = (
    *((BICYCLE, (120, 122, 124), "w", (hub, .36, .35)) for hub in (-.53, .53)),
    (BICYCLE, 0, "l", (.07, -.53, .36, -.1, .36, .4, .85, -.18, .85, -.1, .36)),
    (BICYCLE, 0, "l", (.06, -.53, .36, -.18, .85, -.22, 1.0)),
    (BICYCLE, 0, "l", (.06, .53, .36, .38, 1.05, .28, 1.1)))
RIDER: tuple[Part, ...] = (
    (PEDESTRIAN, 2, "l", (.15, -.2, 1, .12, .72, -.02, .3)),
    (PEDESTRIAN, 1, "l", (.34, -.2, 1, .08, 1.5)), (PEDESTRIAN, 1, "l", (.1, .08, 1.45, .3, 1.12)),
    (PEDESTRIAN, (206, 160, 130), "d", (.14, 1.72, .1, .13)))
RED, WHITE, BLUE, STEEL = (196, 28, 34), (238, 238, 234), (26, 78, 168), (122, 126, 130)
POST: Part = (POLE, STEEL, "l", (.09, 0, 0, 0, 2.4))
SIGNS: tuple[tuple[Part, ...], ...] = (
    (POST, (SIGN, RED, "d", (0, 2.4, .42, .42)), (SIGN, WHITE, "d", (0, 2.4, .28, .28))),
    (POST, (SIGN, RED, "p", (0, 2.9, .5, 2.05, -.5, 2.05)),
     (SIGN, WHITE, "p", (0, 2.68, .3, 2.17, -.3, 2.17))),
    (POST, (SIGN, BLUE, "p", box(-.42, 2, .42, 2.84)),
     (SIGN, WHITE, "p", (0, 2.68, .22, 2.2, -.22, 2.2))),
    (POST, (SIGN, BLUE, "d", (0, 2.4, .42, .42)), (SIGN, WHITE, "l", (.14, 0, 2.15, 0, 2.65))))
# fmt: on


def car(st: Stage, x: float, z: float, oncoming: bool, kind: int) -> None:
    """An extruded outline: panels far to near, then the flank that the camera sees."""
    half, outline = CARS[kind]
    length, body = outline[-1][0], hue(st.rng, CAR_PAINTS)
    if oncoming:
        outline = tuple((length - dz, y, w) for dz, y, w in reversed(outline))
    glass, tyre, flank, *paints = (
        st.board(CAR, c, z)
        for c in ((38, 46, 54), (20, 20, 22), tint(body, 0.86), tint(body, 0.8), tint(body, 1.1))
    )
    left, right = (
        [st.project(x + side * half * w, y, z + dz) for dz, y, w in outline] for side in (-1, 1)
    )
    st.shadow(x - half - 0.1, x + half + 0.1, z - 0.25, z + length, 1.3, 235)
    st.sprite(
        x,
        z,
        [(CAR, (20, 20, 22), "p", box(k * half * 0.68, 0, k * half * 0.97, 0.5)) for k in (-1, 1)],
    )
    for i in range(len(outline) - 2, -1, -1):
        (za, ya, _), (zb, yb, _) = outline[i], outline[i + 1]
        clear = min(ya, yb) > 0.9 and abs(yb - ya) > 0.3
        ink = glass if clear else paints[abs(zb - za) > abs(yb - ya)]
        st.pen.polygon([left[i], right[i], right[i + 1], left[i + 1]], fill=ink)
    side = -1 if left[0][0] + right[0][0] > 2 * st.centre else 1
    seen = left if side < 0 else right
    st.pen.polygon(seen, fill=flank)
    cu, cv = (sum(p[i] for p in seen[2:6]) / 4 for i in (0, 1))
    st.pen.polygon([(u + 0.2 * (cu - u), v + 0.2 * (cv - v)) for u, v in seen[2:6]], fill=glass)
    for hub in (0.8, length - 0.85) if z < 50 else ():
        (ua, v), (ub, _) = (st.project(x + side * half, 0.33, z + hub + d) for d in (-0.33, 0.33))
        r = 0.33 * st.focal / (z + hub)
        st.pen.ellipse((min(ua, ub), v - r, max(ua, ub), v + r), fill=tyre)
    top, colour = outline[1][1], (255, 250, 225) if oncoming else (205, 24, 20)
    st.sprite(
        x,
        z,
        [(CAR, (205, 205, 195), "p", box(-0.26, 0.5, 0.26, 0.62))]
        + [(CAR, colour, "g", (k * half * 0.76, top - 0.12, 0.15, 0.07)) for k in (-1, 1)],
    )


def walker(st: Stage, x: float, z: float, coat: RGB | None = None) -> None:
    rng, turn = st.rng, pick(st.rng, (-1, 1)) * st.rng.uniform(0.7, 1.15)
    st.sprite(x, z, WALKER, 1.7, (coat or hue(rng, COATS), hue(rng, LEGS), hue(rng, SKINS)), turn)


def bicycle(st: Stage, x: float, z: float, ridden: bool) -> None:
    rng, turn = st.rng, pick(st.rng, (-1, 1)) * st.rng.uniform(0.4, 1)
    st.sprite(
        x,
        z,
        (*BIKE, *RIDER) if ridden else BIKE,
        1.6 if ridden else 0.8,
        (hue(rng, CAR_PAINTS), hue(rng, COATS, 30), hue(rng, LEGS)),
        turn,
    )


def lamp(reach: float, tall: float) -> list[Part]:
    return [
        (POLE, STEEL, "l", (0.17, 0, 0, 0, tall, reach, tall + 0.3)),
        (POLE, (240, 224, 184), "g", (reach, tall + 0.25, 0.33, 0.11)),
    ]


def signal(reach: float, state: int) -> list[Part]:
    """Traffic lights on a mast and, where `reach` is given, hung over the road as well."""
    tall = 5.6 if reach else 3.0
    parts: list[Part] = [(POLE, (86, 90, 92), "l", (0.15, 0, 0, 0, tall, reach, tall))]
    for dx, top in ((0.0, 3.4), (reach, 5.9))[: 2 if reach else 1]:
        parts.append((LIGHT, (26, 28, 28), "p", box(dx - 0.28, top - 1.1, dx + 0.28, top)))
        for i, colour in enumerate(((255, 44, 30), (255, 180, 30), (40, 240, 120))):
            on, at = i == state, (dx, top - 0.2 - 0.35 * i, 0.13, 0.12)
            parts.append((LIGHT, tint(colour, 1 if on else 0.22), "g" if on else "d", at))
    return parts


def panels(rng: random.Random, wide: float, low: float, tall: float, count: int) -> list[Part]:
    """Direction panels side by side, on a gantry over the road or on two posts beside it."""
    colour, beam = pick(rng, ((20, 104, 64), BLUE)), low + tall * 0.7
    parts: list[Part] = [
        (POLE, STEEL, "l", (0.25, 0, beam, wide, beam)),
        *((POLE, STEEL, "l", (0.3, foot, 0, foot, low + tall)) for foot in (0, wide)),
    ]
    for i in range(count):
        a, b = wide * (i + 0.08) / count, wide * (i + 0.92) / count
        parts += [
            (SIGN, WHITE, "p", box(a, low, b, low + tall)),
            (SIGN, colour, "p", box(a + 0.12, low + 0.12, b - 0.12, low + tall - 0.12)),
        ]
        for y in (low + 0.33 * tall, low + 0.67 * tall):
            parts.append(
                (SIGN, WHITE, "l", (0.2, a + 0.4, y, a + (b - a) * rng.uniform(0.5, 0.85), y))
            )
    return parts


@lru_cache(maxsize=64)
def crown(shape: int, variant: int) -> list[tuple[list[Point], float]]:
    """A tree crown of unit height as ragged blobs with a shade each; drawn often, so made once."""
    rng = random.Random(8 * shape + variant)
    centre, wide, high = (
        (0.66, 0.30, 0.34),
        (0.54, 0.20, 0.44),
        (0.57, 0.15, 0.42),
        (0.42, 0.75, 0.55),
    )[shape]
    blobs = []
    for i in range(5):
        dx, dy, r = (rng.uniform(*span) for span in ((-0.5, 0.5), (-0.5, 0.5), (0.3, 0.5)))
        dx, dy, r = (dx, dy, r) if i else (0, 0, 1)
        outline = []
        for a in range(18):
            ragged = rng.uniform(0.84, 1.1) * r
            up = math.sin(a * math.tau / 18) * ragged + dy
            narrow = min(1.1, max(0.04, (1.15 - up) / 1.5)) if shape == 1 else 1  # conifers taper
            across = (math.cos(a * math.tau / 18) * ragged + dx) * narrow
            outline.append((across * wide, -centre - up * high))
        blobs.append((outline, rng.uniform(0.85, 1.3) + 0.12 * dy if i else 0.8))
    return blobs


def tree(st: Stage, x: float, z: float, tall: float, shape: int) -> None:
    """Branches first, then a crown (0 round, 1 conifer, 2 poplar, 3 bush): winter shows both."""
    rng, (u, v), s = st.rng, st.project(x, 0, z), tall * st.focal / z
    colour, bark = hue(rng, st.look.leaves, 10), st.board(VEGETATION, (78, 62, 48), z)
    st.shadow(x - 0.15 * tall, x + 0.15 * tall, z - 0.2, z + 0.2, tall, 110)
    for i in range(0 if shape == 3 else 7 if s > 30 else 1):
        lean = rng.uniform(-0.26, 0.26) * (1, 0.4, 0.4)[shape]
        lean, low, high = (lean, 0.3 + 0.04 * i, 0.62 + 0.05 * i) if i else (0, 0, 0.75)
        st.pen.line(
            [(u, v - low * s), (u + lean * s, v - high * s)],
            fill=bark,
            width=max(2, round((0.012 if i else 0.05) * s)),
        )
    for i, (outline, shade) in enumerate(crown(shape, int(rng.random() * 8))[: 5 if s > 45 else 1]):
        ink = st.board(VEGETATION, tint(colour, shade), z, 0, LEAF)
        points = [(u + a * s, v + b * s) for a, b in outline]
        st.pen.polygon(points, fill=ink) if i else st.veil(ink, points)


RAILS: tuple[tuple[float, float, RGB], ...] = (  # guard rail, concrete, mesh, railing, barrier
    (0.42, 0.80, (176, 180, 184)),
    (0, 0.95, (168, 166, 160)),
    (0, 1.9, (96, 112, 104)),
    (0.15, 1.05, (120, 96, 70)),
    (0, 3.4, (150, 142, 122)),
)


def rail(st: Stage, x: float, za: float, zb: float, kind: int) -> None:
    (low, high, colour), face = RAILS[kind], RIGHT if x < st.x else LEFT
    if kind == 2:
        corners = [st.project(x, y, z) for y, z in ((low, za), (high, za), (high, zb), (low, zb))]
        st.veil(st.board(FENCE, colour, (za + zb) / 2, 0, MESH), corners)
    else:
        st.wall(FENCE, colour, ((x, za), (x, zb)), low, high, face)
        st.wall(FENCE, tint(colour, 0.7), ((x, za), (x, zb)), low + 0.12, low + 0.2, face)
    st.sprite(x, za, [(FENCE, tint(colour, 0.7), "l", (0.1, 0, 0, 0, high))])
    st.shadow(x, x, za, zb, high, 0)


def fence(st: Stage, x: float, start: float, stop: float, kind: int) -> None:
    """A fence in lengths short enough to be sorted among the things beside it."""
    z = max(start, 1.2)
    while z < stop:
        step = max(2.5, z * 0.2)
        st.later(z + step, rail, x, z, min(z + step, stop), kind)
        z += step


def tower(st: Stage, side: int, x: float, z0: float, z1: float, tall: float, shop: bool) -> None:
    """A flat-roofed block: the wall towards the camera and the one along the street."""
    rng, near, back = st.rng, max(z0, 1.2), x + side * 16
    style = pick(rng, (PUNCHED, PUNCHED, BAND, CURTAIN))
    bay, storey = rng.uniform(2.2, 3.6), rng.uniform(3, 3.6)
    colour = hue(
        rng,
        ((112, 128, 142), (92, 108, 122))
        if style == CURTAIN
        else ((158, 154, 148), (178, 168, 150), (134, 116, 104), (122, 124, 128), (146, 96, 80)),
    )
    front = hue(rng, ((70, 66, 64), (104, 40, 38), (44, 74, 66), (180, 170, 150)))
    sill = hue(rng, ((176, 60, 50), (50, 96, 140), (214, 180, 90), (60, 64, 68)))
    st.shadow(min(x, back), max(x, back), near, z1, tall, 0)
    for foot, face, origin, dim in (
        (((x, z0), (back, z0)), FRONT, x, 0.86),
        (((x, near), (x, z1)), RIGHT if side < 0 else LEFT, z0, 1.0),
    ):
        if face == FRONT and z0 < 1.2:
            continue
        st.wall(BUILDING, tint(colour, dim), foot, 0, tall, face, (origin, bay, storey, style))
        if shop:
            st.wall(BUILDING, tint(colour, 1.15 * dim), foot, tall - 0.7, tall, face)
            st.wall(BUILDING, tint(front, dim), foot, 0, 3.6, face, (origin, bay, 3.9, CURTAIN))
            st.wall(BUILDING, tint(sill, dim), foot, 3.2, 3.9, face)


def cottage(st: Stage, side: int, x: float, z0: float, z1: float, tall: float, gable: bool) -> None:
    """An old house: a warm facade under a tiled roof, its gable or its eaves to the street."""
    rng, near, deep = st.rng, max(z0, 1.2), x + side * 9
    colour = hue(
        rng,
        (
            (226, 196, 144),
            (214, 164, 112),
            (232, 214, 182),
            (204, 142, 112),
            (222, 180, 166),
            (190, 186, 160),
            (240, 230, 210),
        ),
        9,
    )
    tiles = hue(rng, ((150, 72, 48), (128, 62, 46), (164, 92, 62), (98, 70, 62)), 8)
    ridge, middle, centre = tall + rng.uniform(2.2, 4.2), (near + z1) / 2, (x + deep) / 2
    bay = (z1 - z0) / max(2, round((z1 - z0) / rng.uniform(1.9, 2.6)))
    window = (z0, bay, tall / max(1, round(tall / 2.8)), pick(rng, (SHUTTERS, SHUTTERS, PUNCHED)))
    st.shadow(min(x, deep), max(x, deep), near, z1, tall + 1, 0)
    roof = st.ink(BUILDING, TILES, tiles, (1 / (near + 1.5), 0, 0), UP)
    if z0 > 1.2:
        st.wall(
            BUILDING,
            tint(colour, 0.84),
            ((x, z0), (deep, z0)),
            0,
            tall,
            FRONT,
            (x, 3.2, 3.0, PUNCHED),
            0 if gable else ridge - tall,
        )
    if gable:
        st.fill(
            roof, ((x, tall, near), (x, ridge, middle), (deep, ridge, middle), (deep, tall, near))
        )
    else:
        chimney = ((centre - 0.4, middle), (centre + 0.4, middle))
        eaves, low = x - side * 0.3, tall - 0.1
        st.wall(BUILDING, (128, 84, 68), chimney, ridge - 1, ridge + 0.9, FRONT)
        st.fill(
            roof, ((eaves, low, near), (eaves, low, z1), (centre, ridge, z1), (centre, ridge, near))
        )
    face, foot = RIGHT if side < 0 else LEFT, ((x, near), (x, z1))
    st.wall(BUILDING, colour, foot, 0, tall, face, window, ridge - tall if gable else 0)
    st.wall(BUILDING, tint(colour, 0.62), foot, 0, 0.5, face)


def church(st: Stage, x: float, z: float, tall: float) -> None:
    nave, steeple = ((x - 9, z), (x + 9, z)), ((x - 3, z), (x + 3, z))
    st.wall(BUILDING, (176, 164, 142), nave, 0, tall * 0.42, FRONT, (x, 3, 4, PUNCHED), 6)
    st.wall(BUILDING, (164, 152, 132), steeple, 0, tall, FRONT, (x, 6, 5, SHUTTERS), tall * 0.6)


def backdrop(st: Stage, slopes: Sequence[tuple[RGB, float, float]], ground: int) -> None:
    """Ranges of hills (colour, distance, height) along the horizon, and the ground before them."""
    st.pen.rectangle((0, st.horizon + 0.5, st.width, st.height), fill=ground)
    for colour, z, tall in slopes:
        a, b = st.rng.uniform(0, 6), st.rng.uniform(0, 6)
        crest = [
            tall
            * (
                0.5
                + 0.25 * math.sin(a + i * 0.06)
                + 0.15 * math.sin(b + i * 0.17)
                + 0.1 * st.rng.random()
            )
            for i in range(99)
        ]
        points = [(st.width * i / 98, st.horizon - h * st.focal / z) for i, h in enumerate(crest)]
        st.pen.polygon(
            [(0, st.horizon + 2), *points, (st.width, st.horizon + 2)],
            fill=st.board(VEGETATION, colour, z, 0, HILL),
        )
