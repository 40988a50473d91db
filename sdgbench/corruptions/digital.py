"""What cameras and files do to images: tone, compression, pixels and warps."""

import io
import math
from functools import lru_cache

import numpy as np
import torch
from PIL import Image
from scipy import ndimage

from sdgbench.corruptions.common import Corruption, to_bytes
from sdgbench.corruptions.rng import Draws


def contrast(images: np.ndarray, factor: float, draws: Draws) -> np.ndarray:
    """Pull each channel towards its mean over the image."""
    values = images / 255.0
    means = values.mean(axis=(1, 2), keepdims=True)
    values -= means
    values *= factor
    values += means
    return to_bytes(values)


class HSV:
    """Images as hue, saturation and value, and back.

    The order of operations is that of scikit-image: results are cut off, so a rounding error in
    the last bit is a whole grey level wherever the exact result is whole.
    """

    def __init__(self, images: np.ndarray):
        red, green, blue = np.moveaxis(images, -1, 0) / 255.0
        self.value = np.maximum(np.maximum(red, green), blue)
        delta = self.value - np.minimum(np.minimum(red, green), blue)
        grey = delta == 0
        self.saturation = delta / np.where(grey, 1, self.value)
        delta[grey] = 1
        hue = np.where(red == self.value, (green - blue) / delta, 0.0)
        hue = np.where(green == self.value, 2 + (blue - red) / delta, hue)
        hue = np.where(blue == self.value, 4 + (red - green) / delta, hue)
        hue /= 6
        hue += hue < 0
        hue[grey] = 0
        self.hue = hue

    def to_bytes(self) -> np.ndarray:
        """Return the images, cut off to bytes."""
        sextant = self.hue * 6
        whole = np.floor(sextant)
        sextant -= whole
        value, saturation = self.value, self.saturation
        choices = np.stack(
            [
                value,
                value * (1 - saturation),
                value * (1 - sextant * saturation),
                value * (1 - (1 - sextant) * saturation),
            ]
        )
        coded = to_bytes(choices).reshape(4, -1)
        # Which of the four each channel takes, in each sixth of the circle (and at its end).
        orders = np.array(
            [[0, 3, 1], [2, 0, 1], [1, 0, 3], [1, 2, 0], [3, 1, 0], [0, 1, 2], [0, 3, 1]]
        )
        pixels = coded.shape[1]
        chosen = (orders * pixels).astype(np.int32)[whole.astype(np.intp).ravel()]
        chosen += np.arange(pixels, dtype=np.int32)[:, None]
        images: np.ndarray = coded.ravel().take(chosen).reshape(*value.shape, 3)
        return images


def brightness(images: np.ndarray, add: float, draws: Draws) -> np.ndarray:
    """Raise the value in HSV."""
    colours = HSV(images)
    colours.value = np.clip(colours.value + add, 0, 1)
    return colours.to_bytes()


def saturate(images: np.ndarray, level: tuple[float, float], draws: Draws) -> np.ndarray:
    """Scale and raise the saturation in HSV."""
    colours = HSV(images)
    colours.saturation = np.clip(colours.saturation * level[0] + level[1], 0, 1)
    return colours.to_bytes()


def jpeg_compression(images: np.ndarray, quality: int, draws: Draws) -> np.ndarray:
    """Save as JPEG and load."""
    result = np.empty_like(images)
    for position, image in enumerate(images):
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality)
        result[position] = Image.open(file)
    return result


def pixelate(images: np.ndarray, factor: float, draws: Draws) -> np.ndarray:
    """Shrink by area and enlarge again.

    Stacked, the images are one tall picture that shrinks by the same ratio: every pixel of the
    small picture lies within one image, so they do not mix.
    """
    height = images.shape[1]
    small = int(height * factor)
    # If the middle of a pixel falls on a border between two, the rounding error of the position
    # decides, and that depends on the stack.
    undecided = small // math.gcd(small, height) % 2 == 0
    if undecided:
        return np.concatenate([_pixelate(image[None], factor) for image in images])
    return _pixelate(images, factor)


def _pixelate(images: np.ndarray, factor: float) -> np.ndarray:
    count, height, width, _ = images.shape
    small = int(width * factor), int(height * factor) * count
    tower = Image.fromarray(np.ascontiguousarray(images).reshape(count * height, width, 3))
    # Each pass rounds, and Pillow's order of passes depends on the shape: keep to rows first.
    for size in ((small[0], tower.height), small, (width, small[1]), (width, tower.height)):
        tower = tower.resize(size, Image.Resampling.BOX)
    return np.array(tower).reshape(images.shape)


@lru_cache
def _smoothing(size: int, sigma: float) -> np.ndarray:
    """Return the matrix of a Gaussian filter along a line whose border is mirrored."""
    matrix: np.ndarray = ndimage.gaussian_filter1d(
        np.eye(size), sigma, axis=0, mode="reflect", truncate=3
    )
    return matrix


def elastic_transform(
    images: np.ndarray, level: tuple[float, float, float], draws: Draws
) -> np.ndarray:
    """Warp: a random affine map, then a random smooth displacement.

    The three constants are lengths, given for 32 pixels; they grow with the image.
    """
    height, width = images.shape[1:3]
    alpha, sigma, reach = (constant * min(height, width) / 32 for constant in level)
    moved = draws.uniform((3, 2), -reach, reach)
    if alpha == 0:
        return elastic(images, moved)
    noise = draws.uniform((2, height, width), -1, 1, stream=1)
    return elastic(images, moved, noise, alpha, sigma)


def elastic(
    images: np.ndarray,
    moved: np.ndarray,
    noise: np.ndarray | None = None,
    alpha: float = 0.0,
    sigma: float = 0.0,
) -> np.ndarray:
    """Move three points (x, y) of each image by ``moved``, then displace along smoothed noise."""
    count, height, width, _ = images.shape
    centre = np.array([width // 2, height // 2])
    arm = min(height, width) // 3
    before = centre + np.array([[arm, arm], [arm, -arm], [-arm, -arm]])
    # The map from the result back to the image, from where the points are to where they were:
    # per image three rows, what (x, y) gain from each x, from each y, and from the start.
    after = np.concatenate([before + moved, np.ones((count, 3, 1))], axis=2)
    back = np.linalg.solve(after, np.broadcast_to(before.astype(float), (count, 3, 2)))
    columns, rows = np.arange(width)[:, None], np.arange(height)[:, None]
    along = columns * back[:, None, 0] + back[:, None, 2]
    points = along[:, None] + (rows * back[:, None, 1])[:, :, None]
    values = torch.from_numpy(np.ascontiguousarray(np.moveaxis(images, -1, 1))).float() / 255
    values = _resample(values, points, repeat_border=False)
    if noise is not None:
        displaced = np.empty((count, height, width, 2))
        across, down = _smoothing(width, sigma).T * alpha, _smoothing(height, sigma)
        np.add(down @ noise[:, 0] @ across, columns.T, out=displaced[..., 0])
        np.add(down @ noise[:, 1] @ across, rows, out=displaced[..., 1])
        values = _resample(values, displaced, repeat_border=True)
    return to_bytes(values.permute(0, 2, 3, 1).contiguous().numpy())


def _resample(images: torch.Tensor, points: np.ndarray, repeat_border: bool) -> torch.Tensor:
    """Interpolate (N, C, H, W) at points (N, H, W, xy), which it overwrites.

    The border is mirrored: about the edge of the last pixel, which so repeats, or its middle.
    """
    # Whole numbers of pixels to [-1, 1], as the sampler wants it: between edges or middles.
    sizes = np.array([images.shape[3], images.shape[2]], dtype=float)
    points *= 2 / (sizes if repeat_border else sizes - 1)
    points += (1 / sizes - 1) if repeat_border else -1
    return torch.nn.functional.grid_sample(
        images,
        torch.from_numpy(points).float(),
        padding_mode="reflection",
        align_corners=not repeat_border,
    )


CORRUPTIONS = {
    "brightness": Corruption(brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    "contrast": Corruption(contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    "saturate": Corruption(saturate, ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))),
    "jpeg_compression": Corruption(jpeg_compression, (80, 65, 58, 50, 40)),
    "pixelate": Corruption(pixelate, (0.95, 0.9, 0.85, 0.75, 0.65)),
    "elastic_transform": Corruption(
        elastic_transform,
        (
            (0, 0, 2.56),
            (1.6, 6.4, 2.24),
            (2.56, 1.92, 1.92),
            (3.2, 1.28, 1.6),
            (3.2, 0.96, 0.96),
        ),
    ),
}
