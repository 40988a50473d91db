"""Spatter: drops of water that catch the light, or mud.

The water's shading needs edges, distances and an equalised histogram. They follow OpenCV's rules
for eight-bit images, step by step, for a whole batch at once.
"""

import numpy as np
from scipy import ndimage

from sdgbench.corruptions.common import Corruption, gauss, to_bytes
from sdgbench.corruptions.rng import Draws

WATER = np.array([175, 238, 238], np.float32) / 255
MUD = np.array([63, 42, 20], np.float32) / 255
# Steps of the distance in units of 1/65536: straight, diagonal and the knight's move.
STRAIGHT, DIAGONAL, KNIGHT = 65536, round(1.4 * 65536), round(2.1969 * 65536)


def edges(images: np.ndarray, low: int = 50, high: int = 150) -> np.ndarray:
    """Find the edges of bytes (N, H, W) by Canny's rule with the 3x3 Sobel operator."""
    padded = np.pad(images.astype(np.int32), ((0, 0), (1, 1), (1, 1)), mode="edge")
    rows = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    columns = padded[..., :-2] + 2 * padded[..., 1:-1] + padded[..., 2:]
    dx = rows[..., 2:] - rows[..., :-2]
    dy = columns[:, 2:] - columns[:, :-2]
    strength = np.pad(np.abs(dx) + np.abs(dy), ((0, 0), (1, 1), (1, 1)))
    here = strength[:, 1:-1, 1:-1]

    def neighbour(right: int, down: int) -> np.ndarray:
        height, width = here.shape[1:]
        return strength[:, 1 + down : 1 + down + height, 1 + right : 1 + right + width]

    # Only a ridge counts: compare across the edge, in one of four directions. The bounds are
    # 22.5 and 67.5 degrees; ties go to the left and upper pixel, but on diagonals to none.
    steep = np.abs(dy) << 15
    flat = np.abs(dx) * round(0.4142135623730950488 * (1 << 15))
    falling = (dx ^ dy) >= 0
    horizontal = (here > neighbour(-1, 0)) & (here >= neighbour(1, 0))
    vertical = (here > neighbour(0, -1)) & (here >= neighbour(0, 1))
    diagonal = np.where(
        falling,
        (here > neighbour(-1, -1)) & (here > neighbour(1, 1)),
        (here > neighbour(1, -1)) & (here > neighbour(-1, 1)),
    )
    ridge = np.where(steep < flat, horizontal, diagonal)
    ridge = np.where(steep > flat + (np.abs(dx) << 16), vertical, ridge)
    weak = ridge & (here > low)
    strong = weak & (here > high)
    # A weak edge stays if it is connected to a strong one, within its own image.
    neighbours = np.zeros((3, 3, 3), bool)
    neighbours[1] = True
    labels, count = ndimage.label(weak, neighbours)
    has_strong = np.zeros(count + 1, bool)
    has_strong[labels[strong]] = True
    edge: np.ndarray = has_strong[labels]
    return edge


def distances(marked: np.ndarray, most: int = 20) -> np.ndarray:
    """Return each pixel's distance to the nearest marked one, by steps of a 5x5 mask.

    Two sweeps, down and up. Within a row, the running minimum does the sideways steps.
    """
    count, height, width = marked.shape
    far = (most + 1) * STRAIGHT
    field = np.full((height + 4, width + 4, count), far, np.int32)
    inner = field[2:-2, 2:-2]
    inner[marked.transpose(1, 2, 0)] = 0
    ramp = (np.arange(width, dtype=np.int32) * STRAIGHT)[:, None]
    for sweep in (field, field[::-1, ::-1]):
        for row in range(2, height + 2):
            line = sweep[row, 2:-2]
            above, further = sweep[row - 1], sweep[row - 2]
            nearest = np.minimum(above[1 : width + 1], above[3 : width + 3]) + DIAGONAL
            np.minimum(nearest, above[2:-2] + STRAIGHT, out=nearest)
            jumps = np.minimum(above[:width], above[4:])
            np.minimum(jumps, further[1 : width + 1], out=jumps)
            np.minimum(jumps, further[3 : width + 3], out=jumps)
            np.minimum(nearest, jumps + KNIGHT, out=nearest)
            np.minimum(nearest, line, out=nearest)
            nearest -= ramp
            np.minimum.accumulate(nearest, axis=0, out=nearest)
            np.add(nearest, ramp, out=line)
    capped = np.minimum(inner, most * STRAIGHT).astype(np.float32)
    return np.ascontiguousarray((capped / STRAIGHT).transpose(2, 0, 1))


def _box_sum(values: np.ndarray) -> np.ndarray:
    padded = np.pad(values, ((0, 0), (1, 1), (1, 1)), mode="reflect")
    rows = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    total: np.ndarray = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    return total


def equalise(images: np.ndarray, levels: int) -> np.ndarray:
    """Spread the histogram of bytes (N, H, W) that are below ``levels`` over 0 to 255."""
    count = len(images)
    pixels = images[0].size
    coded = images.reshape(count, -1) + np.arange(count)[:, None] * levels
    histogram = np.bincount(coded.ravel(), minlength=count * levels).reshape(count, levels)
    first = (histogram > 0).argmax(axis=1)
    lowest = histogram[np.arange(count), first]
    flat = lowest == pixels
    scale = np.float32(255) / np.where(flat, 1, pixels - lowest).astype(np.float32)
    above = (histogram.cumsum(axis=1) - lowest[:, None]).clip(0).astype(np.float32)
    table = np.rint(above * scale[:, None]).astype(np.uint8)
    table[flat] = first[flat, None]  # a single level stays what it is
    equalised: np.ndarray = table.ravel()[coded].reshape(images.shape)
    return equalised


def shading(layer: np.ndarray) -> np.ndarray:
    """Return how drops shine: bright on one side of what lies far from edges."""
    most = 20
    depth = distances(edges((layer * 255).astype(np.uint8)), most)
    depth = (_box_sum(depth.astype(np.float64)) * (1 / 9)).astype(np.float32).astype(np.uint8)
    padded = np.pad(equalise(depth, most + 1).astype(np.int32), ((0, 0), (1, 1), (1, 1)), "reflect")
    height, width = layer.shape[1:]
    relief = np.zeros(layer.shape, np.int32)
    for down, weights in enumerate(((-2, -1, 0), (-1, 1, 1), (0, 1, 2))):
        for right, weight in enumerate(weights):
            if weight:
                relief += weight * padded[:, down : down + height, right : right + width]
    return (_box_sum(relief.clip(0, 255)) + 4) // 9


def spatter(images: np.ndarray, level: tuple[float, ...], draws: Draws) -> np.ndarray:
    """Throw water (severities 1 to 3) or mud (4 and 5) at the lens."""
    mean, std, sigma, threshold, amount, mud = level
    noise = draws.normal(images.shape[1:3], mean, std)
    return (add_mud if mud else add_water)(images, noise, sigma, threshold, amount)


def _drops(noise: np.ndarray, sigma: float, threshold: float) -> np.ndarray:
    layer = gauss(noise.astype(np.float64), sigma)
    layer[layer < threshold] = 0
    return layer


def add_water(
    images: np.ndarray, noise: np.ndarray, sigma: float, threshold: float, amount: float
) -> np.ndarray:
    """Turn the highest noise into drops of water."""
    layer = _drops(noise, sigma, threshold)
    mask = layer * shading(layer)
    top = mask.max(axis=(1, 2), keepdims=True)
    mask *= amount / np.where(top > 0, top, 1)
    values = images.astype(np.float32)
    values /= 255
    values += mask.astype(np.float32)[..., None] * WATER
    return to_bytes(values)


def add_mud(
    images: np.ndarray, noise: np.ndarray, sigma: float, threshold: float, amount: float
) -> np.ndarray:
    """Turn the highest noise into mud."""
    mask = (_drops(noise, sigma, threshold) > threshold).astype(np.float32)
    mask = gauss(mask, amount)
    mask[mask < 0.8] = 0
    values = images.astype(np.float32)
    values /= 255
    values *= (1 - mask)[..., None]
    values += mask[..., None] * MUD
    return to_bytes(values)


CORRUPTIONS = {
    "spatter": Corruption(
        spatter,
        (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
        batch=256,
    ),
}
