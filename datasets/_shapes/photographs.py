"""Photographs of the drawn toys: surfaces, surroundings, light and camera."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from scipy import ndimage

from sdgbench.datasets._shapes.drawings import BIG, FULL, LUMAS, SHADES, SIZE, TURN, draw

TILE = 256  # the side of a noise tile; a power of two, so that wrapping round is a bit mask

Surface = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]

LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
# Sky, cloud, grass, earth, sand, water, stone, wall and wood: the colours of half the scenes.
NATURAL = np.array(
    [
        (0.62, 0.74, 0.88),
        (0.42, 0.58, 0.80),
        (0.85, 0.86, 0.88),
        (0.36, 0.46, 0.22),
        (0.52, 0.56, 0.30),
        (0.46, 0.36, 0.26),
        (0.74, 0.66, 0.52),
        (0.24, 0.38, 0.46),
        (0.50, 0.49, 0.47),
        (0.22, 0.22, 0.24),
        (0.68, 0.60, 0.54),
        (0.55, 0.38, 0.24),
    ],
    dtype=np.float32,
)


def _edge(wave: np.ndarray) -> np.ndarray:
    """A wave of -1..1 as two tones with a soft edge between them."""
    return np.clip(0.5 + 1.6 * wave, 0, 1)


# How far a surface is from an object's first to its second colour, where u and v count periods of
# the pattern along the object's own axes, and noise and fur are random of deviation 1.
SURFACES: dict[str, Surface] = {
    "plain": lambda u, v, noise, fur: 0.1 * noise,
    "stripes": lambda u, v, noise, fur: _edge(np.sin(6.3 * u + 0.25 * noise)),
    "checks": lambda u, v, noise, fur: _edge(2 * np.sin(3.1 * u) * np.sin(3.1 * v)),
    "dots": lambda u, v, noise, fur: _edge(2 * (np.cos(5 * u) + np.cos(5 * v)) - 1.2),
    "fur": lambda u, v, noise, fur: 0.5 + 0.4 * fur + 0.1 * noise,
    "feathers": lambda u, v, noise, fur: _edge(np.sin(6.3 * u + 2.5 * np.abs(v % 2 - 1))),
    "wood": lambda u, v, noise, fur: 0.5 + 0.35 * np.sin(4 * u + 1.3 * noise) + 0.15 * fur,
    "scales": lambda u, v, noise, fur: 1.4 * np.hypot((u + (v // 1) / 2) % 1 - 0.5, v % 1) - 0.2,
    "bricks": lambda u, v, noise, fur: np.maximum((u / 2 + v // 1 / 2) % 1 < 0.2, v % 1 < 0.35),
    "metal": lambda u, v, noise, fur: 0.5 + 0.5 * np.sin(1.2 * v) + 0.1 * fur,
    "leaves": lambda u, v, noise, fur: _edge(0.5 * noise + 0.4 * fur),
}
# What a class is usually made of; otherwise it is made of anything.
USUAL = (
    ("metal", "plain"),
    ("plain", "metal"),
    ("wood", "stripes"),
    ("bricks", "wood"),
    ("checks", "dots"),
    ("feathers", "fur"),
    ("scales", "stripes"),
    ("fur", "stripes"),
    ("plain", "dots"),
    ("leaves", "leaves"),
)
USUALLY = 0.7


def _patterns(
    labels: np.ndarray, turns: np.ndarray, tiles: np.ndarray, rng: Generator
) -> np.ndarray:
    """The surfaces of the objects, turned with them: (count, BIG, BIG) in 0..1."""
    count, names = len(labels), list(SURFACES)
    usual = np.array([[names.index(name) for name in pair] for pair in USUAL])
    kinds = usual[labels, rng.integers(0, 2, count)]
    kinds = np.where(rng.random(count) < USUALLY, kinds, rng.integers(0, len(names), count))
    angle = (turns + rng.normal(0, 0.2, count)).astype(np.float32)[:, None, None]
    y, x = np.mgrid[:BIG, :BIG].astype(np.float32)[:, None]
    u, v = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    noise, fur = (_field(tiles[i], u, v, rng) for i in (1, 2))
    period = rng.uniform(5, 12, (count, 1, 1)).astype(np.float32)  # half as many final pixels
    u, v = u / period, v / period
    for kind, surface in enumerate(SURFACES.values()):
        group = np.flatnonzero(kinds == kind)
        u[group] = surface(*(field[group] for field in (u, v, noise, fur)))
    patterns: np.ndarray = np.clip(u, 0, 1)
    return patterns


def noise_tiles(rng: Generator) -> np.ndarray:
    """Tiles of noise that wrap round: clouds, the 1/f of natural scenes, and strands like fur."""
    y, x = np.meshgrid(np.fft.fftfreq(TILE), np.fft.rfftfreq(TILE), indexing="ij")
    radius = np.hypot(x, y) + 1 / TILE
    strands = np.exp(-((x / 0.2) ** 2) - (y / 0.05) ** 2)
    spectra = np.repeat([radius**-2.2, radius**-1.2, strands], 4, axis=0)
    spectra[:, 0, 0] = 0
    tiles = np.fft.irfft2(np.fft.rfft2(rng.standard_normal((12, TILE, TILE))) * spectra)
    tiles /= tiles.std(axis=(1, 2), keepdims=True)
    return tiles.astype(np.float32).reshape(3, 4, TILE, TILE)


def _field(tiles: np.ndarray, u: np.ndarray, v: np.ndarray, rng: Generator) -> np.ndarray:
    """A piece of a random tile for each image, looked up at that image's own coordinates."""
    start = rng.integers(0, tiles.size, (len(u), 1, 1), dtype=np.int32)
    rows, columns = v.astype(np.int32) * TILE, u.astype(np.int32)
    field: np.ndarray = tiles.ravel()[(rows + columns + start) & (tiles.size - 1)]
    return field


def _uniform(low: float, high: float, count: int, rng: Generator, planes: int = 1) -> np.ndarray:
    return rng.uniform(low, high, (count, planes, 1, 1)).astype(np.float32)


def _colours(count: int, low: float, high: float, rng: Generator) -> np.ndarray:
    """One colour per image, (count, 3, 1, 1), of a luma between `low` and `high`."""
    tint = rng.uniform(-0.5, 0.5, (count, 3)) * rng.random((count, 1))
    tint -= (tint @ LUMA)[:, None]
    return np.clip(_uniform(low, high, count, rng) + tint[..., None, None], 0, 1).astype(np.float32)


def _scene_colours(count: int, rng: Generator) -> np.ndarray:
    natural = NATURAL[rng.integers(0, len(NATURAL), count)][..., None, None]
    natural = natural * _uniform(0.6, 1.1, count, rng) + _uniform(-0.07, 0.07, count, rng, planes=3)
    return np.where(_uniform(0, 1, count, rng) < 0.5, natural, _colours(count, 0.1, 0.9, rng))


def _surroundings(count: int, tiles: np.ndarray, rng: Generator) -> np.ndarray:
    """Backdrop and ground, with a horizon somewhere or nowhere, and clutter out of focus."""
    y, x = np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j].astype(np.float32)

    def chance(low: float, high: float) -> np.ndarray:
        return _uniform(low, high, count, rng)

    def mixed(below: np.ndarray, share: np.ndarray) -> np.ndarray:
        mixture: np.ndarray = below + np.clip(share, 0, 1) * (_scene_colours(count, rng) - below)
        return mixture

    near = chance(10, 40)[:, 0]
    clouds, rough, grass = (_field(tile, x * near, y * near, rng)[:, None] for tile in tiles)
    angle = chance(0, 2 * np.pi)
    slope = (x * np.cos(angle) + y * np.sin(angle)) * chance(0, 0.6)
    image = mixed(_scene_colours(count, rng), 0.4 + slope + 0.25 * clouds) + chance(0, 0.07) * rough
    horizon = y + chance(-0.15, 0.15) * x + 0.06 * clouds - chance(-0.3, 1.6)
    ground = np.clip(0.5 + chance(2, 12) * horizon, 0, 1)
    image = mixed(image, ground)
    image *= 1 + ground * chance(0, 0.25) * np.where(chance(0, 1) < 0.4, grass, rough)
    for _ in range(3):  # discs, panels and rods, at any angle
        angle, dx, dy = chance(0, np.pi), x - chance(-1.2, 1.2), y - chance(-1.2, 1.2)
        u, v = dx * np.cos(angle) + dy * np.sin(angle), dy * np.cos(angle) - dx * np.sin(angle)
        u, v = (u / chance(0.05, 0.9)) ** 2, (v / chance(0.05, 0.5)) ** 2
        inside = 1 - np.where(chance(0, 1) < 0.5, u + v, np.maximum(u, v))
        image = mixed(image, np.clip(chance(0.5, 3) * inside, 0, 1) * chance(-0.4, 0.6))
    return image


def _reduced(plane: np.ndarray) -> np.ndarray:
    rows = plane[:, ::2] + plane[:, 1::2]
    means: np.ndarray = (rows[..., ::2] + rows[..., 1::2]) / 4
    return means


def photograph(labels: np.ndarray, tiles: np.ndarray, rng: Generator) -> np.ndarray:
    count, turns = len(labels), rng.normal(0, TURN[labels])
    fills = np.stack([draw(int(k), t, rng) for k, t in zip(labels, turns, strict=True)])
    material, shade = fills // SHADES, (fills % SHADES).astype(np.float32) / FULL
    layers = [shade * (material == fill // SHADES) for fill in LUMAS]
    layers.append(layers[0] * _patterns(labels, turns, tiles, rng))
    shares = np.stack([_reduced(layer) for layer in layers])
    cover = _reduced((fills > 0).astype(np.float32))[:, None]
    image = _surroundings(count, tiles, rng)

    paints = [_colours(count, low, high, rng)[..., 0, 0] for low, high in LUMAS.values()]
    gap = (paints[0] @ LUMA)[:, None] - image.mean(axis=(1, 2, 3))[:, None]
    paints[0] += np.where(np.abs(gap) < 0.15, np.sign(gap) * 0.15, 0)  # no toy is quite lost
    step = rng.uniform(0.2, 0.6, (count, 1)) * np.where(paints[0] @ LUMA < 0.5, 1, -1)[:, None]
    paints.append(step + rng.uniform(-0.2, 0.2, (count, 3)))  # from first to second body colour
    toy = np.einsum("lnyx,lnc->ncyx", shares, np.array(paints, dtype=np.float32))

    # A blurred outline serves as relief: its slope is what faces the light or turns away.
    relief = ndimage.uniform_filter(ndimage.uniform_filter(cover, (0, 0, 5, 5)), (0, 0, 3, 3))
    angle = _uniform(-0.2, np.pi + 0.2, count, rng)  # the light comes from above
    facing = np.gradient(relief, axis=2) * np.sin(angle) + np.gradient(relief, axis=3) * np.cos(
        angle
    )
    toy *= 1 + _uniform(0.5, 3, count, rng) * facing
    gloss = _uniform(-1, 1, count, rng).clip(0) * np.clip(6 * facing - 0.4, 0, 1) ** 2
    shadow = np.roll(relief, 2, axis=2) * _uniform(0, 0.6, count, rng)
    shadow[:, :, :2] = 0
    image = image * (1 - shadow) * (1 - cover) + toy + gloss * cover

    # The camera: more or less sharp, exposed and tinted, with a little noise.
    soft = ndimage.correlate1d(image, [0.25, 0.5, 0.25], axis=2, mode="nearest")
    soft = ndimage.correlate1d(soft, [0.25, 0.5, 0.25], axis=3, mode="nearest")
    image += _uniform(0, 0.8, count, rng) * (soft - image)
    image -= image.mean(axis=(1, 2, 3), keepdims=True)
    image = image * _uniform(1, 1.7, count, rng) + _uniform(0.33, 0.62, count, rng)
    image *= _uniform(0.94, 1.06, count, rng, planes=3)
    image += _uniform(0.004, 0.02, count, rng) * rng.standard_normal(image.shape, np.float32)
    pixels: np.ndarray = np.clip(np.rint(image * 255), 0, 255).astype(np.uint8)
    return pixels
