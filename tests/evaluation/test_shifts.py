"""Held-out source under families of changes: every one changes images, none is a corruption."""

import numpy as np
import pytest
import torch
from helpers import erm, make, toy_domain

from sdgbench.corruptions.names import ALL_19
from sdgbench.evaluation.evaluator import score_domain
from sdgbench.evaluation.shifts import CHANGES, ShiftedImages, score_families
from sdgbench.spec.shifts import FAMILIES, usable
from sdgbench.training.device import Device
from sdgbench.training.streaming import open_images


class Coloured:
    """Eight random colour images, as evaluation reads them."""

    device = Device("cpu")

    def __init__(self, count=8):
        self.images = torch.rand(count, 3, 12, 16, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.images)

    def span(self, start, stop):
        return self.images[start:stop].clone()

    def truth(self, start, stop):
        return np.arange(start, stop)


def test_every_family_has_its_changes_and_no_name_of_a_corruption():
    assert list(FAMILIES) == list(CHANGES)
    assert not set(FAMILIES) & set(ALL_19)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_changes_every_image_and_depends_on_its_position_alone(family):
    plain = Coloured()
    shifted = ShiftedImages(plain, family)
    whole = shifted.span(0, 8)
    assert whole.shape == plain.images.shape
    assert whole.min() >= 0
    assert whole.max() <= 1
    assert all(
        not torch.allclose(a, b, atol=0.02) for a, b in zip(whole, plain.images, strict=True)
    )
    parts = [shifted.span(0, 3), shifted.span(3, 4), shifted.span(4, 8)]
    assert torch.allclose(torch.cat(parts), whole, atol=1e-6)
    assert list(shifted.truth(2, 5)) == [2, 3, 4]


def test_known_changes():
    x = torch.tensor([0.1, 0.4, 0.9]).view(1, 3, 1, 1).expand(1, 3, 8, 8).clone()
    first = {family: changes[0](x)[0, :, 1, 1].tolist() for family, changes in CHANGES.items()}
    assert first["channels"] == pytest.approx([0.4, 0.9, 0.1])
    assert first["invert"] == pytest.approx([0.9, 0.6, 0.1])
    assert first["posterize"] == pytest.approx([0, 1 / 3, 1])
    assert first["solarize"] == pytest.approx([0.1, 0.4, 0.1])
    striped = CHANGES["stripes"][0](x)
    assert (striped == 0).float().mean() == 0.25
    covered = CHANGES["occlusion"][3](x)
    assert (covered[0, :, 5:7, 5:7] == 0.5).all()
    assert (covered == 0.5).float().mean() == 4 / 64


def test_the_score_is_that_of_the_changed_images(tmp_path):
    method = make(erm(), tmp_path)
    method.network.eval()
    images = open_images(toy_domain(), method.device)
    scores = score_families(method, images, 16, ["invert", "wave"])
    inverted = toy_domain()
    changed = type(inverted)(inverted.name, 255 - inverted.images, inverted.labels)
    expected, _ = score_domain(method, open_images(changed, method.device), 16)
    assert scores["invert"] == expected.accuracy
    assert list(scores) == ["invert", "wave"]


def test_what_training_or_targets_use_is_excluded():
    some = {
        "augment": "flip,colour-jitter",
        "method": ("rotate",),
        "dataset": ("posterize",),
        "corruptions": False,
        "segmentation": False,
    }
    names, excluded = usable(**some)
    assert set(excluded) == {"hue", "channels", "shading", "rotate", "posterize"}
    assert set(names) == set(FAMILIES) - set(excluded)
    assert excluded["rotate"] == "the method trains with them"
    on_corruptions, _ = usable(**{**some, "augment": "none", "corruptions": True})
    assert on_corruptions == ["channels", "hue", "invert", "solarize", "shear"]
    of_pixels, _ = usable(**{**some, "augment": "none", "segmentation": True})
    assert not {"rotate", "shear", "wave"} & set(of_pixels)
