"""Colours stand out on both themes and from each other, whatever kind of colour vision one has."""

import itertools
import re

import numpy as np
import pytest
import sample_records as records

from sdgbench.leaderboard import leaderboards, load
from sdgbench.paper.style import COLOUR_ORDER
from sdgbench.report import page, palette

LOWEST_CONTRAST = 3.0  # of graphical objects (WCAG 2.2, 1.4.11)
LEAST_DISTANCE = 20.0  # in CIELAB; about 2 can just be seen side by side
# Machado, Oliveira and Fernandes, 2009: what is seen without one kind of cone, in linear RGB.
VISION = {
    "all cones": np.eye(3),
    "no long": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no medium": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no short": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    high, low = sorted((float(TO_XYZ[1] @ linear(c)) for c in (one, other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def lab(rgb):
    ratios = TO_XYZ @ np.clip(rgb, 0, 1) / (TO_XYZ @ np.ones(3))
    x, y, z = np.where(ratios > 0.008856, np.cbrt(ratios), 7.787 * ratios + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def paper(theme):
    """The background of the page."""
    light, dark = re.search(
        r"--paper: light-dark\((#\w+), (#\w+)\)", page.asset("page.css")
    ).groups()
    return {"light": light, "dark": dark}[theme]


THEMES = {"light": palette.COLOURS, "dark": palette.ON_DARK}


@pytest.mark.parametrize("theme", THEMES)
def test_colours_stand_out_from_the_background(theme):
    faint = {c: contrast(c, paper(theme)) for c in THEMES[theme]}
    assert min(faint.values()) >= LOWEST_CONTRAST, faint


@pytest.mark.parametrize("kind", VISION)
@pytest.mark.parametrize("theme", THEMES)
def test_colours_differ_for_every_kind_of_colour_vision(theme, kind):
    seen = {c: lab(np.asarray(VISION[kind]) @ linear(c)) for c in THEMES[theme]}
    distances = {
        (a, b): np.linalg.norm(seen[a] - seen[b]) for a, b in itertools.combinations(seen, 2)
    }
    nearest = min(distances, key=distances.get)
    assert distances[nearest] >= LEAST_DISTANCE, nearest


@pytest.mark.parametrize("kind", VISION)
@pytest.mark.parametrize("theme", THEMES)
def test_a_method_of_ones_own_is_far_from_the_baseline(theme, kind, tmp_path):
    """The usual first figure has two rows: ERM and a method that no paper's colours are for."""
    records.write(tmp_path, ("erm", "mine"), (0, 1))
    looks = palette.looks(leaderboards(load([tmp_path]).runs), COLOUR_ORDER)
    seen = [
        lab(np.asarray(VISION[kind]) @ linear(THEMES[theme][looks[name].colour]))
        for name in ("erm", "mine")
    ]
    assert np.linalg.norm(seen[0] - seen[1]) >= 2 * LEAST_DISTANCE


def test_only_the_baseline_has_its_colour(tmp_path):
    """However many methods there are: they share the other colours, with looks of their own."""
    names = ("erm", *(f"method-{number:02}" for number in range(24)))
    records.write(tmp_path, names, (0, 1))
    looks = palette.looks(leaderboards(load([tmp_path]).runs), COLOUR_ORDER)
    assert [name for name, look in looks.items() if look.colour == looks["erm"].colour] == ["erm"]
    assert len({(look.colour, look.marker, look.dash) for look in looks.values()}) == len(names)


def test_the_measures_notice_what_they_are_for():
    assert contrast("#ffffff", "#000000") == pytest.approx(21, abs=0.01)
    assert contrast("#f0e442", "#ffffff") < 1.5  # the yellow that nobody saw
    assert lab(linear("#ff0000")) == pytest.approx([53.2, 80.1, 67.2], abs=0.2)
    red, green = (lab(np.asarray(VISION["no medium"]) @ linear(c)) for c in ("#b04a00", "#5a7000"))
    assert np.linalg.norm(red - green) < LEAST_DISTANCE


def test_error_bars_are_seen_on_every_bar():
    """Each is drawn on a halo of the background's colour, from which every bar stands out."""
    style = page.asset("page.css")
    assert re.search(r"\.on-bar \{ stroke: var\(--paper\);[^}]*stroke-width: 4", style)
    assert "opacity" not in re.search(r"\.on-bar \{[^}]*\}", style)[0]
    from sdgbench.report.figures import HALO

    assert HALO._gc["foreground"] == "white"
    ink = re.search(r"--ink: light-dark\((#\w+), (#\w+)\)", style).groups()
    for colour, theme in zip(ink, ("light", "dark"), strict=True):
        assert contrast(colour, paper(theme)) > 10
