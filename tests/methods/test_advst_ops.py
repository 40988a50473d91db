"""AdvST's operations against colorsys, Pillow and SciPy, and their gradients."""

import colorsys

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy import ndimage
from sklearn.datasets import load_sample_image

from sdgbench.methods import _advst_ops as ops
from sdgbench.methods import _advst_warps as warps

NONE = torch.zeros(1, 0)


def photograph(size=48):
    """A real image, as (1, 3, size, size) in [0, 1]."""
    image = Image.fromarray(load_sample_image("china.jpg")).resize((size, size))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255


def pillow(x):
    return Image.fromarray((x[0].permute(1, 2, 0) * 255).round().byte().numpy())


def pixels(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255


def values(*numbers):
    return torch.tensor([numbers], dtype=torch.float32)


# Colours -------------------------------------------------------------------------------------


def test_hsv_is_that_of_colorsys():
    x = torch.cat(
        [photograph(16), torch.tensor([0.0, 1.0, 0.5]).view(3, 1, 1, 1).expand(3, 3, 16, 16)]
    )
    hsv, back = ops.rgb_to_hsv(x), ops.hsv_to_rgb(ops.rgb_to_hsv(x))
    torch.testing.assert_close(back, x, atol=1e-6, rtol=0)
    for image in range(len(x)):
        for row, column in ((0, 0), (3, 7), (15, 15), (9, 2)):
            expected = colorsys.rgb_to_hsv(*x[image, :, row, column].tolist())
            assert hsv[image, :, row, column].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("shift", [(0.3, 0.2, -0.1), (-0.9, -1.0, 0.4), (0.0, 0.5, 1.0)])
def test_hsv_wraps_the_hue_and_clamps_the_others(shift):
    x = photograph(16)
    found = ops.shift_hsv(x, values(*shift), NONE)
    for row, column in ((0, 0), (5, 11), (15, 3)):
        h, s, v = colorsys.rgb_to_hsv(*x[0, :, row, column].tolist())
        h, s, v = (h + shift[0]) % 1, np.clip(s + shift[1], 0, 1), np.clip(v + shift[2], 0, 1)
        assert found[0, :, row, column].tolist() == pytest.approx(
            colorsys.hsv_to_rgb(h, s, v), abs=1e-5
        )


def test_contrast_and_sharpness_are_pillows_up_to_its_rounding():
    """Largest differences: Pillow rounds the mean grey, the smooth image and the result."""
    x = photograph()
    for factor in (0.1, 0.6, 1.9):
        found = ops.contrast(x, values(factor), NONE).clamp(0, 1)
        expected = pixels(ImageEnhance.Contrast(pillow(x)).enhance(factor))
        assert (found - expected).abs().max() <= 2 / 255
    for factor in (0.0, 0.4, 1.0):
        found = ops.sharpness(x, values(factor), NONE)
        expected = pixels(ImageEnhance.Sharpness(pillow(x)).enhance(factor))
        assert (found - expected).abs().max() <= 2 / 255


def test_equalize_and_posterize_are_pillows():
    x = photograph()
    assert torch.equal(
        ops.equalize(x, NONE, NONE).mul(255).round(),
        pixels(ImageOps.equalize(pillow(x))).mul(255).round(),
    )
    for bits in range(1, 9):
        found = ops.posterize(x, NONE, values((bits + 0.5) / 9))
        expected = pixels(ImageOps.posterize(pillow(x), bits))
        assert torch.equal(found.mul(255).round(), expected.mul(255).round())
    assert ops.posterize(x, NONE, values(0.05)).abs().max() < 1e-6  # no bits: black


def test_invert_and_solarize_by_hand():
    x = torch.tensor([0.0, 0.2, 0.6, 1.0]).view(1, 1, 1, 4).expand(1, 3, 1, 4)
    found = ops.invert(x, values(0.7), NONE)[0, 0, 0].tolist()
    assert found == pytest.approx([0.7, 0.5, 0.1, -0.3])  # nothing is clamped
    found = ops.solarize(x, values(0.25), NONE)[0, 0, 0].tolist()
    assert found == pytest.approx([0.25, 0.45, 0.15, 0.0])


def test_cutout_fills_eight_holes_of_a_fifth_of_the_side():
    x = torch.full((1, 3, 100, 100), -1.0)
    one_place = values(*([0.5, 0.3] * 8))
    found = ops.cutout(x, values(0.1, 0.2, 0.3), one_place)
    hole = found[0, 0] >= 0
    rows, columns = hole.any(1).nonzero().flatten(), hole.any(0).nonzero().flatten()
    assert (rows.min().item(), rows.max().item()) == (40, 59)
    assert (columns.min().item(), columns.max().item()) == (20, 39)
    assert hole.sum() == 400
    assert found[0, :, 50, 30].tolist() == pytest.approx([0.1, 0.2, 0.3])
    places = torch.tensor([[i / 4 + 0.12, j / 2 + 0.25] for i in range(4) for j in range(2)])
    eight = ops.cutout(x, values(0, 0, 0), places.view(1, -1))
    assert (eight[0, 0] == 0).sum() == 8 * 400


# Geometry ------------------------------------------------------------------------------------


def scipy_warp(x, matrix, offset):
    """Sample image (H, W) at matrix @ (row, column) + offset about the centre, zero outside."""
    centre = (np.array(x.shape) - 1) / 2
    matrix, offset = np.array(matrix), np.array(offset)
    start = centre - matrix @ centre + offset
    return ndimage.affine_transform(x.numpy(), matrix, start, order=1, mode="grid-constant")


@pytest.mark.parametrize("shape", [(24, 24), (20, 32)])
def test_warps_are_those_of_scipy(shape):
    torch.manual_seed(0)
    x = torch.rand(1, 3, *shape)
    width, turn = shape[1], 2 * np.pi * 0.15
    cos, sin = np.cos(turn), np.sin(turn)
    cases = {
        "rotate": (warps.rotate, values(0.15), [[cos, sin], [-sin, cos]], [0, 0]),
        "translate": (warps.translate, values(0.1, -0.05), np.eye(2), [0.05 * width, -0.1 * width]),
        "shear": (warps.shear, values(0.3, -0.2), [[1, -0.2], [0.3, 1]], [0, 0]),
        "scale": (warps.scale, values(1.6), np.eye(2) / 1.6, [0, 0]),
    }
    for name, (warp, v, matrix, offset) in cases.items():
        found = warp(x, v, NONE)
        for channel in range(3):
            expected = scipy_warp(x[0, channel], matrix, offset)
            np.testing.assert_allclose(found[0, channel], expected, atol=1e-4, err_msg=name)


def test_a_quarter_turn_is_counter_clockwise():
    x = torch.rand(1, 3, 9, 9)
    torch.testing.assert_close(
        warps.rotate(x, values(0.25), NONE), torch.rot90(x, 1, (2, 3)), atol=1e-5, rtol=0
    )


# Values, chains and gradients ----------------------------------------------------------------


def test_each_image_has_its_own_values():
    """A batch is the same as its images one by one."""
    torch.manual_seed(0)
    x = torch.rand(3, 3, 16, 16)
    for name in ops.OPERATIONS:
        link = ops.draw_link(name, 3, x.device)
        together = link(x)
        for i in range(3):
            row = slice(i, i + 1)
            alone = link.operation.apply(x[row], link.values[row], link.random[row])
            torch.testing.assert_close(together[row], alone, atol=1e-6, rtol=0)


def test_gradients_of_the_values_match_differences():
    torch.manual_seed(2)
    x = ndimage.gaussian_filter(torch.rand(1, 3, 24, 24).numpy(), (0, 0, 2, 2))
    x = torch.from_numpy(x).double()
    weight = torch.rand(1, 3, 24, 24).double()
    for name, operation in ops.OPERATIONS.items():
        if not operation.values or name == "sharpness":
            continue
        link = ops.draw_link(name, 1, x.device)
        random = link.random.double()
        start = (operation.low + 0.37 * (operation.high - operation.low)) * torch.ones(
            1, operation.values, dtype=torch.float64
        )
        v = start.clone().requires_grad_()
        (grad,) = torch.autograd.grad((operation.apply(x, v, random) * weight).sum(), v)
        assert grad.abs().max() > 0, name
        for i in range(operation.values):
            step = torch.zeros_like(start)
            step[0, i] = 1e-6
            high, low = (
                (operation.apply(x, start + sign * step, random) * weight).sum() for sign in (1, -1)
            )
            assert grad[0, i].item() == pytest.approx(((high - low) / 2e-6).item(), rel=0.02), name


@pytest.mark.parametrize("name", ["equalize", "posterize"])
def test_straight_through(name):
    x = torch.rand(2, 3, 8, 8, requires_grad=True)
    ops.draw_link(name, 2, x.device)(x).sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))


def test_values_start_uniform_in_their_range():
    torch.manual_seed(0)
    ranges = {
        "hsv": (3, -1, 1),
        "rotate": (1, 0.01, 1),
        "translate": (2, -0.1, 0.1),
        "invert": (1, 0.5, 1),
        "shear": (2, -0.3, 0.3),
        "contrast": (1, 0.1, 1.9),
        "sharpness": (1, 0, 1),
        "solarize": (1, -0.499, 0.499),
        "scale": (1, 0.5, 2),
        "equalize": (0, 0, 1),
        "posterize": (0, 0, 1),
        "cutout": (3, 0, 1),
    }
    assert ranges.keys() == ops.OPERATIONS.keys()
    for name, (count, low, high) in ranges.items():
        drawn = ops.draw_link(name, 4000, torch.device("cpu")).values.detach().numpy()
        assert drawn.shape == (4000, count)
        for column in drawn.T:
            quantiles = (np.quantile(column, [0.1, 0.5, 0.9]) - low) / (high - low)
            np.testing.assert_allclose(quantiles, [0.1, 0.5, 0.9], atol=0.03)
    bits = (ops.draw_link("posterize", 9000, torch.device("cpu")).random * 9).long()
    assert np.bincount(bits.flatten(), minlength=9) == pytest.approx(1000, abs=130)


def test_clipped_values_return_to_their_range_and_shears_are_free():
    for name, operation in ops.OPERATIONS.items():
        link = ops.draw_link(name, 2, torch.device("cpu"))
        link.values.data += 9
        link.clip()
        if operation.values:
            assert (link.values.max() > 8) == (name == "shear")


def test_chains_have_one_to_three_operations_and_hsv_only_first():
    torch.manual_seed(0)
    chains = [ops.draw_chain(3) for _ in range(6000)]
    lengths = np.bincount([len(chain) for chain in chains], minlength=4)
    assert lengths[1:] == pytest.approx(2000, abs=160)
    assert all(len(set(chain)) == len(chain) for chain in chains)
    assert all("hsv" not in chain[1:] for chain in chains)
    firsts = [chain[0] for chain in chains]
    for name in ops.OPERATIONS:
        assert firsts.count(name) == pytest.approx(500, abs=90)
