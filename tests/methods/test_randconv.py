"""RandConv: its convolution, its distributions, its loss, its reduction to ERM."""

import math

import numpy as np
import pytest
import torch
from helpers import assert_erm, consistency_by_hand, make, two_batches
from scipy import ndimage

from sdgbench import registry
from sdgbench.methods import randconv

RandConv = registry.get("method", "randconv").load()
RCImg = registry.get("method", "rc-img").load()


def method(folder, cls=RandConv, **params):
    return make(cls, folder, params=cls.Params(**params))


# The transformation --------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_the_convolution_is_that_of_scipy_in_minus_one_to_one(size):
    torch.manual_seed(size)
    x, kernel, share = torch.rand(2, 3, 9, 11), randconv.draw_kernel(size), 0.3
    found = randconv.convolve(x, kernel, share).numpy()
    z, k = 2 * x.double().numpy() - 1, kernel.double().numpy()
    for image in range(2):
        for out in range(3):
            convolved = sum(
                ndimage.correlate(z[image, c], k[out, c], mode="constant") for c in range(3)
            )
            expected = (share * convolved + (1 - share) * z[image, out] + 1) / 2
            np.testing.assert_allclose(found[image, out], expected, atol=1e-6)


def test_a_black_background_changes():
    torch.manual_seed(0)
    black = torch.zeros(1, 3, 8, 8)
    assert (randconv.convolve(black, randconv.draw_kernel(1), 1.0) - black).abs().min() > 0.01


@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_weights_have_the_stated_variance(size):
    torch.manual_seed(0)
    drawn = torch.stack([randconv.draw_kernel(size) for _ in range(2000)])
    assert drawn.shape[1:] == (3, 3, size, size)
    spread = math.sqrt(1 / (3 * size**2))
    assert drawn.std().item() == pytest.approx(spread, rel=0.02)
    assert abs(drawn.mean().item()) < 0.02 * spread


def drawn_kernels(monkeypatch, method, count):
    """The kernel sizes and shares of some views; 0 where nothing was convolved."""
    drawn = []
    monkeypatch.setattr(
        randconv, "convolve", lambda x, kernel, share: drawn.append((kernel.shape[-1], share)) or x
    )
    x = torch.zeros(1, 3, 8, 8)
    torch.manual_seed(0)
    for _ in range(count):
        before = len(drawn)
        method.draw_view(x)
        if len(drawn) == before:
            drawn.append((0, 0.0))
    return np.array(drawn)


def test_sizes_and_shares_are_uniform(monkeypatch, tmp_path):
    sizes, shares = drawn_kernels(monkeypatch, method(tmp_path), 4000).T
    for size in (1, 3, 5, 7):
        assert np.mean(sizes == size) == pytest.approx(0.25, abs=0.03)
    np.testing.assert_allclose(np.quantile(shares, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.03)
    for size in (1, 7):  # independent of each other
        assert shares[sizes == size].mean() == pytest.approx(0.5, abs=0.04)


def test_rc_img_convolves_half_of_the_views_entirely(monkeypatch, tmp_path):
    sizes, shares = drawn_kernels(monkeypatch, method(tmp_path, RCImg), 4000).T
    assert np.mean(sizes == 0) == pytest.approx(0.5, abs=0.03)
    assert set(shares[sizes > 0]) == {1.0}


def test_the_published_values():
    mixed, image = RandConv.Params(), RCImg.Params()
    assert (mixed.weight, mixed.kernel_sizes, mixed.mix) == (10.0, (1, 3, 5, 7), True)
    assert (image.weight, image.mix, image.probability) == (5.0, False, 0.5)


@pytest.mark.parametrize("views", ["independent", "chained"])
def test_later_views_start_from_the_image_or_from_the_first_view(views, monkeypatch, tmp_path):
    monkeypatch.setattr(randconv, "convolve", lambda x, kernel, share: x + 1)
    x = torch.zeros(2, 3, 8, 8)
    means = [view.mean().item() for view in method(tmp_path, views=views).draw_views(x)]
    assert means == ([1, 1, 1] if views == "independent" else [1, 2, 2])


# The step ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [10.0, 2.5])
def test_a_step_has_the_loss_of_the_paper(weight, tmp_path):
    rc = method(tmp_path, weight=weight)
    x, y, *_ = two_batches()
    torch.manual_seed(4)
    views = rc.draw_views(x)
    assert not torch.equal(views[0], views[1])
    with torch.no_grad():
        logits = [rc.network(view).double().tolist() for view in views]
    torch.manual_seed(4)
    assert rc.train_step(x, y).item() == pytest.approx(
        consistency_by_hand(logits, y.tolist(), weight), rel=1e-5
    )


def test_without_consistency_there_is_one_view(tmp_path):
    rc = method(tmp_path, weight=0.0)
    x, y, *_ = two_batches()
    torch.manual_seed(4)
    (view,) = rc.draw_views(x)
    expected = rc.task.loss(rc.network(view), y).item()
    torch.manual_seed(4)
    assert rc.train_step(x, y).item() == expected


@pytest.mark.parametrize("network", ["convnet-2", "wrn-16-1"])
@pytest.mark.parametrize("cls", [RandConv, RCImg])
def test_with_probability_0_it_is_erm_bit_for_bit(cls, network, tmp_path):
    assert_erm(cls, tmp_path, network, probability=0.0)


@pytest.mark.parametrize(
    "bad", [{"weight": -1.0}, {"probability": 1.5}, {"kernel_sizes": (2,)}, {"kernel_sizes": ()}]
)
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="randconv needs"):
        RandConv.Params(**bad)
