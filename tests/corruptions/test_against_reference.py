"""The package against the plain reference, with the package's own random numbers."""

import numpy as np
import pytest
from corruptions import reference
from corruptions.samples import SIZES, assert_near, change, photos

from sdgbench.corruptions import blur, digital, spatter, weather
from sdgbench.corruptions.generator import FrostOverlays, corrupt
from sdgbench.corruptions.names import SEVERITIES

COUNT = 6


@pytest.fixture
def spy(monkeypatch):
    """Record the arguments of a function of the package while it works as ever."""

    def watch(module, name):
        calls = []
        original = getattr(module, name)

        def watched(*arguments, **named):
            calls.append(arguments)
            return original(*arguments, **named)

        monkeypatch.setattr(module, name, watched)
        return calls

    return watch


def cases(*names, sizes=SIZES):
    return [
        pytest.param(name, severity, size, id=f"{name}-{severity}-{size[0]}x{size[1]}")
        for name in names
        for size in sizes
        for severity in SEVERITIES
    ]


@pytest.mark.parametrize(
    ("name", "severity", "size"),
    cases("gaussian_blur", "brightness", "saturate", "contrast", "jpeg_compression", "pixelate"),
)
def test_exactly_without_random_numbers(name, severity, size):
    images = photos(COUNT, *size)
    expected = [getattr(reference, name)(image, severity) for image in images]
    assert_near(corrupt(images, name, severity), np.stack(expected))


@pytest.mark.parametrize(("name", "severity", "size"), cases("defocus_blur"))
def test_defocus(name, severity, size):
    # OpenCV adds up in another order: flat parts may fall on either side of a whole number.
    images = photos(COUNT, *size)
    expected = [reference.defocus_blur(image, severity) for image in images]
    assert_near(corrupt(images, name, severity), np.stack(expected), share=0.01)


@pytest.mark.parametrize(("name", "severity", "size"), cases("zoom_blur"))
def test_zoom(name, severity, size):
    # Single precision, here and there: flat parts again.
    images = photos(COUNT, *size)
    expected = [reference.zoom_blur(image, severity) for image in images]
    assert_near(corrupt(images, name, severity), np.stack(expected), share=0.03)


def test_zoom_uses_as_many_factors_as_the_original():
    assert [len(np.arange(1, top, 0.01)) for top in reference.ZOOM] == [7, 12, 16, 21, 26]


@pytest.mark.parametrize(("name", "severity", "size"), cases("glass_blur"))
def test_glass(name, severity, size, spy):
    calls = spy(blur, "glass")
    images = photos(COUNT, *size)
    corrupted = corrupt(images, name, severity)
    codes = np.stack(calls[0][2])  # turns, images, rows, columns
    steps = -np.stack([codes & 1, codes >> 1 & 1], axis=-1).astype(int)
    expected = [
        reference.glass_blur(image, severity, steps[:, i]) for i, image in enumerate(images)
    ]
    assert_near(corrupted, np.stack(expected))


@pytest.mark.parametrize(("name", "severity", "size"), cases("motion_blur"))
def test_motion(name, severity, size, spy):
    calls = spy(blur, "motion")
    images = photos(COUNT, *size)
    corrupted = corrupt(images, name, severity)
    angles = calls[0][3]
    expected = [
        reference.motion_blur(image, severity, angle)
        for image, angle in zip(images, angles, strict=True)
    ]
    assert_near(corrupted, np.stack(expected), share=0.0005)


@pytest.mark.parametrize("angle", [-135, -90, -60, -45, -44.9, -1, 0, 0.1, 30, 45])
def test_motion_at_special_angles(angle):
    images = photos(2, 33, 48)
    corrupted = blur.motion(images, 14, 12, np.full(2, float(angle)))
    expected = [reference.magick_motion(image, 14, 12, angle) for image in images]
    assert_near(corrupted, np.stack(expected), share=0.0005)


@pytest.mark.parametrize(("name", "severity", "size"), cases("fog"))
def test_fog(name, severity, size, spy):
    calls = spy(weather, "plasma")
    images = photos(COUNT, *size)
    corrupted = corrupt(images, name, severity)
    noise, side, decay = calls[0]
    expected = [
        reference.fog(image, severity, drawn) for image, drawn in zip(images, noise, strict=True)
    ]
    assert_near(corrupted, np.stack(expected), share=0.001)
    field = weather.plasma(noise, side, decay)
    assert field.min() == 0
    assert field.max() == 1
    arrays = [reference.plasma_by_arrays(side, decay, drawn) for drawn in noise]
    assert np.allclose(field, arrays, atol=1e-12)


@pytest.mark.parametrize(("name", "severity", "size"), cases("snow"))
def test_snow(name, severity, size, spy):
    layers, blurs = spy(weather, "flakes"), spy(weather, "motion")
    images = photos(COUNT, *size)
    corrupted = corrupt(images, name, severity)
    mean, std = reference.SNOW[severity - 1][:2]
    normal = (layers[0][0].astype(float) - mean) / std
    expected = [
        reference.snow(image, severity, drawn, angle)
        for image, drawn, angle in zip(images, normal, blurs[0][3], strict=True)
    ]
    assert_near(corrupted, np.stack(expected), share=0.002)


@pytest.mark.parametrize(("name", "severity", "size"), cases("frost"))
def test_frost(name, severity, size, spy):
    rng = np.random.default_rng(0)
    sizes = [(600, 900), (315, 560), (315, 560), (350, 527), (495, 660)]
    pictures = tuple(rng.integers(0, 256, (*each, 3), np.uint8) for each in sizes)
    calls = spy(FrostOverlays, "crops")
    images = photos(COUNT, *size)
    corrupted = corrupt(images, name, severity, frost=FrostOverlays(pictures, "noise"))
    expected = []
    for image, (which, down, right) in zip(images, calls[0][3], strict=True):
        picture = pictures[int(which * 5)]
        small = reference.shrink(picture, max(size))
        row = int(down * (small.shape[0] - size[0]))
        column = int(right * (small.shape[1] - size[1]))
        expected.append(reference.frost(image, severity, picture, row, column))
    # At a fifth the shrinking picks pixels; else it interpolates, with OpenCV's rounding.
    assert_near(corrupted, np.stack(expected), share=0.0 if size == (32, 32) else 0.1)


@pytest.mark.parametrize(("name", "severity", "size"), cases("spatter"))
def test_spatter(name, severity, size, spy):
    calls = spy(spatter, "_drops")
    images = photos(COUNT, *size)
    corrupted = corrupt(images, name, severity)
    mean, std = reference.SPATTER[severity - 1][:2]
    normal = (calls[0][0].astype(float) - mean) / std
    expected = [
        reference.spatter(image, severity, drawn)
        for image, drawn in zip(images, normal, strict=True)
    ]
    assert_near(corrupted, np.stack(expected), share=0.001)


@pytest.mark.parametrize(("name", "severity", "size"), cases("elastic_transform"))
def test_elastic(name, severity, size, spy):
    calls = spy(digital, "elastic")
    images = photos(COUNT, *size)
    corrupted = corrupt(images, name, severity)
    moved = calls[0][1]
    noise = calls[0][2] if severity > 1 else [()] * COUNT
    for warp in (reference.warp, reference.warp_by_opencv):
        expected = [
            reference.elastic_transform(image, severity, moves, *fields, warp=warp)
            for image, moves, fields in zip(images, moved, noise, strict=True)
        ]
        if warp is reference.warp:
            assert_near(corrupted, np.stack(expected), share=0.03)
        else:
            assert change(corrupted, np.stack(expected)) < 0.5
