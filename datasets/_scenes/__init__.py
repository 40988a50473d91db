"""Procedural street scenes with pixel labels: what `streets-mini` is drawn from.

A scene is built in metres (x to the right, y up, z ahead) from a random stream that never looks at
the condition, so the five conditions of a location share one distribution of shapes. Every polygon
is drawn, far to near, as a number into one buffer at twice the size asked for; a table holds each
number's class, colour, material and the plane of its inverse depth. Labels are every second pixel
of that buffer, hence as crisp as the geometry; the image is shaded from the same buffer afterwards,
with the depth that a condition's light, haze and snow need.
"""

import random
import zlib

import numpy as np

from sdgbench.datasets._scenes.light import develop, shade_image
from sdgbench.datasets._scenes.locations import bonnet, build_highway, build_street
from sdgbench.datasets._scenes.stage import CLASSES, CONDITIONS, LOCATIONS, LOOKS, PALETTE, Stage

__all__ = ["CLASSES", "CONDITIONS", "LOCATIONS", "PALETTE", "render"]


def render(
    location: str, condition: str, index: int, size: tuple[int, int] = (192, 320)
) -> tuple[np.ndarray, np.ndarray]:
    """The image (uint8, H x W x 3) and the labels (uint8, H x W) of one scene, always the same."""
    if location not in LOCATIONS or condition not in CONDITIONS:
        raise ValueError(f"no scene for {location!r} in {condition!r}")
    seed = [zlib.crc32(location.encode()), zlib.crc32(condition.encode()), index]
    shapes, light = (np.random.default_rng([*seed, stream]) for stream in (0, 1))
    # Python's generator draws single numbers far quicker than numpy's, which only seeds it.
    rng = random.Random(int(shapes.integers(2**63)))
    sun = light.uniform(-1.2, 1.2) if condition == "dawn" else light.uniform(-3, 3)
    bend = {"highway": 0.0007, "city": 0.0003, "town": 0.0016}[location]
    st = Stage(size, rng, LOOKS[condition], sun, bend)
    if location == "highway":
        build_highway(st)
    else:
        build_street(st, location == "city")
    for _, _, paint, args in sorted(st.queue, key=lambda entry: entry[:2]):
        paint(st, *args)
    bonnet(st)
    labels = np.array([row[3] for row in st.table], np.uint8)[np.asarray(st.ids)[::2, ::2]]
    return develop(shade_image(st, light, sun), st.look, light), labels
