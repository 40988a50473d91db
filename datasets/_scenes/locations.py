"""How a highway, a city street and an old town's street are put together."""

from __future__ import annotations

import numpy as np

from sdgbench.datasets._scenes.objects import (
    SIGNS,
    TRAFFIC,
    backdrop,
    bicycle,
    car,
    church,
    cottage,
    fence,
    lamp,
    panels,
    signal,
    tower,
    tree,
    walker,
)
from sdgbench.datasets._scenes.stage import (
    ASPHALT,
    COBBLE,
    GRASS,
    MARKING,
    PAVING,
    ROAD,
    SIDEWALK,
    VEGETATION,
    VOID,
    Point,
    Stage,
    along,
    pick,
    tint,
)


def build_highway(st: Stage) -> None:
    rng, grass, lanes = st.rng, st.look.grass, pick(st.rng, (3, 4))
    edge, median = lanes * 3.7, rng.uniform(1.6, 6)  # the lanes span 0 to edge, then shoulders
    st.x = (int(rng.random() * lanes) + 0.5) * 3.7 + rng.gauss(0, 0.3)
    left, right = st.edges = (-1.2, edge + rng.uniform(1.5, 3))
    other = (left - median - edge - 2.4, left - median)  # the opposite carriageway
    backdrop(
        st,
        (
            (tint(grass, 0.72), 600, rng.uniform(20, 80)),
            (tint(grass, 0.6), 330, rng.uniform(6, 18)),
        ),
        st.flat(VEGETATION, GRASS, grass),
    )
    tar, paint = st.flat(ROAD, ASPHALT, (104, 104, 106)), st.flat(MARKING, ASPHALT, (226, 226, 220))
    for (a, b), start, reach in (((left, right), 0.0, 150), (other, other[0] + 1.4, 90)):
        st.strip(tar, a, b)
        for x in (start, start + edge):
            st.strip(paint, x - 0.1, x + 0.1, far=250)
        for i in range(1, lanes):
            st.dashes(paint, start + i * 3.7, 0.17, 4, 7, reach)
    path, inner, none = rng.random() < 0.6, pick(rng, (0, 0, 1)), -1
    if path:
        st.strip(st.flat(SIDEWALK, PAVING, (158, 152, 144)), right + 1, right + 5, far=200)
    barrier = pick(rng, (right + 7, other[0] - 4))
    for x, near, kind in (
        (left - 0.3, 1.2, inner),
        (other[1] + 0.3, 1.2, inner if median > 3 else none),
        (right + 0.5, 1.2, 0 if path else pick(rng, (0, 2))),
        (other[0] - 0.5, 4, 0),
        (barrier, rng.uniform(15, 50), pick(rng, (none, none, 4))),
    ):
        if kind != none:
            fence(st, x, near, 140, kind)
    # Things beyond a fence sort as if a little farther, so that the fence stays in front of them.
    for lane in range(lanes):
        x = (lane + 0.5) * 3.7
        for z in along(rng, 9, 140, 16, 60):
            st.later(z, car, x + rng.gauss(0, 0.2), z, False, pick(rng, TRAFFIC))
        for z in along(rng, 9, 110, 18, 60):
            st.later(z + 9, car, other[0] + 1.4 + x, z, True, pick(rng, TRAFFIC))
    for side, base in ((1, right + 8), (-1, other[0] - 4)):
        wood = rng.uniform(5, 14)
        for z in along(rng, 9, 200, wood * 0.6, wood * 1.8):
            x, tall = base + side * rng.uniform(0, 16), rng.uniform(5, 13)
            st.later(z + 9, tree, x, z, tall, pick(rng, (0, 1, 2)))
        for z in along(rng, 8, 90, 8, 26):
            st.later(z + 9, tree, base + side * rng.uniform(-3, 5), z, rng.uniform(0.9, 2.4), 3)
        for z in along(rng, 120, 330, 40, 190):
            x, tall = base + side * rng.uniform(14, 50), rng.uniform(7, 30)
            st.later(z + 20, tower, side, x, z, z + 20, tall, False)
    for z in along(rng, 5, 190 * (rng.random() < 0.7), 30, 36):
        st.later(z, Stage.sprite, left - median / 2, z, lamp(1.6, 9), 9)
    for z in along(rng, 12, 110, 16, 60):
        st.later(z, Stage.sprite, right + 1.1, z, pick(rng, SIGNS), 2.6)
    z = rng.uniform(28, 110)
    if rng.random() < 0.5:
        gantry = panels(rng, right - left + 0.8, 5.5, 2.6, lanes)
        st.later(z, Stage.sprite, left - 0.4, z, gantry, 5)
    elif rng.random() < 0.6:
        st.later(z / 2, Stage.sprite, right + 1, z / 2, panels(rng, 3.6, 1.3, 2.2, 1), 3)
    # The rare classes, so that a network trained here has met all of them.
    for z in along(rng, 6, 45 * path, 4, 18):
        on_foot = rng.random() < 0.35
        st.later(z + 4, *((walker, right + 3.6, z) if on_foot else (bicycle, right + 2, z, True)))
    z = rng.uniform(8, 26)
    if rng.random() < 0.35:  # a road worker
        st.later(z, walker, right - 0.5, z, (240, 120, 20))
    if rng.random() < 0.4:  # the signal of a ramp
        st.later(z * 1.3, Stage.sprite, right + 0.9, z * 1.3, signal(0, pick(rng, (0, 1, 2))), 3)


def build_row(st: Stage, city: bool, side: int, line: float, gap: Point) -> None:
    """The buildings of one side; the city leaves `gap` open for the crossing street."""
    rng, z = st.rng, st.rng.uniform(-14, 0)
    while z < (200 if city else 125):
        stop = z + (rng.uniform(11, 26) if city else rng.uniform(5.5, 10))
        after = stop + 5 * (city and rng.random() < 0.12)
        if city and z < gap[1] and stop > gap[0]:
            stop, after = gap
        face, middle = side * (line + (0 if city else rng.uniform(0, 0.5))), (z + stop) / 2
        if not city and z > 6 and rng.random() < 0.15:  # a garden between two houses
            fence(st, side * line, z, stop, 3)
            st.later(stop, tree, face + side * 3, middle, rng.uniform(4, 7), 0)
            st.later(stop, tree, face + side * 1.5, middle, 1.6, 3)
        elif stop > max(1.6, z + 3):
            house, tall = (tower, rng.uniform(13, 48)) if city else (cottage, rng.uniform(3.1, 7.2))
            st.later(stop, house, side, face, z, stop, tall, city or rng.random() < 0.5)
        z = after


def build_street(st: Stage, city: bool) -> None:
    """A city avenue with a signalled crossing, or the narrow street of an old town."""
    rng, lanes, ego = st.rng, pick(st.rng, (2, 3)) if city else 1, st.rng.random()
    half = lanes * 3.2 + 2.2 if city else rng.uniform(2.7, 3.7)
    walk, cross = rng.uniform(3, 5) if city else rng.uniform(1.2, 2.4), rng.uniform(18, 60)
    st.x = (int(ego * lanes) + 0.5) * 3.2 + rng.gauss(0, 0.3) if city else half * (0.2 + 0.4 * ego)
    st.edges, cobbled = (-half, half), not city and rng.random() < 0.7
    slab = st.flat(SIDEWALK, PAVING, (148, 145, 141) if city else (164, 152, 136))
    backdrop(st, () if city else ((tint(st.look.grass, 0.7), 500, rng.uniform(20, 70)),), slab)
    for z in (340.0, 240.0) if city else ():  # a skyline at the end of the street
        for step in range(-4, 5):
            x, tall = 28 * step + rng.uniform(-8, 8), rng.uniform(10, 75)
            tower(st, 1, x, z, z + 20, tall, False)
    if not city and rng.random() < 0.6:
        st.later(150, church, rng.uniform(-22, 22), 150, rng.uniform(16, 24))
    tar = st.flat(ROAD, *((COBBLE, (140, 130, 120)) if cobbled else (ASPHALT, (98, 98, 101))))
    paint = st.flat(MARKING, ASPHALT, (224, 222, 214))
    st.strip(st.flat(SIDEWALK, PAVING, (186, 184, 180)), -half - 0.22, half + 0.22)  # kerb stones
    st.strip(tar, -half, half)
    if city:
        st.pave(tar, -90, 90, cross, cross + 13)
        st.pave(paint, 0.2, half - 2.2, cross - 5.2, cross - 4.7)
        for x in (-0.16, 0.16):
            st.strip(paint, x - 0.07, x + 0.07, far=cross - 5)
            st.strip(paint, x - 0.07, x + 0.07, cross + 18, 200)
        for i in range(1, lanes + 1):
            st.dashes(paint, i * 3.2, 0.15, 2.5, 3.5, cross - 7)
            st.dashes(paint, -i * 3.2, 0.15, 2.5, 3.5, cross - 7)
    elif rng.random() < 0.7:
        st.dashes(paint, 0, 0.14, 1.8, 2.2, 80)
    zebras = [cross - 3.6, cross + 13.4] if city else [cross * 0.5] if rng.random() < 0.6 else []
    signals = (
        [cross - 5.5, cross + 16.5] if city else [z - 0.5 for z in zebras if rng.random() < 0.6]
    )
    for z in zebras:
        for x in np.arange(-half + 0.4, half - 0.5, 1.0).tolist():
            st.pave(paint, x, x + 0.5, z, z + 3)
        for _ in range(int(rng.random() * 4)):
            st.later(z + 1, walker, rng.uniform(-half, half), z + 1)
    for side in (-1, 1):
        build_row(st, city, side, half + walk, (cross - 3, cross + 16))
        for z in along(rng, 5, 110 if city else 75, *((5.8, 14) if city else (8, 34))):  # parked
            if not (city and cross - 10 < z < cross + 17):
                st.later(z, car, side * (half - 1), z, side < 0, pick(rng, TRAFFIC[:-1]))
        for lane in range(lanes if city else 0):
            for z in along(rng, 8, 120, 10, 38):
                st.later(z, car, side * (lane + 0.5) * 3.2, z, side < 0, pick(rng, TRAFFIC))
        for z in signals:
            reach = -side * rng.uniform(2.5, 5) if city and rng.random() < 0.6 else 0.0
            parts = signal(reach, pick(rng, (0, 1, 2)))
            st.later(z, Stage.sprite, side * (half + 0.5), z, parts, 3)
        for z in along(rng, 5, 110, 20, 28):
            parts, tall = (lamp(-side * 1.8, 8), 8) if city else (lamp(-side * 0.5, 4.2), 4)
            st.later(z, Stage.sprite, side * (half + 0.4), z, parts, tall)
        for z in along(rng, 7, 75, 12, 34):
            st.later(z, Stage.sprite, side * (half + 0.5), z, pick(rng, SIGNS), 2.6)
        sparse, start, stretch = pick(rng, (11, 18, 40)), rng.uniform(3, 14), rng.uniform(8, 18)
        for z in along(rng, 6, 100, sparse * 0.8, sparse * 1.4):
            x, tall = (walk * 0.35, rng.uniform(5, 8)) if city else (walk * 0.8, rng.uniform(3, 5))
            st.later(z, tree, side * (half + x), z, tall, 0)
        if rng.random() < 0.5:
            stop, kind = min(start + stretch, cross - 6), pick(rng, (2, 3)) if city else 3
            fence(st, side * (half + 0.3), start, stop, kind)
        for z in along(rng, 5, 70, 2, 11 if city else 9):
            st.later(z, walker, side * (half + rng.uniform(0.5, walk - 0.3)), z)
        for z in along(rng, 5, 45, 4, 24 if city else 15):
            ridden, inward = rng.random() < 0.65, -2.4 if city else -0.6
            st.later(z, bicycle, side * (half + (inward if ridden else 0.6)), z, ridden)


def bonnet(st: Stage) -> None:
    """The camera car's own bonnet at the lower edge of some scenes: the class void."""
    if st.rng.random() < 0.4:
        rise = st.height * st.rng.uniform(0.05, 0.10)
        for k, colour in ((1.0, (26, 28, 32)), (0.8, (44, 47, 53))):
            u, v, r = st.centre, st.height * 1.04 + rise * (1 - k), st.width * 0.42 * k
            st.pen.ellipse(
                (u - r, v - 0.04 * st.height - rise, u + r, v + rise),
                fill=st.board(VOID, colour, 1.0),
            )
