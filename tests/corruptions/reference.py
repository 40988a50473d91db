"""Every corruption for one image, plainly, from the published description and library calls.

Written apart from the package, to be compared with it. Random numbers come in as arguments.
"""

import io
from math import ceil, cos, floor, radians, sin

import cv2
import numpy as np
import skimage.color
import skimage.filters
import skimage.util
from PIL import Image
from scipy import ndimage

SIGMA_GAUSSIAN_NOISE = [0.04, 0.06, 0.08, 0.09, 0.10]
PHOTONS = [500, 250, 100, 75, 50]
IMPULSE = [0.01, 0.02, 0.03, 0.05, 0.07]
SPECKLE = [0.06, 0.10, 0.12, 0.16, 0.20]
GAUSSIAN_BLUR = [0.4, 0.6, 0.7, 0.8, 1.0]
GLASS = [(0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)]
DEFOCUS = [(0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)]
MOTION = [(6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)]
ZOOM = [1.06, 1.11, 1.16, 1.21, 1.26]
FOG = [(0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)]
FROST = [(1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)]
SNOW = [
    (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
    (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
    (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
    (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
    (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
]
SPATTER = [
    (0.62, 0.1, 0.7, 0.7, 0.5, 0),
    (0.65, 0.1, 0.8, 0.7, 0.5, 0),
    (0.65, 0.3, 1, 0.69, 0.5, 0),
    (0.65, 0.1, 0.7, 0.69, 0.6, 1),
    (0.65, 0.1, 0.5, 0.68, 0.6, 1),
]
BRIGHTNESS = [0.05, 0.1, 0.15, 0.2, 0.3]
CONTRAST = [0.75, 0.5, 0.4, 0.3, 0.15]
SATURATE = [(0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)]
JPEG = [80, 65, 58, 50, 40]
PIXELATE = [0.95, 0.9, 0.85, 0.75, 0.65]
ELASTIC = [
    (0, 0, 2.56),
    (1.6, 6.4, 2.24),
    (2.56, 1.92, 1.92),
    (3.2, 1.28, 1.6),
    (3.2, 0.96, 0.96),
]


def finish(values):
    return np.uint8(np.clip(values, 0, 1) * 255)


def gaussian(values, sigma, channels=True):
    return skimage.filters.gaussian(
        values, sigma=sigma, mode="nearest", truncate=4.0, channel_axis=-1 if channels else None
    )


# Noise


def gaussian_noise(image, severity, normal):
    return finish(image / 255.0 + normal * SIGMA_GAUSSIAN_NOISE[severity - 1])


def shot_noise(image, severity, poisson):
    c = PHOTONS[severity - 1]
    return finish(poisson(image / 255.0 * c) / float(c))


def impulse_noise(image, severity, seed):
    noisy = skimage.util.random_noise(
        image / 255.0, mode="s&p", amount=IMPULSE[severity - 1], rng=seed
    )
    return finish(noisy)


def speckle_noise(image, severity, normal):
    x = image / 255.0
    return finish(x + x * (normal * SPECKLE[severity - 1]))


# Blur


def gaussian_blur(image, severity):
    return finish(gaussian(image / 255.0, GAUSSIAN_BLUR[severity - 1]))


def glass_blur(image, severity, steps):
    """``steps[turn, h, w]`` is (dx, dy), each -1 or 0."""
    sigma, _, turns = GLASS[severity - 1]
    x = np.uint8(gaussian(image / 255.0, sigma) * 255)
    for turn in range(turns):
        for h in range(x.shape[0] - 1, 1, -1):
            for w in range(x.shape[1] - 1, 1, -1):
                dx, dy = steps[turn][h][w]
                # Views of one array: this is not the swap that it looks like.
                x[h, w], x[h + dy, w + dx] = x[h + dy, w + dx], x[h, w]
    return finish(gaussian(x / 255.0, sigma))


def defocus_blur(image, severity):
    radius, alias = DEFOCUS[severity - 1]
    grid = np.arange(-8, 9)
    X, Y = np.meshgrid(grid, grid)
    disc = np.array(radius**2 >= X**2 + Y**2, dtype=np.float32)
    disc /= np.sum(disc)
    kernel = cv2.GaussianBlur(disc, ksize=(3, 3), sigmaX=alias)
    x = image / 255.0
    return finish(np.stack([cv2.filter2D(x[..., c], -1, kernel) for c in range(3)], axis=-1))


def magick_motion(image, radius, sigma, angle):
    """Blur one uint8 image of any number of channels."""
    width = 2 * ceil(radius) + 1
    kernel = [np.exp(-(i**2) / (2 * sigma**2)) for i in range(width)]
    kernel = np.array(kernel) / np.sum(kernel)
    total = np.zeros(image.shape, np.float64)
    for i in range(width):
        dx = ceil(i * cos(radians(angle)) - 0.5)
        dy = ceil(i * sin(radians(angle)) - 0.5)
        # out(x, y) takes in(x + dx, y + dy)
        shift = np.float32([[1, 0, -dx], [0, 1, -dy]])
        moved = cv2.warpAffine(
            image,
            shift,
            image.shape[1::-1],
            flags=cv2.INTER_NEAREST,
            borderMode=cv2.BORDER_REPLICATE,
        )
        total += kernel[i] * moved.reshape(image.shape)
    return np.uint8(np.floor(total + 0.5))


def motion_blur(image, severity, angle):
    return magick_motion(image, *MOTION[severity - 1], angle)


def clipped_zoom(image, factor):
    height, width = image.shape[:2]
    ch, cw = ceil(height / factor), ceil(width / factor)
    top, left = floor((height - ch) / 2), floor((width - cw) / 2)
    centre = image[top : top + ch, left : left + cw]
    centre = ndimage.zoom(centre, (factor, factor, 1), order=1)
    top, left = (centre.shape[0] - height) // 2, (centre.shape[1] - width) // 2
    return centre[top : top + height, left : left + width]


def zoom_blur(image, severity):
    x = (image / 255.0).astype(np.float32)
    factors = np.arange(1, ZOOM[severity - 1], 0.01)
    out = np.zeros_like(x)
    for factor in factors:
        out += clipped_zoom(x, factor)
    return finish((x + out) / (len(factors) + 1))


# Weather


def plasma(size, decay, uniform):
    """``uniform`` gives numbers in [-1, 1] in the order in which they are asked for."""
    grid = np.zeros((size, size))
    step, w = size, 100.0
    position = 0
    while step >= 2:
        half = step // 2
        cells = [(r, c) for r in range(0, size, step) for c in range(0, size, step)]
        families = (
            ((half, half), [(-half, -half), (-half, half), (half, -half), (half, half)]),
            ((0, half), [(-half, 0), (half, 0), (0, -half), (0, half)]),
            ((half, 0), [(-half, 0), (half, 0), (0, -half), (0, half)]),
        )
        for (down, right), around in families:
            for r, c in cells:
                y, x = r + down, c + right
                mean = sum(grid[(y + a) % size, (x + b) % size] for a, b in around) / 4
                grid[y, x] = mean + w * (w * uniform[position])
                position += 1
        step, w = half, w / decay
    grid -= grid.min()
    return grid / grid.max()


def plasma_by_arrays(size, decay, uniform):
    """The same, as one would write it for speed."""
    grid = np.zeros((size, size))
    step, w = size, 100.0
    start = 0
    while step >= 2:
        half = step // 2
        n = size // step
        drawn = w * uniform[start : start + 3 * n * n].reshape(3, n, n)
        start += 3 * n * n
        low = grid[::step, ::step]
        total = low + np.roll(low, -1, 0) + np.roll(low, -1, 1) + np.roll(low, (-1, -1), (0, 1))
        high = grid[half::step, half::step] = total / 4 + w * drawn[0]
        total = high + np.roll(high, 1, 0) + low + np.roll(low, -1, 1)
        grid[::step, half::step] = total / 4 + w * drawn[1]
        total = high + np.roll(high, 1, 1) + low + np.roll(low, -1, 0)
        grid[half::step, ::step] = total / 4 + w * drawn[2]
        step, w = half, w / decay
    grid -= grid.min()
    return grid / grid.max()


def fog(image, severity, uniform, grow=plasma):
    amount, decay = FOG[severity - 1]
    height, width = image.shape[:2]
    size = 32
    while size < max(height, width):
        size *= 2
    x = image / 255.0
    top = x.max()
    x = x + amount * grow(size, decay, uniform)[:height, :width, None]
    return finish(x * top / (top + amount))


def shrink(picture, size):
    """Shrink a picture of ice for images whose longer side is ``size``: by 0.2 for 32."""
    scale = size * 0.2 / 32
    return cv2.resize(picture, (0, 0), fx=scale, fy=scale)


def frost(image, severity, picture, row, column):
    """``picture`` is RGB at full size; the crop begins at (row, column) of the small one."""
    image_weight, frost_weight = FROST[severity - 1]
    small = shrink(picture, max(image.shape[:2]))
    crop = small[row : row + image.shape[0], column : column + image.shape[1]]
    return np.uint8(np.clip(image_weight * image + frost_weight * crop, 0, 255))


def snow(image, severity, normal, angle):
    mean, std, zoom, threshold, radius, sigma, blend = SNOW[severity - 1]
    x = np.array(image, dtype=np.float32) / 255.0
    layer = clipped_zoom((normal * std + mean)[..., None], zoom)
    layer[layer < threshold] = 0
    layer = np.uint8(np.clip(layer[..., 0], 0, 1) * 255)
    layer = magick_motion(layer, radius, sigma, angle)[..., None] / 255.0
    grey = cv2.cvtColor(x, cv2.COLOR_RGB2GRAY)[..., None]
    x = blend * x + (1 - blend) * np.maximum(x, grey * 1.5 + 0.5)
    return finish(x + layer + np.rot90(layer, k=2))


# Digital


def spatter(image, severity, normal):
    mean, std, sigma, threshold, amount, mud = SPATTER[severity - 1]
    x = np.array(image, dtype=np.float32) / 255.0
    layer = gaussian(normal * std + mean, sigma, channels=False)
    layer[layer < threshold] = 0
    if mud:
        m = np.where(layer > threshold, 1, 0)
        m = gaussian(m.astype(np.float32), amount, channels=False)
        m[m < 0.8] = 0
        return finish(x * (1 - m[..., None]) + m[..., None] * np.array([63, 42, 20]) / 255)
    layer8 = np.uint8(layer * 255)
    distance = cv2.distanceTransform(255 - cv2.Canny(layer8, 50, 150), cv2.DIST_L2, 5)
    _, distance = cv2.threshold(distance, 20, 20, cv2.THRESH_TRUNC)
    distance = cv2.blur(distance, (3, 3)).astype(np.uint8)
    distance = cv2.equalizeHist(distance)
    kernel = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    distance = cv2.filter2D(distance, cv2.CV_8U, kernel)
    distance = cv2.blur(distance, (3, 3)).astype(np.float32)
    m = layer * distance
    m = m / m.max() * amount
    return finish(x + m[..., None] * np.array([175, 238, 238]) / 255)


def brightness(image, severity):
    hsv = skimage.color.rgb2hsv(image / 255.0)
    hsv[..., 2] = np.clip(hsv[..., 2] + BRIGHTNESS[severity - 1], 0, 1)
    return finish(skimage.color.hsv2rgb(hsv))


def saturate(image, severity):
    factor, offset = SATURATE[severity - 1]
    hsv = skimage.color.rgb2hsv(image / 255.0)
    hsv[..., 1] = np.clip(hsv[..., 1] * factor + offset, 0, 1)
    return finish(skimage.color.hsv2rgb(hsv))


def contrast(image, severity):
    x = image / 255.0
    means = np.mean(x, axis=(0, 1), keepdims=True)
    return finish((x - means) * CONTRAST[severity - 1] + means)


def jpeg_compression(image, severity):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=JPEG[severity - 1])
    return np.array(Image.open(file))


def pixelate(image, severity):
    factor = PIXELATE[severity - 1]
    height, width = image.shape[:2]
    small = Image.fromarray(image).resize((int(width * factor), int(height * factor)), Image.BOX)
    return np.array(small.resize((width, height), Image.BOX))


def warp_by_opencv(image, matrix):
    """Before version 5, positions are rounded to 1/32 pixel here: some levels off at edges."""
    return cv2.warpAffine(image, matrix, image.shape[1::-1], borderMode=cv2.BORDER_REFLECT_101)


def warp(image, matrix):
    back = cv2.invertAffineTransform(matrix)
    rows, columns = np.meshgrid(*(np.arange(n) for n in image.shape[:2]), indexing="ij")
    x, y = np.tensordot(back, np.stack([columns, rows, np.ones_like(rows)]), axes=1)
    channels = [
        ndimage.map_coordinates(image[..., c], (y, x), order=1, mode="mirror") for c in range(3)
    ]
    return np.stack(channels, axis=-1)


def elastic_transform(image, severity, moves, dx=None, dy=None, warp=warp):
    """``moves`` (3, 2) in pixels; ``dx`` and ``dy`` uniform fields in [-1, 1]."""
    height, width = image.shape[:2]
    scale = min(height, width) / 32
    alpha, sigma, _ = (scale * c for c in ELASTIC[severity - 1])
    x = np.array(image, dtype=np.float32) / 255.0
    third = min(height, width) // 3
    cx, cy = width // 2, height // 2
    points = np.float32(
        [[cx + third, cy + third], [cx + third, cy - third], [cx - third, cy - third]]
    )
    matrix = cv2.getAffineTransform(points, np.float32(points + moves))
    x = warp(x, matrix)
    if alpha == 0:
        return finish(x)
    dx = ndimage.gaussian_filter(dx, sigma, mode="reflect", truncate=3) * alpha
    dy = ndimage.gaussian_filter(dy, sigma, mode="reflect", truncate=3) * alpha
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    where = (rows + dy, columns + dx)
    channels = [
        ndimage.map_coordinates(x[..., c], where, order=1, mode="reflect") for c in range(3)
    ]
    return finish(np.stack(channels, axis=-1))
