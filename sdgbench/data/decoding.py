"""Decode image files from anywhere: a damaged one is a ValueError, never a crash."""

import io
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image, ImageOps

from sdgbench import storage

MAX_FILE_BYTES = 2**28
MAX_PIXELS = 2**26
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "TIFF", "GIF", "PPM")
Fit = Literal["stretch", "crop"]
PNG_START = b"\x89PNG\r\n\x1a\n"


def read_rgb(path: Path) -> np.ndarray:
    """An image as uint8 (H, W, 3)."""
    with _explained(path), _opened(_read(path)) as image:
        return np.asarray(image.convert("RGB"))


def decode_rgb(data: bytes, origin: Path) -> np.ndarray:
    """An encoded image that another file holds, as uint8 (H, W, 3)."""
    with _explained(origin), _opened(data) as image:
        return np.asarray(image.convert("RGB"))


def read_fitted(path: Path, size: tuple[int, int], fit: Fit = "stretch") -> np.ndarray:
    """Any image as uint8 (3, H, W) RGB of the given height and width.

    The camera's orientation is applied, transparency is put on white, 16 bits become 8, and grey,
    palette and CMYK images become RGB. ``fit``: "stretch" changes the aspect ratio, "crop" scales
    the shorter side and keeps the middle.
    """
    with _explained(path):
        return _fitted_content(_read(path), size, fit)


def decode_fitted(data: bytes, origin: Path, size: tuple[int, int]) -> np.ndarray:
    """An encoded image that another file holds, as ``read_fitted`` returns it, stretched."""
    with _explained(origin):
        return _fitted_content(data, size, "stretch")


def _fitted_content(data: bytes, size: tuple[int, int], fit: Fit) -> np.ndarray:
    with _opened(data) as opened:
        return _fitted(_as_rgb(ImageOps.exif_transpose(opened)), size, fit)


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("P", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode in ("RGBA", "LA", "RGBa", "La"):
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    if image.mode.startswith(("I", "F")):  # 16 bits and more, which convert would cut off
        values = np.asarray(image, dtype=np.float64)
        top = 65535.0 if image.mode != "F" else max(1.0, float(values.max()))
        if image.mode == "F" and top > 1:
            top = 255.0
        grey = np.clip(np.rint(values * (255.0 / top)), 0, 255).astype(np.uint8)
        image = Image.fromarray(grey)
    return image.convert("RGB")


def _fitted(image: Image.Image, size: tuple[int, int], fit: Fit) -> np.ndarray:
    height, width = size
    if fit == "crop":
        image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    elif image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))


def read_first_channel(path: Path) -> np.ndarray:
    """The first channel of an image with all its bits, as int32 (H, W)."""
    with _explained(path):
        data = _read(path)
        high = _first_channel(data, "")
        if high.itemsize > 1 or not _has_16_bits(data):
            return high.astype(np.int32)
        # Pillow keeps the first byte of each 16-bit value; in the other byte order, the second.
        both: np.ndarray = high.astype(np.int32) * 256 + _first_channel(data, "L")
        return both


def check_png(data: bytes) -> None:
    """Compare the checksum of every chunk of a PNG, which decoders do not all do."""
    position = len(PNG_START)
    kind = b""
    while kind != b"IEND":
        if position + 12 > len(data):
            raise ValueError("it is cut off")
        size, kind = struct.unpack_from(">I4s", data, position)
        end = position + 8 + size
        if end + 4 > len(data):
            raise ValueError("it is cut off")
        if zlib.crc32(data[position + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            raise ValueError(f"the checksum of a chunk ({kind!r}) is wrong")
        position = end + 4


def _read(path: Path) -> bytes:
    data = storage.read_bytes(path, MAX_FILE_BYTES)
    if data.startswith(PNG_START):
        check_png(data)
    return data


def _has_16_bits(data: bytes) -> bool:
    return data.startswith(PNG_START) and data[24] == 16


def _first_channel(data: bytes, byte_order: str) -> np.ndarray:
    with _opened(data) as image:
        if byte_order:
            codec, box, offset, layout = image.tile[0][:4]  # type: ignore[attr-defined]
            image.tile = [(codec, box, offset, f"{layout[:-1]}{byte_order}")]  # type: ignore[attr-defined]
        pixels = np.asarray(image)
    return pixels[..., 0] if pixels.ndim == 3 else pixels


@contextmanager
def _opened(data: bytes) -> Iterator[Image.Image]:
    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        if image.width * image.height > MAX_PIXELS:
            raise ValueError(f"it has {image.width} x {image.height} pixels, which is too large")
        yield image


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Decoders raise errors of a dozen kinds for damaged files."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{path} is damaged or not an image: {error}") from error
