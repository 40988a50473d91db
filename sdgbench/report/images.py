"""Arrays as small data URIs."""

import base64
import io

import numpy as np
from PIL import Image

WIDEST = 320  # pixels; a page shows nothing larger


def strip(images: np.ndarray) -> str:
    """Images (N, 3, H, W) side by side, as one JPEG."""
    tall = np.concatenate(list(images.transpose(0, 2, 3, 1)), axis=1)
    return _encode(Image.fromarray(np.ascontiguousarray(tall)), "JPEG", quality=88, subsampling=0)


def photo(image: np.ndarray) -> str:
    """One image (3, H, W) as JPEG."""
    picture = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
    return _encode(_small(picture, Image.Resampling.LANCZOS), "JPEG", quality=85)


def label_map(labels: np.ndarray, palette: list[tuple[int, int, int]]) -> str:
    """Classes (H, W) in their colours, as an indexed PNG."""
    picture = Image.fromarray(np.ascontiguousarray(labels, dtype=np.uint8), mode="P")
    picture.putpalette([channel for colour in palette for channel in colour])
    return _encode(_small(picture, Image.Resampling.NEAREST), "PNG", optimize=True)


def _small(image: Image.Image, how: Image.Resampling) -> Image.Image:
    if image.width <= WIDEST:
        return image
    return image.resize((WIDEST, round(image.height * WIDEST / image.width)), how)


def _encode(image: Image.Image, kind: str, **options: object) -> str:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    text = base64.b64encode(buffer.getvalue()).decode()
    return f"data:image/{kind.lower()};base64,{text}"
