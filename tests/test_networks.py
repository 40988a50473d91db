import pytest
import torch
from torch.nn import functional as F

from sdgbench import networks
from sdgbench.errors import UserError
from sdgbench.networks.fcn import FCN32


def parameters(network):
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize(("name", "classes", "size", "count"), [
    ("convnet", 10, (32, 32), 4_547_466),
    ("wrn-16-4", 10, (32, 32), 2_748_890),
    ("wrn-40-2", 10, (32, 32), 2_243_546),
    ("fcn32-resnet50", 14, (192, 320), 23_508_032 + 28_686 + 802_816),
])  # fmt: skip
def test_published_parameter_counts(name, classes, size, count):
    assert parameters(networks.build(name, classes, size)) == count


@pytest.mark.parametrize(("name", "size", "features"), [
    ("convnet", (32, 32), (1024,)), ("convnet", (33, 33), (1024,)), ("convnet-8", (32, 32), (128,)),
    ("wrn-16-4", (32, 32), (256,)), ("wrn-16-1", (33, 33), (64,)),
    ("fcn32-resnet18", (64, 96), (512, 2, 3)),
])  # fmt: skip
def test_forward_is_the_head_of_the_features(name, size, features):
    network = networks.build(name, 10, size).eval()
    x = torch.rand(2, 3, *size)
    with torch.inference_mode():
        z = network.features(x)
        logits = network.head(z)
        assert tuple(z.shape) == (2, *features)
        assert torch.equal(network(x), logits)
    assert logits.shape[:2] == (2, 10)
    assert logits.shape[2:] == (size if name.startswith("fcn") else ())


def test_the_convnet_takes_33_pixels_with_the_same_parameters():
    assert parameters(networks.build("convnet", 10, (33, 33))) == 4_547_466


def test_normalisation_is_inside():
    network = networks.build("wrn-16-1", 10, (32, 32)).eval()
    seen = []
    network.body.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    grey = torch.tensor([125.3, 123.0, 113.9]).view(1, 3, 1, 1).expand(1, 3, 32, 32) / 255
    network(grey)
    assert seen[0].abs().max() < 1e-6
    network(grey + torch.tensor([63.0, 62.1, 66.7]).view(1, 3, 1, 1) / 255)
    assert seen[1] == pytest.approx(torch.ones(1, 3, 32, 32), abs=1e-5)


def test_the_upsampling_starts_as_bilinear_interpolation():
    network = FCN32(3, "resnet18")
    small = torch.rand(1, 3, 4, 6)
    with torch.no_grad():
        large = network.upsample(small)
    expected = F.interpolate(small, scale_factor=32, mode="bilinear", align_corners=False)
    inside = (..., slice(32, -32), slice(32, -32))  # at the rim interpolation repeats the edge
    assert torch.allclose(large[inside], expected[inside], atol=1e-5)


def test_features_end_in_a_relu():
    for name in ("convnet-8", "wrn-16-1"):
        z = networks.build(name, 10, (32, 32)).eval().features(torch.rand(4, 3, 32, 32))
        assert (z >= 0).all()


def test_images_are_counted_by_whether_a_gradient_was_recorded():
    network = networks.build("convnet-2", 10, (32, 32))
    network(torch.rand(5, 3, 32, 32))
    with torch.no_grad():
        network(torch.rand(3, 3, 32, 32))
    torch.func.functional_call(network, dict(network.named_parameters()), torch.rand(2, 3, 32, 32))
    assert (network.images_forward, network.images_with_gradient) == (10, 7)


@pytest.mark.parametrize(("name", "message"), [
    ("convnt", 'No network "convnt". Did you mean "convnet"'),
    ("wrn-15-4", "depth is 6n"),
    ("fcn32-resnet5000", 'No encoder "resnet5000". Did you mean "resnet50"'),
])  # fmt: skip
def test_unknown_networks_are_explained(name, message):
    with pytest.raises(UserError, match=message):
        networks.build(name, 10, (32, 32))
