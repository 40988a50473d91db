"""The pictures of ice that the frost corruption mixes in: the released ones, or drawn ones."""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from scipy import ndimage

from sdgbench.errors import UserError

# There is a frost6.jpg too, but the original never draws it.
FILES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
SCALE = 0.2 / 32  # the original shrinks the pictures to a fifth for images of 32x32

# The drawn pictures: mean colour and contrast of the released ones, and how thick the ice is.
DRAWN = (
    ((78, 149, 166), (27, 16, 15), 40),
    ((201, 205, 214), (21, 22, 23), 190),
    ((201, 205, 214), (21, 22, 23), 160),
    ((138, 153, 165), (29, 29, 30), 120),
    ((112, 123, 135), (44, 43, 42), 150),
)
DRAWN_SIZE = (600, 400)


class FrostOverlays:
    """Five pictures of ice; ``source`` is "released" or "procedural"."""

    def __init__(self, pictures: tuple[np.ndarray, ...], source: str):
        self.pictures = pictures  # RGB bytes, at full size
        self.source = source
        self._scaled: dict[int, list[np.ndarray]] = {}

    def scaled(self, size: int) -> list[np.ndarray]:
        """Return the pictures for images whose longer side is ``size``."""
        if size not in self._scaled:
            self._scaled[size] = [_resize(picture, size * SCALE) for picture in self.pictures]
        return self._scaled[size]

    def crops(self, height: int, width: int, chances: np.ndarray) -> np.ndarray:
        """Cut (N, H, W, 3); three numbers in [0, 1) per crop choose the picture, row and column."""
        result = np.empty((len(chances), height, width, 3), np.uint8)
        pictures = self.scaled(max(height, width))
        chosen = (chances[:, 0] * len(pictures)).astype(int)
        for number, picture in enumerate(pictures):
            here = np.flatnonzero(chosen == number)
            room = np.array(picture.shape[:2]) - (height, width)
            top, left = (chances[here, 1:] * room).astype(int).T
            windows = np.lib.stride_tricks.sliding_window_view(picture, (height, width), (0, 1))
            result[here] = windows[top, left].transpose(0, 2, 3, 1)
        return result


def load_frost(folder: Path | None) -> FrostOverlays:
    """Load the released pictures if the folder has all five, else draw some."""
    if folder is None or not all((folder / name).is_file() for name in FILES):
        return _procedural()
    pictures = []
    for name in FILES:
        try:
            with Image.open(folder / name) as file:
                pictures.append(np.array(file.convert("RGB")))
        except OSError as error:
            raise UserError(
                f"Cannot read {folder / name} as a picture. Download it again or remove it."
            ) from error
        if min(pictures[-1].shape[:2]) < 200:
            raise UserError(f"{folder / name} is not the released picture: it is too small.")
    return FrostOverlays(tuple(pictures), "released")


def _resize(picture: np.ndarray, scale: float) -> np.ndarray:
    """Interpolate between the nearest pixels, without smoothing first, as the original does."""
    rows, columns = (_taps(length, scale) for length in picture.shape[:2])
    values = picture.astype(np.float64)
    values = values[rows[0]] * (1 - rows[2]) + values[rows[1]] * rows[2]
    fraction = columns[2].reshape(-1, 1)
    values = values[:, columns[0]] * (1 - fraction) + values[:, columns[1]] * fraction
    resized: np.ndarray = np.rint(values).astype(np.uint8)
    return resized


def _taps(length: int, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    centres = (np.arange(round(length * scale)) + 0.5) / scale - 0.5
    centres = centres.clip(0, length - 1)
    low = np.floor(centres).astype(int)
    return low, np.minimum(low + 1, length - 1), (centres - low).reshape(-1, 1, 1)


@lru_cache(maxsize=1)
def _procedural() -> FrostOverlays:
    return FrostOverlays(tuple(draw_ice(number) for number in range(len(DRAWN))), "procedural")


def draw_ice(number: int) -> np.ndarray:
    """Draw fern-like crystals on clouded glass, always the same for one number."""
    colour, spread, ferns = DRAWN[number]
    width, height = DRAWN_SIZE
    rng = np.random.default_rng(number)
    canvas = Image.new("L", DRAWN_SIZE, 90)
    pen = ImageDraw.Draw(canvas)
    for _ in range(ferns):
        x, y, heading, length, shade = rng.uniform(
            (-20, -20, 0, 30, 130), (width + 20, height + 20, 2 * math.pi, 110, 256)
        ).tolist()
        _draw_fern(pen, rng, x, y, heading, length, int(shade), depth=3)
    ice = ndimage.gaussian_filter(np.asarray(canvas, dtype=float), 0.7)
    # Clouds are smooth: filter them small, then enlarge.
    clouds, *tint = (
        ndimage.zoom(ndimage.gaussian_filter(layer, 4.5, mode="wrap"), 10, order=1)
        for layer in rng.normal(size=(4, height // 10, width // 10))
    )
    grain = rng.normal(size=(height, width))
    relief = _standard(ice) + 0.6 * _standard(clouds) + 0.2 * grain
    coloured = relief[..., None] + 0.1 * _standard(np.stack(tint, axis=-1))
    picture = _standard(coloured) * spread + colour
    return np.clip(picture, 0, 255).astype(np.uint8)


def _standard(values: np.ndarray) -> np.ndarray:
    standard: np.ndarray = (values - values.mean(axis=(0, 1))) / values.std(axis=(0, 1))
    return standard


def _draw_fern(
    pen: ImageDraw.ImageDraw,
    rng: np.random.Generator,
    x: float,
    y: float,
    heading: float,
    length: float,
    shade: int,
    depth: int,
) -> None:
    """Draw a stem with side branches at 60 degrees, as ice grows, and so on within them."""
    pieces = max(3, int(length / 7))
    bend, *chances = rng.random(1 + 2 * pieces).tolist()
    for piece in range(pieces):
        heading += 0.12 * (bend - 0.5)
        start = x, y
        x += length / pieces * math.cos(heading)
        y += length / pieces * math.sin(heading)
        pen.line((*start, x, y), fill=shade, width=2 if depth == 3 else 1)
        if depth > 1 and length > 8:
            reach = length * (1 - piece / pieces) * (0.25 + 0.25 * chances[2 * piece])
            dimmer = int(shade * (0.75 + 0.25 * chances[2 * piece + 1]))
            for side in (-1, 1):
                turn = heading + side * math.pi / 3
                _draw_fern(pen, rng, x, y, turn, reach, dimmer, depth - 1)
