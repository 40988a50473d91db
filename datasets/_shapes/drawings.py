"""Drawings of toys: ten kinds as polygons of materials and shades, in many builds and poses."""

import cmath

import numpy as np
from numpy.random import Generator
from PIL import Image, ImageDraw

CLASSES = ("plane", "car", "boat", "house", "cup", "bird", "fish", "cat", "flower", "tree")

SIZE = 32
BIG = 2 * SIZE  # objects are drawn at twice the size and reduced, which anti-aliases them

Corners = list[float]  # x and y in turn, about -1..1, y downwards
Parts = list[tuple[int, Corners]]  # polygons with their fill values, the last one on top

# A fill value is a material and a shade in one byte, so that one drawing carries both.
SHADES, FULL = 16, 10  # shades per material, and the one that is full brightness
BODY, TRIM, DARK, LIGHT, FRONT = (SHADES * material + FULL for material in range(1, 6))
LUMAS = {BODY: (0.1, 0.9), TRIM: (0.1, 0.9), DARK: (0.02, 0.2), LIGHT: (0.7, 1), FRONT: (0.1, 0.8)}

ROUND = np.exp(1j * np.arange(16) * np.pi / 8)  # the corners of a circle


def _rect(left: float, top: float, right: float, bottom: float) -> Corners:
    return [left, top, right, top, right, bottom, left, bottom]


def _oval(x: float, y: float, width: float, height: float, turn: float = 0.0) -> Corners:
    flat = width * ROUND.real + 1j * height * ROUND.imag
    corners: Corners = (flat * cmath.rect(1, turn) + complex(x, y)).view(float).tolist()
    return corners


def _bar(x0: float, y0: float, x1: float, y1: float, start: float, end: float) -> Corners:
    """A straight limb, `start` thick at its first end and `end` at its second."""
    twice = 2 * ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
    a, b = (y0 - y1) / twice, (x1 - x0) / twice
    return [
        x0 + start * a,
        y0 + start * b,
        x1 + end * a,
        y1 + end * b,
        x1 - end * a,
        y1 - end * b,
        x0 - start * a,
        y0 - start * b,
    ]


# The ten toys, from the side and facing left unless said otherwise. The numbers a, b and c, of
# 0..1, choose the build.
# fmt: off
def _plane(a: float, b: float, c: float) -> Parts:
    span, tip, body = 0.75 + 0.25 * a, 0.5 * b, _oval(0, 0, 1, 0.13 + 0.08 * a)
    if c < 0.5:  # from above
        wings = [(BODY - 2, [-0.4, 0, tip - 0.2, y, tip + 0.05, y, 0.2, 0]) for y in (-span, span)]
        jets = [(DARK, _oval(tip / 3 - 0.1, y, 0.13, 0.05)) for y in (-span / 2, span / 2)]
        tail = [0.65, 0, 0.9, -0.38, 1.02, -0.38, 0.92, 0, 1.02, 0.38, 0.9, 0.38]
        return [*wings, *jets, (TRIM, tail), (BODY, body), (DARK, _oval(-0.72, 0, 0.1, 0.08))]
    fin, low = [0.5, -0.08, 0.85, -0.5 * span, 1.02, -0.5 * span, 0.95, 0], 0.6 * span
    windows = [(DARK, _rect(x / 7, -0.09, x / 7 + 0.07, -0.01)) for x in range(-5, 4)]
    return [(TRIM, fin), (BODY, body), *windows, (DARK, _oval(-0.85, -0.04, 0.08, 0.05)),
            (BODY - 3, [-0.3, 0.05, tip + 0.05, low, tip + 0.3, low, 0.25, 0.05])]


def _car(a: float, b: float, c: float) -> Parts:
    roof, front, back, low = -0.6 + 0.15 * a, -0.6 + 0.25 * b, 0.5 + 0.45 * c, -0.14
    top, post, glass = roof + 0.1, 0.3 * a - 0.05, DARK if a < 0.6 else LIGHT
    wheels = [(fill, _oval(x, 0.32, size, size)) for x in (-0.58, 0.58)
              for fill, size in ((DARK, 0.26), (LIGHT, 0.12))]
    return [(BODY, [-1, -0.08, front, low, front + 0.25, roof, back - 0.15, roof, back, -0.1,
                    1, -0.1, 1, 0.3, -1, 0.3]),
            (glass, [front + 0.1, low, front + 0.3, top, post - 0.04, top, post - 0.04, low]),
            (glass, [post + 0.04, low, post + 0.04, top, back - 0.22, top, back - 0.12, low]),
            *wheels, (LIGHT, _rect(-1, 0, -0.88, 0.1)), (TRIM, _rect(0.9, 0, 1, 0.1))]


def _boat(a: float, b: float, c: float) -> Parts:
    deck, bow, mast, top = 0.2 + 0.1 * a, 0.3 * b, 0.3 * a - 0.1, -1.0
    hull: Parts = [(BODY, [-1, deck - 0.06, 1, deck, 0.8 - bow, 0.68, bow - 0.75, 0.68]),
                   (TRIM, _bar(-1, deck - 0.02, 1, deck + 0.04, 0.08, 0.1))]
    if c < 0.5:
        rig = [(LIGHT, [mast + 0.05, top, mast + 0.05, deck - 0.15, 0.8, deck - 0.15]),
               (LIGHT - 2, [mast - 0.06, top + bow, mast - 0.06, deck - 0.12, -0.8, deck - 0.12])]
    else:  # a steamer
        rig = [(TRIM, _rect(mast, deck - 0.8, mast + 0.25, deck - 0.3)),
               (LIGHT, _rect(-0.5, deck - 0.35, 0.6, deck)),
               *((DARK, _oval(x, deck - 0.18, 0.07, 0.08)) for x in (-0.3, 0, 0.3))]
        mast, top = -0.4, deck - 0.95
    return [*hull, *rig, (DARK, _bar(mast, top - 0.1, mast, deck, 0.06, 0.07))]


def _house(a: float, b: float, c: float) -> Parts:  # across the corner of gable and side wall
    eaves, corner, ridge = 0.25 * a - 0.25, 0.3 * b - 0.1, 0.5 + 0.2 * b
    door, middle, low = -0.6 + 0.2 * b, (corner - 0.85) / 2, eaves + 0.1
    glass = DARK if c < 0.5 else LIGHT
    panes = ((door + 0.02, eaves), (corner + 0.12, eaves + 0.3), (corner + 0.42, eaves + 0.3))
    return [(DARK, _rect(ridge - 0.3, c - 1.5, ridge - 0.12, eaves)),  # the chimney
            (BODY - 3, _rect(corner, eaves, 0.95, 0.75)),
            (BODY, [-0.85, eaves, middle, -0.85, corner, eaves, corner, 0.8, -0.85, 0.8]),
            (TRIM, [middle, -0.9, ridge, -0.85, 1.05, low, corner + 0.03, low]),
            (TRIM - 3, _bar(-0.92, low, middle, -0.88, 0.1, 0.1)),
            (DARK, _rect(door, 0.3, door + 0.25, 0.8)),
            *((glass, _rect(x, y, x + 0.2, y + 0.22)) for x, y in panes)]


def _cup(a: float, b: float, c: float) -> Parts:
    rim, foot, tilt, top = 0.55 + 0.15 * a, 0.35 + 0.25 * b, 0.1 + 0.12 * c, -0.45 - 0.25 * a
    wall = [-rim, top, rim, top, *_oval(0, 0.65, foot, tilt * 0.8)[:18]]
    # The handle is one band, round its outside and back round the hole.
    outer, hole = (_oval(rim * 0.9, top / 3 + 0.2, 0.38 * k, 0.42 * k) for k in (1, 0.62))
    handle = [*outer, *outer[:2], *hole, *hole[:2]]
    saucer = [(TRIM, _oval(0, 0.7, 0.95, 0.2))] if b < 0.3 else []
    return [*saucer, (BODY - 2, handle), (BODY, wall), (BODY + 3, _oval(0, top, rim, tilt)),
            (DARK if c < 0.5 else TRIM, _oval(0, top + 0.02, rim * 0.87, tilt * 0.78))]


def _bird(a: float, b: float, c: float) -> Parts:
    neck, tail = -0.6 + 0.15 * a, 0.5 * b - 0.2
    bird: Parts = [(BODY - 3, [0.35, -0.1, 1.05, tail, 1, tail + 0.2, 0.3, 0.2]),
                   (BODY, _oval(-0.05, 0.02, 0.62, 0.32 + 0.1 * b, 0.2)),
                   (BODY, _oval(-0.5, neck + 0.06, 0.27, 0.26)),
                   (LIGHT, [-0.7, neck - 0.02, -1.05, neck + 0.1, -0.68, neck + 0.18]),
                   (DARK, _oval(-0.58, neck, 0.07, 0.07))]
    if c < 0.25:  # in flight, a wing raised
        return [*bird, (TRIM, [-0.3, 0, a / 2 - 0.1, -0.95, a / 2 + 0.2, -0.8, 0.35, -0.05])]
    legs = [(DARK, _bar(x, 0.3, x + 0.2 * c - 0.1, 0.9, 0.08, 0.07)) for x in (-0.12, 0.14)]
    feet = [(DARK, _rect(x - 0.15, 0.86, x + 0.04, 0.93)) for x in (0.2 * c - 0.22, 0.2 * c + 0.04)]
    return [*legs, *feet, *bird, (TRIM, _oval(0.15, 0, 0.4, 0.17, tail + 0.2))]


def _fish(a: float, b: float, c: float) -> Parts:
    fat, fork, fin = 0.3 + 0.2 * a, 0.3 + 0.2 * b, 0.2 + 0.2 * c
    return [(TRIM, [0.5, 0, 1, -fork, 0.85, 0, 1, fork]),
            (TRIM, [-0.4, -fat * 0.85, 0.1, -fat - fin, 0.4, -fat * 0.6]),
            (TRIM - 2, [-0.2, fat * 0.9, 0.2, fat + fin * 0.7, 0.3, fat * 0.7]),
            (BODY, _oval(-0.15, 0, 0.8, fat)), (TRIM, [-0.25, 0.08, 0.05, 0, 0.08, 0.26]),
            (DARK, _bar(-0.5, -fat * 0.75, -0.48, fat * 0.75, 0.06, 0.06)),
            (LIGHT, _oval(-0.72, -0.06, 0.1, 0.1)), (DARK, _oval(-0.73, -0.06, 0.05, 0.05))]


def _cat(a: float, b: float, c: float) -> Parts:
    head, tip = 0.27 + 0.06 * a, 0.6 * b
    if c < 0.5:  # on its feet
        x, y, trunk = -0.55, -0.35, _oval(0.08, 0.1, 0.68, 0.28)
        limbs = [_bar(foot, 0.2, foot + tip / 4 - 0.1, 0.85, 0.2, 0.14)
                 for foot in (-0.42, -0.2, 0.42, 0.6)]
        root, bow, end = (0.6, 0.0), (0.85, -0.4), (0.6 + tip, -0.85)
    else:  # sitting, seen from the front
        x, y, trunk = 0, -0.42, _oval(0, 0.4, 0.42, 0.55)
        limbs = [_bar(foot, 0.2, foot, 0.95, 0.15, 0.19) for foot in (-0.14, 0.14)]
        root, bow, end = (0.3, 0.75), (0.8, 0.6), (0.7 + tip / 2, 0.1)
    limbs += [_bar(*root, *bow, 0.16, 0.13), _bar(*bow, *end, 0.13, 0.09)]  # the tail
    peak, skull = y - head - 0.15 - 0.2 * a, _oval(x, y, head * 1.1, head)
    ears = [[x + s, y - 0.05, x + s, peak, x + s / 6, y - 0.2] for s in (-head, head)]
    eyes = [(fill, _oval(x + s, y - 0.03, size, 0.09)) for s in (-head / 2, head / 2)
            for fill, size in ((LIGHT, 0.09), (DARK, 0.04))]
    return [(BODY, trunk), *((BODY - 2, limb) for limb in limbs),
            *((BODY - 1, ear) for ear in ears), (BODY + 1, skull), *eyes,
            (DARK, _oval(x, y + 0.14, 0.07, 0.05))]


def _flower(a: float, b: float, c: float) -> Parts:
    petals, long, foot, heart = 5 + int(5 * c), 0.4 + 0.1 * a, 0.4 * b - 0.2, 0.18 + 0.08 * b
    stalk = [_bar(0, -0.25, foot, 1.05, 0.1, 0.1), _oval(foot - 0.3, 0.72, 0.32, 0.11, 0.5),
             _oval(foot + 0.3, 0.72, 0.32, 0.11, -0.5)]
    turns = a + np.arange(petals) * 2 * np.pi / petals
    tips = [_oval(long * np.cos(t), long * np.sin(t) - 0.25, 0.3, 1.35 / petals, t) for t in turns]
    ring = [(BODY - i % 2 * 2, tip) for i, tip in enumerate(tips)]
    return [*((DARK + 3, part) for part in stalk), *ring, (TRIM, _oval(0, -0.25, heart, heart))]


def _tree(a: float, b: float, c: float) -> Parts:
    tree: Parts = [(DARK + 3, _bar(0, 1, 0, -0.1, 0.16 + 0.12 * a, 0.12))]
    if c < 0.4:  # a conifer in tiers
        for i in range(3 + int(2 * a)):
            low, wide = 0.65 - 0.33 * i, (0.5 + 0.25 * b) * (1 - 0.22 * i)
            tree.append((BODY - i % 2, [-wide, low, 0, low - 0.7, wide, low]))
        return tree
    tree += [(DARK + 3, _bar(0, 0.35, x, -0.2, 0.1, 0.06)) for x in (-0.5, 0.5)]
    for i in range(7):
        x, y = 0.6 * np.sin(9 * a + 2.4 * i), 0.35 * np.cos(7 * b + 2.4 * i) - 0.45
        tree.append((BODY - i % 3, _oval(x, y, 0.3 + 0.1 * b, 0.3)))
    return tree
# fmt: on


SHAPES = (_plane, _car, _boat, _house, _cup, _bird, _fish, _cat, _flower, _tree)
# How far (radians, one standard deviation) a class is turned: what stands, stands upright.
TURN = np.array([0.35, 0.12, 0.13, 0.08, 0.15, 0.18, 0.3, 0.12, 0.2, 0.1])


def draw(label: int, turn: float, rng: Generator) -> np.ndarray:
    """The object as BIG x BIG fill values: built, bent, seen askew, turned and put in place."""
    a, b, c, stretch, scale, mirror, front = rng.random(7).tolist()
    parts = SHAPES[label](a, b, c)
    x, y = np.array([number for _, corners in parts for number in corners]).reshape(-1, 2).T
    bend, shear, skew_x, skew_y, right, down = (rng.standard_normal(6) * 0.07).tolist()
    x, y = x + 1.5 * shear * y, y + bend * x * x
    depth = 1 + skew_x * x + skew_y * y
    stretch, scale = 0.85 + 0.3 * stretch, (0.36 + 0.13 * scale) * BIG
    x, y = x * (stretch if mirror < 0.5 else -stretch) / depth, y / (stretch * depth)
    spot = (x + 1j * y) * (scale * np.exp(1j * turn)) + BIG * (0.5 + right + 0.5j + 1j * down)
    numbers = spot.view(float).tolist()
    image, start = Image.new("L", (BIG, BIG)), 0
    pen = ImageDraw.Draw(image)
    for fill, corners in parts:
        pen.polygon(numbers[start : (start := start + len(corners))], fill=fill)
    if front < 0.2:  # something small in front: a twig, a post, a leaf
        x0, y0, long, thick, lie = (rng.random(5) * (BIG, BIG, 25, 3, np.pi)).tolist()
        pen.polygon(_oval(x0, y0, long + 8, thick + 1, lie), fill=FRONT)
    return np.asarray(image)
