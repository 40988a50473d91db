"""Weather: fog, frost and snow."""

import numpy as np

from sdgbench.corruptions.blur import motion, zoom_matrix
from sdgbench.corruptions.common import Corruption, to_bytes
from sdgbench.corruptions.frost import FrostOverlays, load_frost
from sdgbench.corruptions.rng import Draws


def plasma(noise: np.ndarray, size: int, decay: float) -> np.ndarray:
    """Grow plasma fractals in [0, 1] by the diamond-square rule on a torus.

    ``noise`` has size**2 - 1 numbers in [-1, 1] per image, in the order of their use. The
    original multiplies the amplitude in twice, so it falls with the square of ``decay``.
    """
    count = len(noise)
    field = np.zeros((count, size, size))
    amplitude, used, step = 100.0, 0, size

    def perturbed(total: np.ndarray) -> np.ndarray:
        nonlocal used
        cells = total.shape[1] * total.shape[2]
        drawn = noise[:, used : used + cells].reshape(total.shape)
        used += cells
        return total / 4 + amplitude * (amplitude * drawn)

    while step >= 2:
        half = step // 2
        corners = field[:, ::step, ::step]
        pairs = corners + np.roll(corners, -1, axis=1)
        centres = perturbed(pairs + np.roll(pairs, -1, axis=2))
        field[:, half::step, half::step] = centres
        sideways = centres + np.roll(centres, 1, axis=1)
        field[:, ::step, half::step] = perturbed(sideways + corners + np.roll(corners, -1, axis=2))
        above = centres + np.roll(centres, 1, axis=2)
        field[:, half::step, ::step] = perturbed(above + corners + np.roll(corners, -1, axis=1))
        step, amplitude = half, amplitude / decay
    field -= field.min(axis=(1, 2), keepdims=True)
    field /= field.max(axis=(1, 2), keepdims=True)
    return field


def fog(images: np.ndarray, level: tuple[float, float], draws: Draws) -> np.ndarray:
    """Add a plasma fractal and scale the brightest value back to where it was."""
    amount, decay = level
    size = 1 << (max(images.shape[1:3]) - 1).bit_length()
    noise = draws.uniform((size * size - 1,), -1, 1)
    return add_fog(images, amount, plasma(noise, size, decay))


def add_fog(images: np.ndarray, amount: float, fields: np.ndarray) -> np.ndarray:
    """Lay the fields, at least as large as the images, over them."""
    values = images / 255.0
    brightest = values.max(axis=(1, 2, 3), keepdims=True)
    values += amount * fields[:, : images.shape[1], : images.shape[2], None]
    values *= brightest / (brightest + amount)
    return to_bytes(values)


def frost(
    images: np.ndarray,
    level: tuple[float, float],
    draws: Draws,
    overlays: FrostOverlays | None = None,
) -> np.ndarray:
    """Mix in a random crop of a random picture of ice."""
    overlays = overlays or load_frost(None)
    height, width = images.shape[1:3]
    return add_frost(images, *level, overlays.crops(height, width, draws.uniform((3,))))


def add_frost(
    images: np.ndarray, image_weight: float, frost_weight: float, crops: np.ndarray
) -> np.ndarray:
    """Add images and crops by their weights, both bytes: so a table of all sums does it."""
    levels = np.arange(256)
    sums = image_weight * levels[:, None] + frost_weight * levels
    table = np.clip(sums, 0, 255).astype(np.uint8).ravel()
    mixed: np.ndarray = table.take((images.astype(np.uint16) << 8) | crops)
    return mixed


def snow(images: np.ndarray, level: tuple[float, ...], draws: Draws) -> np.ndarray:
    """Whiten the scene and let blurred flakes fall."""
    mean, std, zoom, threshold, radius, sigma, blend = level
    # The motion blur is faster on many images at once, the rest on few.
    blocks = [slice(start, start + 64) for start in range(0, len(images), 64)]
    layer = np.empty(images.shape[:3], np.uint8)
    for block in blocks:
        noise = draws[block].normal(images.shape[1:3], mean, std)
        layer[block] = flakes(noise, zoom, threshold)
    angles = draws.uniform((), -135, -45, stream=1)
    layer = motion(layer[..., None], radius, sigma, angles)
    result = np.empty_like(images)
    for block in blocks:
        result[block] = add_snow(images[block], layer[block], blend)
    return result


def flakes(noise: np.ndarray, zoom: float, threshold: float) -> np.ndarray:
    """Make bytes of fields of noise: enlarge their middles, keep what is high."""
    if zoom == 1:
        layer = noise.astype(np.float64)
    else:
        rows, columns = (zoom_matrix(size, zoom) for size in noise.shape[1:])
        layer = rows @ noise @ columns.T
    layer[layer < threshold] = 0
    return to_bytes(layer)


def add_snow(images: np.ndarray, layer: np.ndarray, blend: float) -> np.ndarray:
    """Whiten the images and add a layer of bytes, once as it is and once upside down."""
    values = images.astype(np.float32)
    values /= 255
    grey = 0.299 * values[..., :1] + 0.587 * values[..., 1:2] + 0.114 * values[..., 2:]
    grey *= 1.5
    grey += 0.5
    whiter = np.maximum(values, grey)
    whiter *= 1 - blend
    values *= blend
    values += whiter
    falling = layer / np.float32(255)
    values += falling + falling[:, ::-1, ::-1]
    return to_bytes(values)


CORRUPTIONS = {
    "fog": Corruption(fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
    "frost": Corruption(frost, ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    "snow": Corruption(
        snow,
        (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
        batch=2048,
    ),
}
