"""Small folders of images for tests: tidy ones, and ones with every oddity."""

import numpy as np
from PIL import Image

DOMAINS, CLASSES = ("cartoon", "photo", "sketch"), ("cat", "dog")


def picture(number, size=(40, 30)):
    rng = np.random.default_rng(number)
    low = rng.integers(0, 256, (3, 4, 3), np.uint8)
    return Image.fromarray(low).resize(size, Image.Resampling.BICUBIC)


def tidy(root, count=12, domains=DOMAINS, classes=CLASSES):
    """``root/domain/class/*.png``."""
    number = 0
    for domain in domains:
        for label in classes:
            folder = root / domain / label
            folder.mkdir(parents=True)
            for position in range(count):
                number += 1
                picture(number).save(folder / f"{position:02d}.png")
    return root


def odd(root):
    """A tidy folder plus files that a real folder has: all readable but ``photo/dog/torn.jpg``."""
    tidy(root)
    photo = root / "photo" / "dog"
    image = picture(999)
    image.convert("L").save(photo / "grey.jpg")
    image.convert("CMYK").save(photo / "print.JPG")
    image.convert("P").save(photo / "palette.gif")
    transparent = image.convert("RGBA")
    transparent.putalpha(0)
    transparent.save(photo / "alpha.webp", lossless=True)
    deep = (np.arange(1200).reshape(30, 40) * 54).astype(np.uint16)
    Image.fromarray(deep).save(photo / "deep.png")
    image.convert("1").save(photo / "bits.tiff")
    turned = Image.Exif()
    turned[0x0112] = 6
    image.save(photo / "turned.jpeg", exif=turned)
    image.save(photo / "torn.jpg")
    torn = (photo / "torn.jpg").read_bytes()
    (photo / "torn.jpg").write_bytes(torn[: len(torn) // 2])
    (photo / "._dog.jpg").write_bytes(b"not an image")
    (photo / "notes.txt").write_text("not an image")
    (photo / "nested").mkdir()
    image.save(photo / "nested" / "deeper.png")
    for domain in DOMAINS:
        (root / domain / "empty").mkdir()
    (root / "sketch" / "bird").mkdir()
    image.save(root / "sketch" / "bird" / "1.png")
    return root
