"""Colour, light, air, season and the camera: from numbered polygons to a photograph."""

from __future__ import annotations

import math
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
from PIL import Image, ImageFilter
from scipy import ndimage

from sdgbench.datasets._scenes.stage import (
    ASPHALT,
    BEND_END,
    COBBLE,
    FRONT,
    GRAIN,
    LEAF,
    LEFT,
    MESH,
    PANE,
    RIGHT,
    SHUTTERS,
    SNOW,
    UP,
    Look,
    Stage,
    vec,
)


@lru_cache(maxsize=2)
def noise_tile(size: int, power: float) -> np.ndarray:
    """A tile of fractal noise within -1 and 1 that repeats without a seam."""
    spectrum = np.fft.rfft2(np.random.default_rng(7).standard_normal((size, size)))
    radius = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None]) + 4 / size
    tile = np.fft.irfft2(spectrum / radius**power, (size, size))
    noise: np.ndarray = np.clip(tile / (2.2 * tile.std()), -1, 1).astype(np.float32)
    return noise


def see_through(st: Stage, material: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The buffer with holes in crowns (leaf gaps; twigs in winter) and in wire meshes."""
    ids, tile, shift = np.array(st.ids), noise_tile(256, 0.8), rng.integers(0, 256, 2)
    here = np.flatnonzero(((material == LEAF) | (material == MESH))[ids])
    row, column = np.divmod(here, st.width)
    n = tile[row + shift[0] & 255, column + shift[1] & 255]
    gap = np.abs(n) > 0.2 if st.look.snow else n > 0.62
    holes = here[np.where(material[ids.ravel()[here]] == MESH, (row + column) % 4 < 2, gap)]
    ids.ravel()[holes] = np.asarray(st.behind).ravel()[holes]
    return ids


def locate(st: Stage, columns: np.ndarray, ids: np.ndarray) -> SimpleNamespace:
    """Each pixel's position in the world and, as `across` and `upward`, on its own surface."""
    u = np.arange(0, st.width, 2, dtype=np.float32)[None]
    v = np.arange(0, st.height, 2, dtype=np.float32)[:, None]
    material, a, b, c, face = (columns[i][ids] for i in (4, 5, 6, 7, 8))
    z = 1 / np.clip(a + b * u + c * v, 1 / 900, 1)
    bent = np.minimum(z, np.float32(BEND_END))
    x = (u - st.centre) / st.focal * z + st.x - st.heading * z - st.curve * bent * (z - bent / 2)
    y = st.eye - (v - st.horizon) / st.focal * z
    across, upward = np.where((face == RIGHT) | (face == LEFT), z, x), np.where(face == UP, z, y)
    return SimpleNamespace(
        ids=ids,
        u=u,
        v=v,
        x=x,
        y=y,
        z=z,
        across=across,
        upward=upward,
        face=face.astype(np.intp),
        material=material.astype(np.intp),
    )


def paint_sky(st: Stage, px: SimpleNamespace, rng: np.random.Generator, sun: float) -> np.ndarray:
    look, (height, width) = st.look, px.z.shape
    up = np.clip((st.horizon - px.v) / st.horizon, 0, 1) ** 0.7
    cover = np.full(px.z.shape, rng.uniform(-0.35, 0.3), np.float32)
    for strength, cells in ((0.55, 5), (0.3, 14)):
        coarse = Image.fromarray(rng.standard_normal((cells, cells)).astype(np.float32))
        cover += strength * np.asarray(coarse.resize((width, height), Image.Resampling.BILINEAR))
    sky: np.ndarray = vec(look.horizon) + (vec(look.zenith) - vec(look.horizon)) * up
    cover = np.clip(cover, 0, 1) * look.clouds * np.clip(up * 3, 0, 1)
    sky = sky + (vec(look.cloud) - sky) * cover
    if look.shadow > 1:  # a low sun ahead
        at = st.centre + st.focal * math.tan(sun) * 0.5
        far = ((px.u - at) / st.width) ** 2 + ((px.v - st.horizon * 0.86) / st.height) ** 2
        sky += vec((90, 66, 30)) * np.exp(-far / 0.03) + 120 * np.exp(-far / 0.0009)
    return sky


def glaze(st: Stage, colour: np.ndarray, columns: np.ndarray, px: SimpleNamespace) -> np.ndarray:
    """Cut windows into the walls of `colour` in place; returns how brightly each one is lit."""
    emitted = np.zeros(px.z.shape, np.float32)
    here = np.flatnonzero((columns[13] > 0)[px.ids])
    ids, z, x, y, across = (f.ravel()[here] for f in (px.ids, px.z, px.x, px.y, px.across))
    face, origin, bay, storey = (columns[i][ids] for i in (8, 10, 11, 12))
    style = columns[13].astype(np.intp)[ids]
    s, t = (across - origin) / bay, y / storey
    cell, floor = np.floor(s), np.floor(t)
    aside, above = np.abs(s - cell - 0.5), np.abs(t - floor - 0.54)
    wide, tall = PANE[:, 0][style], PANE[:, 1][style]
    # Where a window is thinner than a pixel or two, its average stands in for it.
    size = 2 * z / st.focal * np.where(face == FRONT, 1, z / (np.abs(x - st.x) + 1))
    sharp = np.clip(bay / (2.2 * size) - 0.5, 0, 1)
    row = sharp * (above < tall)
    pane = row * (aside < wide) + (1 - sharp) * 4 * wide * tall
    shutter = row * ((style == SHUTTERS) & (aside >= wide) & (aside < wide + 0.14))
    key = (cell.astype(np.int32) * 7919 ^ floor.astype(np.int32) * 104729 ^ ids * 1299709) % 1021
    for channel, sky, blue, dye in zip(
        colour, st.look.horizon, (40, 46, 52), (0.62, 0.45, 0.55), strict=True
    ):
        wall = channel.ravel()[here] * (1 - dye * shutter)
        glass = blue + sky * (0.1 + 0.04 * (key % 7)).astype(np.float32)
        channel.ravel()[here] = wall + (glass - wall) * (0.92 * pane)
    lit = np.where(sharp > 0.3, key < 1021 * st.look.lit, st.look.lit * 0.8)
    emitted.ravel()[here] = pane * lit * (0.45 + 0.04 * (key % 13))
    return emitted


def add_texture(
    st: Stage, colour: np.ndarray, px: SimpleNamespace, rng: np.random.Generator
) -> None:
    """Grain, cobbles and snow, in world coordinates so that they shrink with distance."""
    patches, specks, shift = noise_tile(512, 1.4), noise_tile(256, 0.8), rng.integers(0, 512, 2)
    patch = patches[
        (px.upward * 20).astype(np.intp) + shift[0] & 511,
        (px.across * 20).astype(np.intp) + shift[1] & 511,
    ]
    speck = specks[(px.upward * 17).astype(np.intp) & 255, (px.across * 17).astype(np.intp) & 255]
    grain = 1 + GRAIN[px.material] * (patch + speck * np.clip(14 / px.z, 0.25, 1))
    stone = np.nonzero((px.material == COBBLE) & (px.z < 30))
    down, over = px.upward[stone] / 0.3, px.across[stone] / 0.26
    course = np.floor(down)
    joint = ((over + course * 0.5) % 1 < 0.18) | (down - course < 0.18)
    grain[stone] -= joint * 0.34 * np.clip(1.2 - px.z[stone] / 18, 0, 1)
    colour *= grain
    if st.look.snow:  # thick off the road and at its edges, thin on it
        beyond = np.maximum(st.edges[0] - px.x, px.x - st.edges[1])
        road = (px.material == ASPHALT) | (px.material == COBBLE)
        depth = SNOW[px.material] + road * np.clip(1 + beyond / 1.3, 0, 1) * 0.9
        colour += (vec((234, 238, 246)) - colour) * np.clip(depth * (1 + 0.8 * patch), 0, 1)


def shine(st: Stage, px: SimpleNamespace, sun: float, phase: float) -> np.ndarray:
    """The colour of the light that falls on each pixel."""
    look, dx, dz = st.look, math.sin(sun), math.cos(sun)
    facing = np.array((max(0, -dz), max(0, dx), max(0, -dx), 0.75), np.float32) * 0.8 + 0.2
    shade = np.asarray(st.shade.filter(ImageFilter.BoxBlur(1)), np.float32) * (0.9 / 255)
    free = 1 - shade * (px.face == UP)
    light: np.ndarray = vec(look.ambient) * (0.5 + 0.5 * free)
    light = light + vec(look.sun) * (facing[px.face] * free)
    if look.lamps > 0.5:  # pools under the street lamps and the camera car's own headlights
        pools = (0.32 + 0.26 * np.cos(px.z * (math.tau / 26) + phase)) * np.exp(
            -np.maximum(px.y - 4, 0) / 5 - np.abs(px.x - st.x) / 30
        )
        beam = (
            np.exp(-(((px.u - st.centre) / (0.45 * st.focal)) ** 2) - px.z / 32)
            * (px.y < 1.8)
            * 0.8
        )
        light += (0.3 + 0.7 * free) * (vec((1, 0.8, 0.52)) * pools + vec((1, 0.97, 0.88)) * beam)
    return light


def bloom(lamps: np.ndarray) -> np.ndarray:
    """The halo of bright lights, blurred at a quarter of the size."""
    height, width = lamps.shape[1] // 4, lamps.shape[2] // 4
    halo = sum(lamps[:, i::4, i::4][:, :height, :width] for i in range(4))
    halo = sum(gain * ndimage.gaussian_filter(halo, (0, s, s)) for s, gain in ((1, 0.5), (4, 0.8)))
    small = Image.fromarray(np.clip(halo, 0, 255).astype(np.uint8).transpose(1, 2, 0))
    big = small.resize(lamps.shape[:0:-1], Image.Resampling.BILINEAR)
    return np.asarray(big, np.float32).transpose(2, 0, 1)


def shade_image(st: Stage, rng: np.random.Generator, sun: float) -> np.ndarray:
    """Colour every pixel (planar, 3 x H x W) from its polygon, its depth and the condition."""
    look, columns = st.look, np.ascontiguousarray(np.array(st.table, np.float32).T)
    ids = see_through(st, columns[4].astype(np.int8), rng)
    px = locate(st, columns, ids[::2, ::2].astype(np.intp))
    # Average the four samples of a pixel; alpha, 0 in the sky only, keeps the sky out of the mean.
    rgba = np.full((len(st.table), 4), 255, np.uint8)
    rgba[:, :3], rgba[0] = np.clip(columns[:3].T, 0, 255), 0
    fine = rgba.view(np.uint32)[:, 0][ids]
    mean = Image.frombuffer("RGBX", (st.width, st.height), fine, "raw", "RGBX", 0, 1).reduce(2)
    planes = np.asarray(mean).transpose(2, 0, 1).astype(np.float32, order="C")
    solid = planes[3] / 255
    colour: np.ndarray = planes[:3] / np.maximum(solid, 0.25)
    windows = vec((255, 204, 128)) * glaze(st, colour, columns, px)
    add_texture(st, colour, px, rng)
    colour *= shine(st, px, sun, rng.uniform(0, 6))
    glow = columns[9] * (0.5 + 0.5 * look.lamps)
    (rows, cols), lamps = np.nonzero((glow > 0)[px.ids]), np.zeros_like(colour)
    lamps[:, rows, cols] = (columns[:3] * glow)[:, px.ids[rows, cols]]
    colour = np.maximum(colour, lamps + windows)
    clear = np.exp(-px.z / (look.haze_metres * rng.uniform(0.75, 1.3)))
    haze, sky = vec(look.horizon) * np.float32(0.93), paint_sky(st, px, rng, sun)
    colour = haze + (colour - haze) * clear
    colour = sky + (colour - sky) * solid
    if look.lamps:
        colour += bloom((lamps * 1.6 + windows * 0.15) * clear) * look.lamps
    return colour


def develop(image: np.ndarray, look: Look, rng: np.random.Generator) -> np.ndarray:
    """What a camera adds: colour response, vignette, a soft lens and sensor noise."""
    across, down = (np.linspace(-1, 1, n, dtype=np.float32) ** 2 for n in image.shape[:0:-1])
    image = image * ((1 - 0.14 * (across + down[:, None])) * np.float32(rng.uniform(0.93, 1.07)))
    grey = (image[0] + image[1] + image[2]) / 3
    image = grey + (image - grey) * np.float32(look.saturation * rng.uniform(0.92, 1.08))
    soft = Image.fromarray(np.clip(image, 0, 255).astype(np.uint8).transpose(1, 2, 0))
    soft = soft.filter(ImageFilter.BoxBlur(rng.uniform(0.2, 0.45)))
    # The sum of two random bytes is close enough to a Gaussian, and far quicker to draw.
    grains = np.frombuffer(rng.bytes(2 * image.size), np.uint8).reshape(2, *soft.size[::-1], 3)
    noise = (grains[0].astype(np.float32) + grains[1] - 255) * np.float32(look.noise / 104.5)
    pixels: np.ndarray = np.clip(np.asarray(soft) + noise + 0.5, 0, 255).astype(np.uint8)
    return pixels
