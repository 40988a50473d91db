"""The stage: classes, materials, conditions, and a camera that polygons are drawn through."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw

# fmt: off
LOCATIONS = ("highway", "city", "town")
CONDITIONS = ("dawn", "fog", "night", "spring", "winter")
CLASSES = ("void", "sky", "building", "road", "sidewalk", "fence", "vegetation", "pole", "car",
           "traffic sign", "pedestrian", "bicycle", "lane marking", "traffic light")
PALETTE = ((0, 0, 0), (128, 128, 128), (128, 0, 0), (128, 64, 128), (0, 0, 192), (64, 64, 128),
           (128, 128, 0), (192, 192, 128), (64, 0, 128), (192, 128, 128), (64, 64, 0),
           (0, 128, 192), (0, 172, 0), (0, 128, 128))
(VOID, SKY, BUILDING, ROAD, SIDEWALK, FENCE, VEGETATION, POLE, CAR, SIGN, PEDESTRIAN, BICYCLE,
 MARKING, LIGHT) = range(14)
# Materials say what the shader does to a surface, whatever its class: grain, snow, see-through.
PLAIN, HEAVEN, ASPHALT, COBBLE, PAVING, GRASS, WALL, TILES, LEAF, MESH, HILL = range(11)
GRAIN = np.array([.04, 0, .11, .16, .12, .30, .09, .16, .50, .05, .22], np.float32)
SNOW = np.array([0, 0, .22, .40, .75, 1.15, .04, 1.0, .42, .15, .9], np.float32)
FRONT, RIGHT, LEFT, UP = range(4)  # where a surface looks: at the camera, right, left or up
NONE, PUNCHED, BAND, CURTAIN, SHUTTERS = range(5)  # window styles, with half sizes within a cell
PANE = np.array([(0, 0), (.25, .30), (.49, .24), (.45, .42), (.17, .29)], np.float32)
FAR, BEND_END = 420.0, 160.0
RING = [(math.cos(i * math.tau / 14), math.sin(i * math.tau / 14)) for i in range(15)]
RGB = tuple[float, float, float]
Point = tuple[float, float]
Part = tuple[int, Any, str, tuple[float, ...]]
# fmt: on


class Look(NamedTuple):
    """The light, air and season of a condition; nothing in the geometry depends on it."""

    zenith: RGB
    horizon: RGB
    cloud: RGB
    ambient: RGB
    sun: RGB
    haze_metres: float
    grass: RGB
    leaves: tuple[RGB, ...] = ((78, 96, 44), (62, 86, 42), (94, 104, 50))
    shadow: float = 0.0  # metres of shadow per metre of height
    clouds: float = 0.5
    lamps: float = 0.0
    lit: float = 0.0  # share of windows with a light on
    snow: float = 0.0
    saturation: float = 1.0
    noise: float = 3.0


# fmt: off
LOOKS = {
    "dawn": Look((96, 110, 160), (255, 180, 106), (248, 152, 118), (.66, .60, .68), (.72, .46, .22),
                 240, (98, 104, 54), shadow=3, clouds=.7, lamps=.25, lit=.1, noise=3.5),
    "fog": Look((188, 194, 198), (205, 209, 211), (198, 203, 206), (.80, .82, .84), (0, 0, 0), 42,
                (92, 106, 62), clouds=.1, lamps=.3, lit=.12, saturation=.8),
    "night": Look((9, 13, 34), (44, 46, 72), (30, 32, 52), (.17, .20, .33), (0, 0, 0), 230,
                  (70, 88, 46), clouds=.4, lamps=1, lit=.36, saturation=.9, noise=8),
    "spring": Look((70, 136, 222), (186, 219, 244), (250, 251, 253), (.70, .72, .75),
                   (.60, .57, .50), 900, (98, 138, 56), ((88, 132, 50), (108, 146, 60),
                   (74, 118, 52), (238, 178, 200), (244, 226, 232)), .8, .8, saturation=1.1),
    "winter": Look((186, 195, 206), (224, 228, 232), (208, 214, 222), (.84, .87, .92),
                   (.05, .05, .05), 300, (120, 118, 92), ((98, 84, 74), (112, 100, 92)),
                   clouds=.35, lit=.06, snow=1, saturation=.65),
}
# fmt: on


def vec(colour: RGB) -> np.ndarray:
    return np.array(colour, np.float32)[:, None, None]


def tint(colour: RGB, factor: float) -> RGB:
    return colour[0] * factor, colour[1] * factor, colour[2] * factor


def pick(rng: random.Random, options: Sequence[Any]) -> Any:
    """One of the options; unlike rng.choice, always one draw however many there are."""
    return options[int(rng.random() * len(options))]


def hue(rng: random.Random, colours: Sequence[RGB], spread: float = 14) -> RGB:
    (r, g, b), common = pick(rng, colours), rng.uniform(-spread, spread)
    return r + common, g + common + rng.uniform(-4, 4), b + common + rng.uniform(-6, 6)


def along(
    rng: random.Random, start: float, stop: float, low: float, high: float
) -> Iterator[float]:
    """Distances from start to stop with random gaps."""
    z = start + rng.uniform(0, high)
    while z < stop:
        yield z
        z += rng.uniform(low, high)


def box(x0: float, y0: float, x1: float, y1: float) -> tuple[float, ...]:
    return x0, y0, x1, y0, x1, y1, x0, y1


class Stage:
    """The camera, the buffer of polygon numbers with its table, and the mask of shadows."""

    def __init__(
        self, size: tuple[int, int], rng: random.Random, look: Look, sun: float, bend: float
    ) -> None:
        self.rng, self.look, self.x, self.edges = rng, look, 0.0, (-3.0, 3.0)
        self.height, self.width = 2 * size[0], 2 * size[1]
        self.eye, self.focal = rng.uniform(1.25, 2.1), self.width * rng.uniform(0.60, 0.76)
        self.centre = self.width * rng.uniform(0.42, 0.58)
        self.horizon = self.height * rng.uniform(0.38, 0.50)
        self.heading, self.curve = rng.gauss(0, 0.035), rng.gauss(0, bend)
        # `behind` keeps what a crown or a mesh hides, for the shader to look through it.
        self.ids, self.behind = (Image.new("I", (self.width, self.height)) for _ in range(2))
        self.shade = Image.new("L", (size[1], size[0]))
        self.pen, self.shade_pen = ImageDraw.Draw(self.ids), ImageDraw.Draw(self.shade)
        self.shift = (-math.sin(sun) * look.shadow, -math.cos(sun) * look.shadow)
        self.table: list[tuple[float, ...]] = []
        self.queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.ink(SKY, HEAVEN, (0, 0, 0), (0, 0, 0))

    def project(self, x: float, y: float, z: float) -> Point:
        scale, bent = self.focal / z, z if z < BEND_END else BEND_END
        shift = self.heading * z + self.curve * bent * (z - bent / 2)
        return self.centre + (x - self.x + shift) * scale, self.horizon + (self.eye - y) * scale

    def ink(
        self,
        label: int,
        material: int,
        colour: RGB,
        plane: RGB,
        face: int = FRONT,
        glow: float = 0,
        window: tuple[float, ...] = (0, 1, 1, NONE),
    ) -> int:
        """A new row of the table; `window` is the origin, bay width, storey height and style."""
        self.table.append((*colour, label, material, *plane, face, glow, *window))
        return len(self.table) - 1

    def board(self, label: int, colour: RGB, z: float, glow: float = 0, mat: int = PLAIN) -> int:
        """Ink for a surface that looks at the camera from the distance z."""
        return self.ink(label, mat, colour, (1 / z, 0, 0), FRONT, glow)

    def flat(self, label: int, material: int, colour: RGB) -> int:
        """Ink for the ground."""
        fall = 1 / (self.focal * self.eye)
        return self.ink(label, material, colour, (-self.horizon * fall, 0, fall), UP)

    def fill(self, ink: int, corners: Sequence[tuple[float, float, float]]) -> None:
        self.pen.polygon([self.project(*corner) for corner in corners], fill=ink)

    def pave(self, ink: int, x0: float, x1: float, z0: float, z1: float) -> None:
        self.fill(ink, ((x0, 0, z0), (x1, 0, z0), (x1, 0, z1), (x0, 0, z1)))

    def strip(self, ink: int, left: float, right: float, near: float = 1, far: float = FAR) -> None:
        """A ribbon of ground that follows the road."""
        zs = [near * (far / near) ** (i / 14) for i in range(15)]
        self.fill(ink, [(left, 0, z) for z in zs] + [(right, 0, z) for z in reversed(zs)])

    def dashes(self, ink: int, x: float, wide: float, on: float, off: float, far: float) -> None:
        for z in np.arange(1 - self.rng.uniform(0, off), far, on + off).tolist():
            self.pave(ink, x - wide / 2, x + wide / 2, max(z, 1), max(z + on, 1))

    def veil(self, ink: int, points: Sequence[Point]) -> None:
        """Draw a see-through polygon, keeping what lies behind it."""
        us, vs = zip(*points, strict=True)
        u0, v0 = max(0, int(min(us))), max(0, int(min(vs)))
        u1, v1 = min(self.width, int(max(us)) + 2), min(self.height, int(max(vs)) + 2)
        if u0 < u1 and v0 < v1:
            mask = None
            if (u1 - u0) * (v1 - v0) > 600:  # small ones may as well keep their whole box
                mask = Image.new("1", (u1 - u0, v1 - v0))
                ImageDraw.Draw(mask).polygon([(u - u0, v - v0) for u, v in points], fill=1)
            self.behind.paste(self.ids.crop((u0, v0, u1, v1)), (u0, v0), mask)
            self.pen.polygon(points, fill=ink)

    def wall(
        self,
        label: int,
        colour: RGB,
        foot: tuple[Point, Point],
        low: float,
        high: float,
        face: int,
        window: tuple[float, ...] = (0, 1, 1, NONE),
        gable: float = 0,
    ) -> None:
        """An upright wall over two ground points (x, z), with a gable of that height if given."""
        (xa, za), (xb, zb) = foot
        a, b = self.project(xa, low, za), self.project(xb, low, zb)
        # 1/z is linear across a plane's picture, which keeps depth exact on oblique walls.
        slope = (1 / zb - 1 / za) / (b[0] - a[0]) if abs(b[0] - a[0]) > 1 else 0.0
        top = [self.project(xb, high, zb), self.project(xa, high, za)]
        if gable:
            top.insert(1, self.project((xa + xb) / 2, high + gable, (za + zb) / 2))
        self.pen.polygon(
            [a, b, *top],
            fill=self.ink(label, WALL, colour, (1 / za - slope * a[0], slope, 0), face, 0, window),
        )

    def shadow(self, x0: float, x1: float, z0: float, z1: float, tall: float, contact: int) -> None:
        """The shadow that a thing throws where the sun shines, and the dark patch under it."""
        if z0 > (70 if self.look.shadow else 40):  # too thin to be seen
            return
        dx, dz = (s * min(tall, 9) for s in self.shift)
        shapes = [((x0, z0), (x1, z0), (x1, z1), (x0, z1), contact)] if contact else []
        if self.look.shadow:
            shapes += [
                ((xa, z0), (xb, z1), (xb + dx, z1 + dz), (xa + dx, z0 + dz), 230)
                for xa, xb in ((x0, x1), (x1, x0))
            ]
        for *corners, strength in shapes:
            points = [self.project(x, 0, max(z, 1.0)) for x, z in corners]
            self.shade_pen.polygon([(u / 2, v / 2) for u, v in points], fill=strength)

    def later(self, z: float, paint: Callable[..., None], *args: Any) -> None:
        """Put a thing in the queue that is painted far to near once the ground is done."""
        self.queue.append((-z, len(self.queue), paint, args))

    def sprite(
        self,
        x: float,
        z: float,
        parts: Sequence[Part],
        tall: float = 0,
        paints: Sequence[RGB] = (),
        turn: float = 1,
    ) -> None:
        """A flat figure that stands at (x, z), described in metres from its foot.

        A part is (class, colour or index into paints, shape, numbers): p polygon, l line (width
        first), d disc (centre, radii), g glowing disc, w spoked wheel (centre, radius).
        """
        s, (u, v) = self.focal / z, self.project(x, 0, z)
        if tall:
            self.shadow(x - 0.2, x + 0.2, z - 0.1, z + 0.15, tall, 140)
        for label, paint, shape, n in parts:
            colour = paints[paint] if isinstance(paint, int) else paint
            mat = MESH if shape == "w" else PLAIN
            ink, odd = self.board(label, colour, z, 1.4 * (shape == "g"), mat), len(n) % 2
            if shape == "w":
                rim = [
                    (u + (n[0] + n[2] * a) * turn * s, v - (n[1] + n[2] * b) * s) for a, b in RING
                ]
                self.veil(ink, rim)
                tyre = self.board(label, (24, 24, 26), z)
                self.pen.line(rim, fill=tyre, width=max(2, int(0.06 * s)))
            elif shape in "dg":
                cu, cv, rx, ry = u + n[0] * turn * s, v - n[1] * s, n[2] * s + 1, n[3] * s + 1
                self.pen.ellipse((cu - rx, cv - ry, cu + rx, cv + ry), fill=ink)
            else:
                points = [(u + n[i] * turn * s, v - n[i + 1] * s) for i in range(odd, len(n), 2)]
                if odd:  # never thinner than the one pixel that labels are sampled at
                    self.pen.line(points, fill=ink, width=max(2, round(n[0] * s)))
                else:
                    self.pen.polygon(points, fill=ink)
