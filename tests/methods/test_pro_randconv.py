"""Pro-RandConv: its block, its distributions, its loss, its reduction to ERM."""

import math

import numpy as np
import pytest
import torch
from helpers import assert_erm, make, two_batches
from scipy import ndimage

from sdgbench import registry
from sdgbench.methods import pro_randconv

ProRandConv = registry.get("method", "pro-randconv").load()
FIELDS = ("smooth", "blurred", "white")


def method(folder, **params):
    return make(ProRandConv, folder, params=ProRandConv.Params(**params))


def drawn_block(largest=0.2, field="smooth", size=9):
    return pro_randconv.Block.draw(size, size, largest, field, 0.5)


# The transformation --------------------------------------------------------------------------


def standardised(image):
    mean = image.mean(axis=(1, 2), keepdims=True)
    return (image - mean) / np.sqrt(image.var(axis=(1, 2), keepdims=True) + 1e-5)


@pytest.mark.parametrize("largest", [0.0, 0.2, 1.5])
def test_a_block_is_a_deformed_convolution_by_hand(largest):
    """Each of the nine taps reads the image at its own shifted place, with zeros outside."""
    torch.manual_seed(3)
    block, x = drawn_block(largest), torch.rand(2, 3, 9, 9) * 2 - 1
    found = block(x).numpy()
    kernel, offsets = block.kernel.double().numpy(), block.offsets.double().numpy()
    rows, columns = np.mgrid[:9, :9].astype(float)
    for image in range(2):
        out = np.zeros((3, 9, 9))
        for tap in range(9):
            i, j = divmod(tap, 3)
            where = [rows + i - 1 + offsets[2 * tap], columns + j - 1 + offsets[2 * tap + 1]]
            for channel in range(3):
                plane = np.pad(x[image, channel].double().numpy(), 4)
                read = ndimage.map_coordinates(
                    plane, [w + 4 for w in where], order=1, mode="constant"
                )
                out += kernel[:, channel, i, j][:, None, None] * read
        gamma, beta = (part.double().numpy()[:, None, None] for part in (block.gamma, block.beta))
        np.testing.assert_allclose(
            found[image], np.tanh(gamma * standardised(out) + beta), atol=2e-4
        )


def test_the_kernel_has_the_stated_variance_under_its_window():
    torch.manual_seed(0)
    drawn = torch.stack([pro_randconv.draw_kernel() for _ in range(4000)])
    spreads = 0.01 + 0.99 * (torch.arange(4000) + 0.5) / 4000
    for square, (i, j) in {0: (1, 1), 1: (0, 1), 2: (2, 2)}.items():
        window = torch.exp(-square / (2 * spreads**2))
        expected = (window.square().mean() / 27).sqrt().item()
        assert drawn[..., i, j].std().item() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("field", FIELDS)
def test_fields_are_standardised(field):
    torch.manual_seed(0)
    maps = pro_randconv.draw_field(18, 32, 32, field)
    assert maps.shape == (18, 32, 32)
    torch.testing.assert_close(maps.mean((1, 2)), torch.zeros(18), atol=1e-5, rtol=0)
    torch.testing.assert_close(maps.std((1, 2)), torch.ones(18), atol=1e-4, rtol=0)


def test_fields_differ_in_how_smooth_they_are():
    torch.manual_seed(0)
    roughness = [
        pro_randconv.draw_field(64, 32, 32, field).diff(dim=2).std().item() for field in FIELDS
    ]
    assert roughness == sorted(roughness)
    assert roughness[0] < 0.4 < roughness[1] < 1.2 < roughness[2]


def test_the_amplitudes_of_the_smooth_field_fall_with_the_fifth_power():
    torch.manual_seed(0)
    spectrum = torch.fft.rfft2(pro_randconv.draw_field(3000, 16, 16, "smooth").double()).abs()
    power = spectrum.square().mean(0)
    # Not the lowest one, by which maps are standardised.
    ratio = (power[0, 4] / power[0, 2]).sqrt().item()
    assert ratio == pytest.approx(2**-5, rel=0.15)


def test_offsets_gamma_and_beta_have_the_stated_sizes():
    torch.manual_seed(0)
    blocks = [drawn_block(0.2, "white") for _ in range(1500)]
    scales = torch.stack([block.offsets.std() for block in blocks])
    assert scales.max().item() == pytest.approx(0.2, abs=0.01)
    assert scales.mean().item() == pytest.approx(0.105, abs=0.01)
    for part in ("gamma", "beta"):
        values = torch.stack([getattr(block, part) for block in blocks])
        assert values.std().item() == pytest.approx(0.5, rel=0.05)
        assert abs(values.mean().item()) < 0.03


def test_offsets_depend_on_the_size_of_images(tmp_path):
    plain = method(tmp_path / "a")
    assert plain.largest_offset(torch.zeros(1, 3, 32, 32)) == 0.2
    assert plain.largest_offset(torch.zeros(1, 3, 224, 224)) == 0.5
    given = method(tmp_path / "b", offsets=0.3)
    assert given.largest_offset(torch.zeros(1, 3, 224, 224)) == 0.3


def test_the_block_is_applied_one_to_ten_times_with_the_same_weights(monkeypatch, tmp_path):
    applied = []

    class Counted:
        def __init__(self):
            applied.append(0)

        def to(self, device):
            return self

        def __call__(self, z):
            applied[-1] += 1
            return z

    monkeypatch.setattr(pro_randconv.Block, "draw", classmethod(lambda *_: Counted()))
    pro, x = method(tmp_path), torch.rand(1, 3, 8, 8)
    torch.manual_seed(0)
    for _ in range(3000):
        pro.transformed(x)
    shares = np.bincount(applied, minlength=11) / 3000
    assert shares[0] == 0
    assert shares[1:].tolist() == pytest.approx([0.1] * 10, abs=0.02)


def test_transformed_images_are_in_the_range_of_images(tmp_path):
    torch.manual_seed(0)
    made = method(tmp_path).transformed(torch.rand(8, 3, 32, 32))
    assert 0 <= made.min() < made.max() <= 1


# The step ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_a_step_adds_the_losses_on_both_kinds_of_images(weight, tmp_path):
    pro = method(tmp_path, weight=weight)
    x, y, *_ = two_batches()
    torch.manual_seed(4)
    views = [x, pro.transformed(x)]
    with torch.no_grad():
        clean, other = (
            [
                math.log(sum(map(math.exp, row))) - row[k]
                for row, k in zip(pro.network(view).double().tolist(), y.tolist(), strict=True)
            ]
            for view in views
        )
    torch.manual_seed(4)
    expected = (sum(clean) + weight * sum(other)) / len(y)
    assert pro.train_step(x, y).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("network", ["convnet-2", "wrn-16-1"])
def test_without_weight_it_is_erm_bit_for_bit(network, tmp_path):
    assert_erm(ProRandConv, tmp_path, network, weight=0.0)


@pytest.mark.parametrize(
    "bad", [{"weight": -1.0}, {"repeats": 0}, {"offsets": -0.1}, {"contrast": -1.0}]
)
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="pro-randconv needs"):
        ProRandConv.Params(**bad)
