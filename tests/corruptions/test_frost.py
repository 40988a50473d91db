import numpy as np
import pytest
from corruptions.samples import change, photos
from PIL import Image

from sdgbench.corruptions import frost
from sdgbench.corruptions.frost import load_frost
from sdgbench.corruptions.generator import FrostOverlays, corrupt
from sdgbench.errors import UserError


@pytest.fixture
def folder(tmp_path):
    """Files like the released ones: PNGs with an alpha channel, and JPEGs."""
    rng = np.random.default_rng(0)
    for name, size in zip(
        frost.FILES, [(600, 900), (315, 560), (315, 560), (350, 527), (495, 660)], strict=True
    ):
        if name.endswith("png"):
            Image.fromarray(rng.integers(0, 256, (*size, 4), np.uint8)).save(tmp_path / name)
        else:
            smooth = rng.integers(0, 256, (5, 5, 3), np.uint8)
            Image.fromarray(smooth).resize(size[::-1]).save(tmp_path / name, quality=95)
    return tmp_path


def test_released_files(folder):
    overlays = load_frost(folder)
    assert isinstance(overlays, FrostOverlays)
    assert overlays.source == "released"
    shapes = [picture.shape for picture in overlays.scaled(32)]
    assert shapes == [(120, 180, 3), (63, 112, 3), (63, 112, 3), (70, 105, 3), (99, 132, 3)]
    with Image.open(folder / "frost1.png") as file:
        colours = np.array(file)[..., :3]  # transparency is dropped, not mixed in
    assert np.array_equal(overlays.pictures[0], colours)
    assert np.array_equal(overlays.scaled(32)[0], colours[2::5, 2::5])
    images = photos(4)
    assert not np.array_equal(
        corrupt(images, "frost", 3, frost=overlays), corrupt(images, "frost", 3)
    )


def test_without_all_files_the_ice_is_drawn(folder, tmp_path):
    (folder / "frost4.jpg").unlink()
    assert load_frost(folder).source == "procedural"
    assert load_frost(tmp_path / "nowhere").source == "procedural"
    assert load_frost(None).source == "procedural"


def test_damaged_files_are_named(folder):
    (folder / "frost5.jpg").write_bytes(b"not a picture")
    with pytest.raises(UserError, match="frost5.jpg as a picture"):
        load_frost(folder)
    Image.new("RGB", (20, 20)).save(folder / "frost5.jpg")
    with pytest.raises(UserError, match="too small"):
        load_frost(folder)


def test_drawn_ice_looks_like_the_released():
    """Means and contrasts of the released pictures, as measured at a fifth of their size."""
    drawn = load_frost(None)
    measured = [
        ((78, 149, 166), (27, 16, 15)),
        ((201, 205, 214), (21, 22, 23)),
        ((201, 205, 214), (21, 22, 23)),
        ((138, 153, 166), (29, 29, 30)),
        ((112, 123, 135), (44, 43, 42)),
    ]
    for picture, (mean, std) in zip(drawn.scaled(32), measured, strict=True):
        assert np.abs(picture.mean(axis=(0, 1)) - mean).max() < 3
        assert np.abs(picture.std(axis=(0, 1)) - std).max() < 3
        assert min(picture.shape[:2]) > 60


def test_drawn_ice_is_always_the_same():
    assert np.array_equal(frost.draw_ice(1), frost.draw_ice(1))
    pictures = load_frost(None).pictures
    assert np.array_equal(pictures[1], frost.draw_ice(1))
    for other in pictures[2:]:
        assert change(pictures[1], other) > 10


def test_crops_come_from_everywhere():
    pictures = tuple(
        np.stack(np.broadcast_arrays(np.arange(200)[:, None], np.arange(250), number), -1)
        .astype(np.uint8)
        .repeat(5, axis=0)
        .repeat(5, axis=1)
        for number in range(5)
    )
    overlays = FrostOverlays(pictures, "rulers")
    chances = np.random.default_rng(0).random((5000, 3))
    crops = overlays.crops(32, 32, chances)
    rows, columns, numbers = crops[:, 0, 0].T
    assert rows.min() == 0
    assert rows.max() == 200 - 32 - 1  # the original's upper end is exclusive
    assert columns.max() == 250 - 32 - 1
    assert np.bincount(numbers).min() > 900
    assert (crops[:, 31, 31, 0] == rows + 31).all()
    assert (crops[:, 31, 31, 1] == columns + 31).all()
