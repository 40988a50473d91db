"""AugMix against one image at a time with Pillow; its distributions, loss and reduction to ERM."""

import math

import numpy as np
import pytest
import torch
from helpers import assert_erm, consistency_by_hand, make, two_batches
from PIL import Image, ImageEnhance, ImageOps
from skimage import data

from sdgbench import registry
from sdgbench.methods import augmix

AugMix = registry.get("method", "augmix").load()
AugMixAll = registry.get("method", "augmix-all").load()


def method(folder, cls=AugMix, **params):
    return make(cls, folder, params=cls.Params(**params))


def photographs(count):
    """Parts of a photograph, 32 x 32."""
    image = np.asarray(Image.fromarray(data.astronaut()).resize((128, 128)))
    corners = [(8 * n % 96, 24 * n % 96) for n in range(count)]
    return torch.from_numpy(
        np.stack([image[i : i + 32, j : j + 32].transpose(2, 0, 1) for i, j in corners])
    )


# The transformation --------------------------------------------------------------------------


def operate(image, operations, kind, strength, sign):
    """One operation with Pillow, by the formulas of the paper's code."""
    name = operations[int(kind * len(operations))]
    level = 0.1 + 2.9 * strength
    sign = -1 if sign < 0.5 else 1

    def move(*matrix):
        return image.transform((32, 32), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)

    return {
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "posterize": lambda: ImageOps.posterize(image, 4 - math.floor(0.4 * level)),
        "solarize": lambda: ImageOps.solarize(image, 256 - math.floor(25.6 * level)),
        "rotate": lambda: image.rotate(sign * math.floor(3 * level), Image.Resampling.BILINEAR),
        "shear-x": lambda: move(1, sign * 0.03 * level, 0, 0, 1, 0),
        "shear-y": lambda: move(1, 0, 0, sign * 0.03 * level, 1, 0),
        "translate-x": lambda: move(1, 0, sign * math.floor(32 / 30 * level), 0, 1, 0),
        "translate-y": lambda: move(1, 0, 0, 0, 1, sign * math.floor(32 / 30 * level)),
        "color": lambda: ImageEnhance.Color(image).enhance(0.1 + 0.18 * level),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(0.1 + 0.18 * level),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(0.1 + 0.18 * level),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(0.1 + 0.18 * level),
    }[name]()


@pytest.mark.parametrize(
    ("cls", "operations"),
    [(AugMix, augmix.OPERATIONS), (AugMixAll, augmix.ALL_OPERATIONS)],
    ids=["nine", "all"],
)
def test_a_mixture_is_what_pillow_makes_of_one_image(cls, operations, tmp_path):
    """A difference of one level may grow where a later operation stretches or cuts levels."""
    images, mix = photographs(24), method(tmp_path, cls)
    torch.manual_seed(0)
    found = mix.mixtures(images.float() / 255, views=2).numpy()
    torch.manual_seed(0)
    drawn = iter(torch.rand(24 * 2 * (1 + 3 * 11), dtype=torch.float64).tolist())
    differences = []
    for n in range(24):
        for view in range(2):
            m, chains, weights = next(drawn), [], []
            for _ in range(3):
                weights.append(-math.log(1 - next(drawn)))
                length, image = (
                    1 + int(3 * next(drawn)),
                    Image.fromarray(images[n].permute(1, 2, 0).numpy()),
                )
                for step in range(3):
                    numbers = next(drawn), next(drawn), next(drawn)
                    image = operate(image, operations, *numbers) if step < length else image
                chains.append(np.asarray(image, np.float64).transpose(2, 0, 1))
            mixed = sum(w / sum(weights) * c for w, c in zip(weights, chains, strict=True))
            expected = (1 - m) * images[n].double().numpy() + m * mixed
            differences.append(np.abs(255 * found[view, n] - expected))
    differences = np.stack(differences)
    assert differences.mean() < 0.02  # of 255 levels
    assert (differences > 1.01).mean() < 1e-3


def test_lengths_operations_and_strengths_are_uniform(monkeypatch, tmp_path):
    steps = []
    monkeypatch.setattr(
        augmix,
        "apply",
        lambda levels, names, choice, level, sign, *rest: (
            steps.append((choice, level, sign)) or levels
        ),
    )
    torch.manual_seed(0)
    method(tmp_path).mixtures(torch.zeros(700, 3, 4, 4), views=2)
    assert len(steps) == 3
    active = [(choice >= 0).double().mean().item() for choice, _, _ in steps]
    assert active == pytest.approx([1, 2 / 3, 1 / 3], abs=0.03)
    choice, level, sign = steps[0]
    shares = torch.bincount(choice, minlength=9) / len(choice)
    assert shares.tolist() == pytest.approx([1 / 9] * 9, abs=0.02)
    assert level.quantile(torch.tensor([0, 0.5, 1.0]).double()).tolist() == pytest.approx(
        [0.1, 1.55, 3], abs=0.1
    )
    assert sign.mean().item() == pytest.approx(0, abs=0.05)
    assert set(sign.tolist()) == {-1.0, 1.0}


def test_shares_are_from_beta_and_dirichlet(monkeypatch, tmp_path):
    """With chains that are white, black, black, pixels show m w_1 plus the black image's share."""
    mix = method(tmp_path)

    def chains(levels, drawn):
        made = torch.zeros(1, 3, *levels.shape)
        made[:, 0] = 255
        return made

    monkeypatch.setattr(AugMix, "chains", lambda self, levels, drawn: chains(levels, drawn))
    torch.manual_seed(0)
    with_black = mix.mixtures(torch.zeros(4000, 3, 1, 1), views=1)[0, :, 0, 0, 0]
    torch.manual_seed(0)
    with_white = mix.mixtures(torch.ones(4000, 3, 1, 1), views=1)[0, :, 0, 0, 0]
    m = 1 - (with_white - with_black)
    w = with_black / m
    assert m.mean().item() == pytest.approx(1 / 2, abs=0.02)
    assert m.var().item() == pytest.approx(1 / 12, abs=0.005)
    assert w.mean().item() == pytest.approx(1 / 3, abs=0.02)
    assert w.var().item() == pytest.approx(1 / 18, abs=0.005)  # of Dirichlet(1, 1, 1)


def test_a_black_background_stays_black(tmp_path):
    """Why it gains little on domains whose background is not black (docs/reproduction.md)."""
    x = torch.zeros(64, 3, 32, 32)
    x[:, :, 14:18, 14:18] = torch.rand(64, 1, 4, 4)  # too small to be moved to the frame
    views = method(tmp_path).mixtures(x, views=2)
    assert views[..., 14:18, 14:18].ne(x[..., 14:18, 14:18]).any()
    assert not views[..., :2, :].any()


def test_an_images_views_do_not_depend_on_the_other_images(tmp_path):
    mix, images = method(tmp_path), photographs(8).float() / 255
    others = images.flip(0)
    others[3] = images[3]
    torch.manual_seed(1)
    first = mix.mixtures(images, views=2)[:, 3]
    torch.manual_seed(1)
    assert torch.equal(mix.mixtures(others, views=2)[:, 3], first)


# The step ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [12.0, 1.0])
def test_a_step_has_the_loss_of_the_paper(weight, tmp_path):
    mix = method(tmp_path, weight=weight)
    x, y, *_ = two_batches()
    torch.manual_seed(4)
    views = [x, *mix.mixtures(x, views=2)]
    with torch.no_grad():
        logits = [mix.network(view).double().tolist() for view in views]
    torch.manual_seed(4)
    expected = consistency_by_hand(logits, y.tolist(), weight)
    assert mix.train_step(x, y).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("network", ["convnet-2", "wrn-16-1"])
def test_without_weight_it_is_erm_bit_for_bit(network, tmp_path):
    assert_erm(AugMix, tmp_path, network, weight=0.0)


@pytest.mark.parametrize("bad", [{"weight": -1.0}, {"severity": 11.0}, {"width": 0}, {"depth": 0}])
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="augmix needs"):
        AugMix.Params(**bad)
