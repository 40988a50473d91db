"""The domains of `digits-mini`, a small embedded twin of the Digits benchmark.

The source domain is the handwriting that ships with scikit-learn, shown the way MNIST is. The four
unseen domains imitate what separates MNIST from the usual targets: `texture` (MNIST-M), `street`
(SVHN), `printed` (SYN, the Synthetic Digits) and `scan` (USPS). The real data sets are only
mimicked: not one of their images is used. Nothing is read but scikit-learn's digits and the
TrueType fonts inside the matplotlib package, and all randomness comes from the generator that is
passed in, so the same generator state gives the same images.
"""

from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
from numpy.random import Generator
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont
from scipy import ndimage
from scipy.spatial import cKDTree
from sklearn.datasets import load_digits

from sdgbench.data.domain import Arrays

SIZE = 32
BIG = 3 * SIZE  # glyphs are drawn at three times the size and reduced, which anti-aliases them
CANVAS = 2 * BIG  # room around the frame, so that turning and shifting never show an empty border

# Upright and slanted, thin and bold, with and without serifs. DejaVu Sans Mono is left out because
# its zero carries a mark inside, and cmmi10 because its digits are old-style (x-height) ones.
PRINT_FONTS = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralBolIta",
    "cmr10",
    "cmb10",
    "cmss10",
    "cmtt10",
)
STREET_FONTS = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-BoldOblique",
    "DejaVuSerif-Bold",
    "STIXGeneralBol",
    "cmb10",
    "cmss10",
)

# Dark to light colour families for the textures: earth, leaves, stone, sky and sand, sea, flowers.
PALETTES = np.array(
    [
        [(52, 34, 20), (128, 88, 52), (214, 178, 128)],
        [(18, 36, 12), (70, 108, 36), (176, 190, 96)],
        [(48, 48, 52), (122, 118, 112), (206, 202, 194)],
        [(96, 74, 48), (112, 152, 196), (226, 232, 240)],
        [(10, 34, 58), (32, 104, 128), (168, 214, 208)],
        [(60, 20, 44), (188, 54, 62), (240, 198, 90)],
    ],
    dtype=np.float32,
)
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def handwriting() -> Arrays:
    """All 1,797 images of scikit-learn as (N, 32, 32) grey, white on black, and their labels."""
    bitmaps, labels = load_digits(return_X_y=True)
    # One empty pixel all round before scaling by three keeps strokes at the edge rounded.
    padded = np.pad(bitmaps.reshape(-1, 8, 8) / 16.0, ((0, 0), (1, 1), (1, 1)))
    smooth = np.stack([_resize(bitmap, 30, 30, Image.Resampling.LANCZOS) for bitmap in padded])
    solid = np.clip((smooth - 0.25) / 0.55, 0.0, 1.0)
    return _bytes(np.pad(solid, ((0, 0), (1, 1), (1, 1))) * 255), labels.astype(np.uint8)


def texture(grey: np.ndarray, labels: np.ndarray, rng: Generator) -> Arrays:
    """Like MNIST-M: |texture - digit| per channel, on random crops of colour textures."""
    bank = np.stack([_texture(kind, rng) for kind in range(len(TEXTURES)) for _ in range(14)])
    crops = np.empty((len(grey), SIZE, SIZE, 3), dtype=np.float32)
    for i in range(len(grey)):
        top, left = rng.integers(0, CANVAS - SIZE, 2)
        crop = bank[rng.integers(len(bank)), top : top + SIZE, left : left + SIZE]
        crops[i] = np.rot90(crop, int(rng.integers(4))) * rng.uniform(0.7, 1.1)
    blended = np.abs(np.clip(crops, 0, 255) - grey[..., None].astype(np.float32))
    return _channels_first(blended), labels.astype(np.uint8)


def street(count: int, rng: Generator) -> Arrays:
    """Like SVHN: close crops of house numbers, with the neighbouring digits cut off."""
    labels = _balanced(count, rng)
    photos = np.stack([_street_photo(int(label), rng) for label in labels])
    return _channels_first(photos), labels


def printed(count: int, rng: Generator) -> Arrays:
    """Like SYN: printed digits in random colours, turned, scaled and moved, some with clutter."""
    labels = _balanced(count, rng)
    prints = np.stack([_printed_image(int(label), rng) for label in labels])
    return _channels_first(prints), labels


def scan(grey: np.ndarray, labels: np.ndarray, rng: Generator) -> Arrays:
    """Like USPS: cropped to the bounding box, stretched to the frame, sampled at 16x16."""
    images = _bytes(np.stack([_scanned(digit, rng) for digit in grey]))
    return np.repeat(images[:, None], 3, axis=1), labels.astype(np.uint8)


def _bytes(values: np.ndarray) -> np.ndarray:
    pixels: np.ndarray = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return pixels


def _channels_first(images: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(_bytes(images).transpose(0, 3, 1, 2))


def _balanced(count: int, rng: Generator) -> np.ndarray:
    return rng.permutation(np.arange(count) % 10).astype(np.uint8)


def _resize(plane: np.ndarray, width: int, height: int, how: Image.Resampling) -> np.ndarray:
    return np.asarray(Image.fromarray(plane.astype(np.float32)).resize((width, height), how))


def _clouds(rng: Generator, size: int, cells: tuple[int, ...], fade: float) -> np.ndarray:
    """Smooth noise of about -1..1: one octave per grid width in `cells`, each `fade` the last."""
    total = np.zeros((size, size), dtype=np.float32)
    for octave, cell in enumerate(cells):
        grid = rng.uniform(-1, 1, (cell, cell))
        total += fade**octave * _resize(grid, size, size, Image.Resampling.BICUBIC)
    return total / sum(fade**octave for octave in range(len(cells)))


def _luma(colours: np.ndarray) -> np.ndarray:
    """The brightness of colours; not a matrix product, whose roundings depend on the CPU."""
    red, green, blue = (colours[..., channel] * LUMA[channel] for channel in range(3))
    brightness: np.ndarray = red + green + blue
    return brightness


def _colour(rng: Generator, luma: float, saturation: float) -> np.ndarray:
    """A random colour of about the given luma (0..255)."""
    tint = rng.uniform(-1, 1, 3).astype(np.float32)
    return np.clip(luma + saturation * (tint - tint @ LUMA), 0, 255)


def _colour_pair(
    rng: Generator, contrast: float, saturation: float, light_ink: float
) -> tuple[np.ndarray, np.ndarray]:
    """Colours of ground and ink, `contrast` apart; the ink is the lighter by that chance."""
    low = rng.uniform(25, 245 - contrast)
    dark, light = (_colour(rng, luma, saturation) for luma in (low, low + contrast))
    return (dark, light) if rng.random() < light_ink else (light, dark)


def _paint(value: np.ndarray, palette: np.ndarray) -> np.ndarray:
    """Colours for values of about -1..1, from the palette's first colour to its last."""
    stops = np.linspace(-0.7, 0.7, len(palette))
    return np.stack([np.interp(value, stops, palette[:, c]) for c in range(3)], axis=-1)


def _cloudy(rng: Generator) -> np.ndarray:
    return 1.6 * _clouds(rng, CANVAS, (5, 11, 23, 47, 95), 0.65)


def _striped(rng: Generator) -> np.ndarray:
    """Wood, water or zebra: waves across one direction, bent by noise."""
    y, x = np.mgrid[:CANVAS, :CANVAS] / CANVAS
    angle, waves = rng.uniform(0, np.pi), rng.uniform(10, 34)
    phase = 2 * np.pi * waves * (x * np.cos(angle) + y * np.sin(angle))
    bent = np.sin(phase + rng.uniform(1, 5) * _clouds(rng, CANVAS, (4, 9, 19), 0.6))
    values: np.ndarray = 0.6 * np.tanh(rng.uniform(0.7, 2.5) * bent) + 0.5 * _cloudy(rng)
    return values


def _stony(rng: Generator) -> np.ndarray:
    """Pebbles or cracked stone: Voronoi cells of their own shade, dark along the joints."""
    cells = int(rng.integers(80, 500))
    y, x = np.mgrid[:CANVAS, :CANVAS]
    pixels = np.stack([y, x], axis=-1).reshape(-1, 2)
    distance, nearest = cKDTree(rng.uniform(0, CANVAS, (cells, 2))).query(pixels, k=2)
    joint = np.clip((distance[:, 1] - distance[:, 0]) / 4, 0, 1)
    shade = rng.uniform(-0.3, 0.8, cells)[nearest[:, 0]]
    values: np.ndarray = (joint * (shade + 0.8) - 0.8).reshape(CANVAS, CANVAS) + 0.4 * _cloudy(rng)
    return values


def _leafy(rng: Generator) -> np.ndarray:
    """Foliage or grass: pointed leaves of one rough direction, lighter the nearer they lie."""
    image = Image.new("F", (CANVAS, CANVAS), -0.8)
    pen, lean, length = ImageDraw.Draw(image), rng.uniform(0, np.pi), rng.uniform(8, 22)
    for depth in np.linspace(-0.7, 0.6, 500):
        middle, turn = rng.uniform(0, CANVAS, 2), lean + rng.normal(0, 0.6)
        along = length * np.array([np.cos(turn), np.sin(turn)])
        across = np.array([-along[1], along[0]]) * 0.22
        leaf = [middle + along, middle + across, middle - along, middle - across]
        pen.polygon([(float(p[0]), float(p[1])) for p in leaf], fill=depth + rng.normal(0, 0.3))
    values: np.ndarray = ndimage.gaussian_filter(np.asarray(image), 0.8) + 0.2 * _cloudy(rng)
    return values


def _graded(rng: Generator) -> np.ndarray:
    """Open sky or a wall in slanting light: a slow gradient with little detail."""
    y, x = np.mgrid[-1 : 1 : CANVAS * 1j, -1 : 1 : CANVAS * 1j]
    angle = rng.uniform(0, 2 * np.pi)
    values: np.ndarray = 0.8 * (x * np.cos(angle) + y * np.sin(angle)) + 0.35 * _cloudy(rng)
    return values


TEXTURES = (_cloudy, _striped, _stony, _leafy, _graded)


def _texture(kind: int, rng: Generator) -> np.ndarray:
    """One texture in a varied palette, with patches of other colours so that it looks natural."""
    order = rng.permutation(3) if rng.random() < 0.5 else np.arange(3)
    palette = PALETTES[rng.integers(len(PALETTES)), order] + rng.normal(0, 18, (3, 3))
    tint = np.stack([_clouds(rng, CANVAS, (4, 12, 60), 0.8) for _ in range(3)], axis=-1)
    texture: np.ndarray = _paint(TEXTURES[kind](rng), palette) + 45 * tint
    return texture


@cache
def _glyph(font: str, digit: int) -> Image.Image:
    """One digit as a coverage mask, cropped to its ink.

    A missing font or glyph is an error, not a reason to take another: it would change the data.
    """
    path = Path(matplotlib.get_data_path(), "fonts", "ttf", f"{font}.ttf")
    mask = Image.new("L", (CANVAS, CANVAS))
    font_file = ImageFont.truetype(str(path), 128)
    ImageDraw.Draw(mask).text((40, 20), str(digit), fill=255, font=font_file)
    if (ink := mask.getbbox()) is None:
        raise ValueError(f"{path} has no glyph for {digit}")
    return mask.crop(ink)


def _number(
    label: int, font: str, height: int, stretch: float, neighbours: float, rng: Generator
) -> Image.Image:
    """A mask with `label` in the middle and, by chance `neighbours` each, a digit on its sides."""
    mask = Image.new("L", (CANVAS, CANVAS))

    def put(digit: int, side: int, start: float) -> float:
        glyph = _glyph(font, digit)
        width = max(4, round(glyph.width * height / glyph.height * stretch))
        left = round(start + (side - 1) * width / 2)
        mask.paste(glyph.resize((width, height)), (left, (CANVAS - height) // 2))
        return width

    # A narrow digit (1) still takes a normal cell, so that its neighbours stay at the sides.
    cell = max(put(label, 0, CANVAS / 2), 0.55 * height * stretch)
    gap = rng.uniform(0.06, 0.2) * height
    for side in (-1, 1):
        if rng.random() < neighbours:
            put(int(rng.integers(10)), side, CANVAS / 2 + side * (cell / 2 + gap))
    return mask


def _view(
    mask: Image.Image, angle: float, shift: float, warp: float, rng: Generator
) -> Image.Image:
    """The BIG x BIG frame seen by a camera that is turned, moved and not quite square to it."""
    corners = np.array([(-1, -1), (-1, 1), (1, 1), (1, -1)]) * BIG / 2
    turn = np.array([(np.cos(angle), -np.sin(angle)), (np.sin(angle), np.cos(angle))])
    moved = corners @ turn + CANVAS / 2 + rng.uniform(-shift, shift, 2)
    quad = [float(value) for value in (moved + rng.uniform(-warp, warp, (4, 2))).ravel()]
    return mask.transform((BIG, BIG), Image.Transform.QUAD, quad, Image.Resampling.BILINEAR)


def _cover(under: np.ndarray, mask: Image.Image, colour: np.ndarray, blur: float) -> np.ndarray:
    """`colour` laid over a SIZE x SIZE image where the (large) mask is set."""
    share = np.asarray(mask.reduce(BIG // SIZE), dtype=np.float32) / 255
    covered: np.ndarray = under + ndimage.gaussian_filter(share, blur)[..., None] * (colour - under)
    return covered


def _street_photo(label: int, rng: Generator) -> np.ndarray:
    plate, ink = _colour_pair(rng, rng.uniform(40, 150), rng.uniform(5, 45), 0.5)
    font = STREET_FONTS[rng.integers(len(STREET_FONTS))]
    mask = _number(label, font, int(rng.integers(66, 90)), rng.uniform(0.7, 1.1), 0.6, rng)
    mask = _view(mask, rng.normal(0, 0.1), 5, 8, rng)
    grain = _clouds(rng, SIZE, (6, 20), 0.8)[..., None]
    image = plate + rng.uniform(2, 28) * grain
    if rng.random() < 0.3:  # the rim of the plate, or a joint of the wall, above or below
        edge = int(rng.integers(1, 4))
        rows = slice(0, edge) if rng.random() < 0.5 else slice(SIZE - edge, SIZE)
        image[rows] = _colour(rng, rng.uniform(20, 230), 30)
    if rng.random() < 0.4:  # raised numerals throw a shadow
        dx, dy = (int(step) for step in rng.integers(-5, 6, 2))
        image = _cover(image, ImageChops.offset(mask, dx, dy), image * 0.5, 0.5)
    image = _cover(image, mask, ink + 10 * grain, 0.0)
    # Uneven light, a lens out of focus, and the coarser colour and the noise of a compressed photo.
    image *= 1 + rng.uniform(0.05, 0.35) * _clouds(rng, SIZE, (2, 4), 0.5)[..., None]
    luma = _luma(image)[..., None]
    chroma = ndimage.uniform_filter(image - luma, (4, 4, 0))
    luma = ndimage.gaussian_filter(luma, (*[rng.uniform(0.2, 1.4)] * 2, 0))
    photo: np.ndarray = luma + chroma + rng.normal(0, rng.uniform(1, 6), luma.shape)
    return photo


def _printed_image(label: int, rng: Generator) -> np.ndarray:
    paper, ink = _colour_pair(rng, rng.uniform(80, 200), 110, 0.75)
    font = PRINT_FONTS[rng.integers(len(PRINT_FONTS))]
    mask = _number(label, font, int(rng.integers(58, 82)), rng.uniform(0.85, 1.15), 0.2, rng)
    mask = _view(mask, np.deg2rad(rng.uniform(-25, 25)), 6, 3, rng)
    image = np.broadcast_to(paper, (SIZE, SIZE, 3))
    if rng.random() < 0.4:  # clutter stays nearer to the paper than to the ink, and out of focus
        clutter = Image.new("L", (BIG, BIG))
        for x, y in rng.integers(-50, BIG - 20, (int(rng.integers(2, 5)), 2)):
            clutter.paste(_glyph(font, int(rng.integers(10))), (int(x), int(y)))
        faint = 0.65 * paper + 0.35 * _colour(rng, rng.uniform(0, 255), 110)
        image = _cover(image, clutter, faint, rng.uniform(1, 2.5))
    blur = float(rng.choice([0.0, 0.5, 1.0]))
    if rng.random() < 0.25:  # outlined type
        rim = mask.filter(ImageFilter.MaxFilter(5))
        image = _cover(image, rim, _colour(rng, rng.uniform(0, 255), 110), blur)
    return _cover(image, mask, ink, blur)


def _scanned(digit: np.ndarray, rng: Generator) -> np.ndarray:
    slant = rng.uniform(-0.1, 0.2)  # most writers lean to the right
    sheared = ndimage.affine_transform(
        digit.astype(np.float32), [[1, 0], [slant, 1]], (0, -slant * (SIZE - 1) / 2), order=1
    )
    # Thinner or thicker strokes: blur, then cut the grey ramp higher or lower.
    ramp = ndimage.gaussian_filter(sheared, 1.0) / 255
    stroke = np.clip((ramp - rng.uniform(0.2, 0.42)) / 0.4, 0, 1)
    rows, columns = (np.flatnonzero(stroke.max(axis=axis) > 0.2) for axis in (1, 0))
    tight = stroke[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    # The width is limited: a digit 1 that is stretched to a square is not recognisable.
    width = int(min(16, round(1.2 * tight.shape[1] * 16 / tight.shape[0])))
    coarse = np.zeros((16, 16), dtype=np.float32)
    left = (16 - width) // 2
    coarse[:, left : left + width] = _resize(tight, width, 16, Image.Resampling.BOX)
    return 255 * rng.uniform(0.75, 1.0) * _resize(coarse, SIZE, SIZE, Image.Resampling.BILINEAR)
