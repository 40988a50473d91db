"""The four styles: how one figure becomes a photograph, a painting, a cartoon or a sketch."""

import colorsys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from PIL import Image, ImageDraw
from scipy import ndimage
from scipy.spatial import cKDTree

from sdgbench.datasets._shapes.photographs import TILE, noise_tiles
from sdgbench.datasets._styles.figures import build
from sdgbench.datasets._styles.palettes import NATURAL, Colour
from sdgbench.datasets._styles.shapes import BODY, DARK, LIGHT, SECOND, THIRD, Part

SIZE = 64
BIG = 2 * SIZE  # figures are drawn at twice the size and reduced, which anti-aliases them

Y, X = np.mgrid[:BIG, :BIG].astype(np.float32) / BIG

PERSON, GUITAR, HOUSE, GIRAFFE = 6, 3, 5, 2


class Painter:
    """Draws figures of a class in each style; ``rng`` decides everything."""

    def __init__(self, rng: Generator) -> None:
        self.rng, self.tiles = rng, noise_tiles(rng)

    def noise(self, kind: int) -> np.ndarray:
        """A random window of noise of deviation 1: 0 clouds, 1 like natural scenes, 2 fur."""
        tile = self.tiles[kind, self.rng.integers(4)]
        top, left = self.rng.integers(0, TILE - BIG, 2)
        window: np.ndarray = tile[top : top + BIG, left : left + BIG]
        return window

    def colour(self, low: float = 0.0, high: float = 1.0, vivid: float = 1.0) -> np.ndarray:
        """A random colour whose lightness lies between the bounds."""
        hue, light = self.rng.random(), self.rng.uniform(low, high)
        rgb = colorsys.hls_to_rgb(hue, light, vivid * self.rng.uniform(0.5, 1))
        return np.array(rgb, np.float32)

    def photograph(self, label: int) -> np.ndarray:
        """Natural colours, fur, wood and brick, light from above, a camera's blur and noise."""
        rng = self.rng
        image = self._compose(label, self._natural_scene(label), NATURAL[label])
        blur = rng.uniform(0.3, 1.0)
        small = ndimage.gaussian_filter(_reduced(image), (blur / 2, blur / 2, 0), truncate=3)
        small = (small - 0.45) * rng.uniform(0.8, 1.25) + rng.uniform(0.36, 0.54)
        small *= rng.uniform(0.93, 1.07, 3)  # white balance
        distance = ((X - 0.5) ** 2 + (Y - 0.5) ** 2)[::2, ::2, None]
        small *= 1 - rng.uniform(0, 0.5) * distance
        noisy: np.ndarray = small + rng.uniform(0.005, 0.025) * rng.standard_normal(small.shape)
        return noisy

    def painting(self, label: int) -> np.ndarray:
        """Strokes of a brush in a shifted palette, on canvas."""
        rng = self.rng
        paints = tuple(
            tuple(self._repainted(colour) for colour in colours) for colours in NATURAL[label]
        )
        image = self._compose(label, self._painted_scene(), paints)
        image = np.clip(image + rng.normal(0, 0.05, 3).astype(np.float32), 0, 1)
        image = self._strokes(image)
        weave = np.sin(np.pi * X * BIG / 2) * np.sin(np.pi * Y * BIG / 2)
        image += 0.02 * weave[..., None] + 0.02 * self.noise(1)[..., None]
        vivid = rng.uniform(0.8, 1.4)
        grey = image.mean(2, keepdims=True)
        return _reduced(grey + vivid * (image - grey))

    def cartoon(self, label: int) -> np.ndarray:
        """Flat, bright colours and black outlines, large heads and eyes."""
        rng = self.rng
        parts = build(label, rng.uniform(0.5, 1), BIG, rng)
        sheet = self._flat_scene()
        body = self.colour(0.35, 0.75)
        if rng.random() < 0.4:  # as often as not, the colour that one expects, but brighter
            natural = np.array(NATURAL[label][rng.integers(len(NATURAL[label]))][0])
            body = np.clip(natural.mean() + 1.8 * (natural - natural.mean()) + 0.1, 0, 1)
        fills = {
            BODY: body,
            SECOND: np.clip(body * rng.uniform(0.5, 0.8), 0, 1)
            if rng.random() < 0.5
            else self.colour(0.3, 0.7),
            THIRD: self.colour(0.2, 0.7),
            DARK: np.full(3, 0.06),
            LIGHT: np.full(3, 0.97),
        }
        ink = self.colour(0, 0.15)
        _ink_and_fill(sheet, parts, fills, ink, width=int(rng.integers(2, 5)))
        return _reduced(np.asarray(sheet, dtype=np.float32) / 255)

    def sketch(self, label: int) -> np.ndarray:
        """A few black lines by an unsteady hand on white paper."""
        rng = self.rng
        parts = [self._unsteady(part) for part in build(label, rng.uniform(0, 0.4), BIG, rng)]
        sheet = Image.new("L", (BIG, BIG), 255)
        pen = ImageDraw.Draw(sheet)
        ink, width = int(rng.integers(0, 70)), int(rng.integers(2, 4))
        for part in parts:
            if part.lined:
                _outline(pen, part, ink, width)
                for shape in part.shapes:
                    pen.polygon(_flat(shape), fill=ink if part.material == DARK else 255)
            else:
                for shape in part.shapes:
                    pen.polygon(_flat(shape), fill=ink)
        if rng.random() < 0.3:
            self._hatch(sheet, parts, ink)
        paper = np.asarray(sheet, dtype=np.float32) / 255
        gaps = 1 - np.clip(self.noise(1) - 1.6, 0, 0.6)  # where the pencil hardly touched
        paper = 1 - (1 - paper) * gaps
        return np.repeat(_reduced(paper[..., None]), 3, axis=2)

    def _natural_scene(self, label: int) -> np.ndarray:
        """Sky and ground, or a room, out of focus: so half the size is enough to draw it."""
        rng, x, y = self.rng, X[::2, ::2], Y[::2, ::2]
        clouds, rough, grass = (self.noise(kind)[::2, ::2] for kind in range(3))
        if rng.random() < (0.55 if label in (GUITAR, PERSON) else 0.12):  # indoors
            wall = self.colour(0.25, 0.8, 0.35)
            floor = _floats([0.45, 0.32, 0.22]) * np.float32(rng.uniform(0.6, 1.4))
            upper = wall * (1 + 0.08 * clouds + 0.15 * (x - 0.5))[..., None]
            lower = floor * (1 + 0.1 * np.sin(40 * (y + 0.1 * x)) + 0.06 * rough)[..., None]
        else:
            sky = _floats([(0.55, 0.70, 0.90), (0.80, 0.84, 0.88), (0.88, 0.78, 0.66)])
            land = _floats([(0.30, 0.42, 0.16), (0.62, 0.54, 0.34), (0.46, 0.40, 0.30)])
            cover = np.clip(0.35 + 0.35 * clouds, 0, 0.8)[..., None]
            upper = sky[rng.integers(3)] * (1 - 0.25 * y[..., None]) * (1 - cover) + 0.95 * cover
            soil = land[rng.integers(3)] * np.float32(rng.uniform(0.7, 1.2))
            lower = soil * (1 + 0.18 * grass + 0.12 * rough)[..., None]
            trees = np.clip(4 * (clouds * 0.12 + y - rng.uniform(0.15, 0.5)), 0, 1)[..., None]
            leaves = _floats([0.16, 0.26, 0.12]) * np.float32(rng.uniform(0.7, 1.5))
            upper = upper + trees * (leaves * (1 + 0.3 * rough)[..., None] - upper)
        horizon = rng.uniform(0.45, 0.8)
        share = np.clip(30 * (y - horizon + 0.02 * clouds), 0, 1)[..., None]
        scene = upper + share * (lower - upper)
        blur = rng.uniform(0.4, 2)
        scene = ndimage.gaussian_filter(scene, (blur, blur, 0), truncate=3)
        return _doubled(scene)

    def _painted_scene(self) -> np.ndarray:
        """Two or three washes of colour that run into each other."""
        first, second, third = (self.colour(0.2, 0.85, 0.5) for _ in range(3))
        clouds = self.noise(0)
        share = np.clip(0.5 + 0.6 * clouds, 0, 1)[..., None]
        scene = first + share * (second - first)
        ground = np.clip(12 * (Y - self.rng.uniform(0.45, 0.85) + 0.04 * clouds), 0, 1)[..., None]
        washed: np.ndarray = scene + ground * (third - scene)
        return washed

    def _repainted(self, colour: Colour) -> Colour:
        """A natural colour as a painter may have seen it."""
        strength = self.rng.uniform(0.05, 0.4)
        mixed = np.array(colour) * (1 - strength) + self.colour(0.2, 0.8) * strength
        red, green, blue = np.clip(mixed, 0, 1).tolist()
        return red, green, blue

    def _compose(
        self, label: int, scene: np.ndarray, palettes: tuple[tuple[Colour, ...], ...]
    ) -> np.ndarray:
        """The figure with its surfaces, lit from above, and its shadow, in front of a scene."""
        rng = self.rng
        parts = build(label, 0.0, BIG, rng)
        material, shade = _maps(parts)
        inside = material > 0
        body, second, third = (
            np.clip(np.array(c) * rng.uniform(0.8, 1.2) + rng.normal(0, 0.02, 3), 0, 1).astype("f4")
            for c in palettes[rng.integers(len(palettes))]
        )
        clothes = self.colour(0.2, 0.85, 0.7) if label == PERSON else np.full(3, 0.85, np.float32)
        dark = np.full(3, 0.07, np.float32)
        paints = np.stack([0 * dark, body, second, third, dark, clothes])
        figure = paints[material]
        texture = self._texture(label)
        strength = _floats([0, 1, 1, 0.3, 0.3, 0.3])[material]
        figure = figure * (1 + strength * texture)[..., None]
        if label == GIRAFFE:
            patches = np.clip(6 * (_cells(rng) - 0.16), 0, 1)[..., None]
            spotted = second * 1.1 + (1 - patches) * (figure - second * 1.1)
            figure = np.where((material == BODY)[..., None], spotted, figure)
        relief = ndimage.gaussian_filter(inside.astype(np.float32), 5, truncate=2.5)
        down, across = np.gradient(relief + 0.5 * ndimage.uniform_filter(shade, 5))
        angle = rng.uniform(0.2, np.pi - 0.2)
        facing = down * np.sin(angle) + across * np.cos(angle)
        light = shade * (1 + np.float32(rng.uniform(3, 9)) * facing)
        figure = figure * light[..., None]
        rows = np.flatnonzero(inside.any(1))
        columns = np.flatnonzero(inside.any(0))
        foot, middle, half = rows[-1], columns.mean(), max(4.0, np.ptp(columns) * 0.5)
        distance = ((X * BIG - middle) / half) ** 2 + ((Y * BIG - foot + 2) / (half * 0.16)) ** 2
        shadow = np.clip(1.3 - distance, 0, 1) * np.float32(rng.uniform(0.2, 0.6))
        scene = scene * (1 - shadow)[..., None]
        cover = ndimage.uniform_filter(inside.astype(np.float32), 3)[..., None]
        composed: np.ndarray = scene + cover * (figure - scene)
        return composed

    def _texture(self, label: int) -> np.ndarray:
        """Fur, skin, wood or brick, as relative brightness."""
        if label == HOUSE:
            if self.rng.random() < 0.5:
                row = np.floor(Y * 32)
                joint = (Y * 32 % 1 < 0.25) | ((X * 14 + row / 2) % 1 < 0.12)
                return np.where(joint, 0.25, 0.06 * self.noise(1))
            boards: np.ndarray = np.where(Y * 24 % 1 < 0.2, -0.15, 0.04 * self.noise(1))
            return boards
        if label == GUITAR:
            grain: np.ndarray = 0.12 * np.sin(60 * X + 1.5 * self.noise(0)) + 0.04 * self.noise(2)
            return grain
        strength = 0.05 if label == PERSON else self.rng.uniform(0.08, 0.2)
        fur: np.ndarray = strength * (self.noise(2).T if label == 4 else self.noise(2))
        return fur + 0.05 * self.noise(1)

    def _strokes(self, image: np.ndarray) -> np.ndarray:
        """Paint an image again with strokes, coarse ones first, along its edges."""
        rng = self.rng
        blurred = ndimage.uniform_filter(image, (3, 3, 0))
        pixels = Image.fromarray(_bytes(ndimage.uniform_filter(image, (5, 5, 0))))
        pen = ImageDraw.Draw(pixels)
        smooth = ndimage.gaussian_filter(image.mean(2), 2, truncate=2.5)
        down, across = np.gradient(smooth)
        direction = np.arctan2(down, across) + np.pi / 2 + 0.5 * self.noise(0)
        edges = np.hypot(down, across)
        bold = rng.uniform(0.8, 1.4)
        for radius, count in ((5.0, 60), (3.0, 150), (1.6, 400)):
            rows, columns = rng.integers(0, BIG, (2, count))
            chosen = np.argsort(edges[rows, columns])  # where there is most to see comes last
            if radius < 3:  # fine strokes only there
                chosen = chosen[count // 2 :]
            elif radius > 3:
                chosen = chosen[: count * 3 // 4]
            rows, columns = rows[chosen], columns[chosen]
            angle = direction[rows, columns] + rng.normal(0, 0.2, len(rows))
            length = radius * rng.uniform(1, 2.5, len(rows))
            dx, dy = length * np.cos(angle), length * np.sin(angle)
            colours = _bytes(blurred[rows, columns] + rng.normal(0, 0.03, (len(rows), 1)))
            ends = np.stack([columns - dx, rows - dy, columns + dx, rows + dy], 1).tolist()
            for line, colour in zip(ends, colours.tolist(), strict=True):
                pen.line(line, fill=tuple(colour), width=max(1, round(radius * bold)))
        return np.asarray(pixels, dtype=np.float32) / 255

    def _flat_scene(self) -> Image.Image:
        """White, one colour, or a simple sky and ground."""
        rng, kind = self.rng, self.rng.random()
        back = np.ones(3) if kind < 0.35 else self.colour(0.6, 0.92)
        sheet = Image.new("RGB", (BIG, BIG), _ink(back))
        if kind > 0.6:
            pen = ImageDraw.Draw(sheet)
            low = BIG * rng.uniform(0.55, 0.85)
            hill = BIG * rng.uniform(0.6, 1.4)
            middle = BIG * rng.random()
            pen.ellipse((middle - 2 * hill, low, middle + 2 * hill, low + 2 * hill),
                        fill=_ink(self.colour(0.35, 0.7)))  # fmt: skip
            if rng.random() < 0.5:  # a sun or a cloud
                x, y, r = rng.uniform(0.1, 0.9) * BIG, 0.15 * BIG, 0.09 * BIG
                pen.ellipse((x - r, y - r, x + r, y + r), fill=_ink(self.colour(0.8, 0.97)))
        return sheet

    def _unsteady(self, part: Part) -> Part:
        """Shift each shape a little, and let its line wander."""
        shapes = []
        for shape in part.shapes:
            dense = _dense(shape)
            around = np.linspace(0, 2 * np.pi, len(dense), endpoint=False)[:, None]
            phase, size = self.rng.uniform(0, 2 * np.pi, 4), self.rng.normal(0, 0.6, 4)
            wander = sum(s * np.sin(k * around + p) for k, (s, p) in
                         enumerate(zip(size, phase, strict=True), 1))  # fmt: skip
            shapes.append(dense + np.concatenate([wander, np.roll(wander, 3)], 1))
        return Part(part.material, tuple(shapes), part.shade, part.lined)

    def _hatch(self, sheet: Image.Image, parts: list[Part], ink: int) -> None:
        """Shade what is turned away with parallel strokes."""
        material, shade = _maps(parts)
        lines = Image.new("L", (BIG, BIG), 255)
        pen = ImageDraw.Draw(lines)
        slant, gap = self.rng.uniform(0.4, 1.0), int(self.rng.integers(6, 10))
        for start in range(-BIG, BIG, gap):
            pen.line((start, BIG, start + slant * BIG, 0), fill=min(255, ink + 60), width=1)
        drawn = (np.asarray(lines) < 200) & (material > 0) & (shade < 0.95)
        sheet.paste(lines, mask=Image.fromarray(drawn.astype(np.uint8) * 255))


STYLES: dict[str, Callable[[Painter, int], np.ndarray]] = {
    "photo": Painter.photograph,
    "art_painting": Painter.painting,
    "cartoon": Painter.cartoon,
    "sketch": Painter.sketch,
}


def render(style: str, labels: np.ndarray, seed: int) -> np.ndarray:
    """Images (N, 3, 64, 64) of uint8 in a style, one for each label."""
    rng = np.random.default_rng([list(STYLES).index(style), seed])
    painter, draw = Painter(rng), STYLES[style]
    images = np.empty((len(labels), 3, SIZE, SIZE), np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:] = _bytes(draw(painter, int(label))).transpose(2, 0, 1)
    return images


def _flat(shape: np.ndarray) -> list[float]:
    numbers: list[float] = shape.ravel().tolist()
    return numbers


def _dense(shape: np.ndarray) -> np.ndarray:
    """A closed line with more points, so that it can bend."""
    following = np.roll(shape, -1, 0)
    steps = np.arange(4)[None, :, None] / 4
    return (shape[:, None] * (1 - steps) + following[:, None] * steps).reshape(-1, 2)


def _maps(parts: list[Part]) -> tuple[np.ndarray, np.ndarray]:
    """The material and the shade of each pixel."""
    sheet = Image.new("RGB", (BIG, BIG))
    pen = ImageDraw.Draw(sheet)
    for part in parts:
        for shape in part.shapes:
            pen.polygon(_flat(shape), fill=(part.material, round(200 * part.shade), 0))
    drawn = np.asarray(sheet)
    return drawn[..., 0], drawn[..., 1].astype(np.float32) / 200


def _outline(pen: ImageDraw.ImageDraw, part: Part, ink: int | tuple[int, ...], width: int) -> None:
    """Outline the union of a part's shapes: filling them afterwards hides what is inside."""
    for shape in part.shapes:
        margin = min(width, 0.2 * float(np.ptp(shape, axis=0).max()))  # eyes keep their white
        pen.polygon(_flat(_outset(shape, margin)), fill=ink)


def _outset(shape: np.ndarray, width: float) -> np.ndarray:
    """A polygon that is larger by a margin all around."""
    edges = np.roll(shape, -1, 0) - shape
    edges /= np.hypot(edges[:, :1], edges[:, 1:]) + 1e-6
    along = edges + np.roll(edges, 1, 0)  # at each corner, the mean of both directions
    along /= np.hypot(along[:, :1], along[:, 1:]) + 1e-6
    outwards = np.stack([along[:, 1], -along[:, 0]], axis=1)
    x, y = shape.T
    clockwise = x @ np.roll(y, -1) - y @ np.roll(x, -1) > 0
    return shape + (width if clockwise else -width) * outwards


def _ink_and_fill(
    sheet: Image.Image, parts: list[Part], fills: dict[int, np.ndarray], ink: np.ndarray, width: int
) -> None:
    pen = ImageDraw.Draw(sheet)
    for part in parts:
        if part.lined:
            _outline(pen, part, _ink(ink), width)
        for shape in part.shapes:
            pen.polygon(_flat(shape), fill=_ink(fills[part.material] * (0.6 + 0.4 * part.shade)))


def _ink(colour: np.ndarray) -> tuple[int, ...]:
    return tuple(_bytes(colour).tolist())


def _cells(rng: Generator) -> np.ndarray:
    """How far each pixel is from the border between two random cells, about 0..1."""
    pixels = np.stack([X[::2, ::2], Y[::2, ::2]], axis=-1)
    nearest, _ = cKDTree(rng.random((70, 2))).query(pixels, k=2)
    border = (nearest[..., 1] - nearest[..., 0]).astype(np.float32) * 12
    return _doubled(border)


def _doubled(image: np.ndarray) -> np.ndarray:
    larger: np.ndarray = image.repeat(2, 0).repeat(2, 1)
    return larger


def _floats(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def _reduced(image: np.ndarray) -> np.ndarray:
    rows = image[::2] + image[1::2]
    means: np.ndarray = (rows[:, ::2] + rows[:, 1::2]) / 4
    return means


def _bytes(image: np.ndarray) -> np.ndarray:
    pixels: np.ndarray = np.clip(np.rint(255 * np.asarray(image)), 0, 255).astype(np.uint8)
    return pixels
