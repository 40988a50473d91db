import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from sdgbench import networks
from sdgbench.errors import UserError
from sdgbench.networks import layers
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


# Layers with cheaper second derivatives ------------------------------------------------------


def rows():
    return torch.rand(4, 6, dtype=torch.double, requires_grad=True)


def images():
    return torch.rand(2, 3, 7, 6, dtype=torch.double)


LAYERS = pytest.mark.parametrize(("ours", "torchs", "given"), [
    (lambda: layers.Linear(6, 5), lambda: nn.Linear(6, 5), rows),
    (lambda: layers.FirstConv2d(3, 4, 3), lambda: nn.Conv2d(3, 4, 3), images),
])  # fmt: skip


def same_layers(ours, torchs):
    pair = []
    for build in (ours, torchs):
        torch.manual_seed(0)
        pair.append(build().double())
    return pair


@LAYERS
def test_a_layer_starts_and_computes_as_torchs_own(ours, torchs, given):
    ours, torchs = same_layers(ours, torchs)
    assert isinstance(ours, type(torchs))
    x = given()
    assert torch.equal(ours(x), torchs(x))
    x = x.detach().float()
    with torch.autocast("cpu", torch.float16):
        half = ours.float()(x)
        assert half.dtype == torch.float16
        assert torch.equal(half, torchs.float()(x))


@LAYERS
def test_first_and_second_derivatives_of_a_layer(ours, torchs, given):
    layer, x = ours().double(), given()
    wanted = [*([x] if x.requires_grad else []), *layer.parameters()]

    def apply(*_):
        return layer(x).tanh()

    assert torch.autograd.gradcheck(apply, wanted)
    assert torch.autograd.gradgradcheck(apply, wanted)


def test_the_first_convolution_has_a_gradient_of_pixels_where_it_is_wanted():
    x = images().requires_grad_()
    ours, torchs = same_layers(lambda: layers.FirstConv2d(3, 4, 3), lambda: nn.Conv2d(3, 4, 3))
    slopes = [torch.autograd.grad(layer(x).tanh().sum(), x)[0] for layer in (ours, torchs)]
    assert torch.equal(*slopes)


def test_no_gradient_of_pixels_is_computed_in_second_derivatives():
    """Torch's own convolution does so, whoever asks."""
    counts = []
    for layer in same_layers(lambda: layers.FirstConv2d(3, 4, 3), lambda: nn.Conv2d(3, 4, 3)):
        (slope,) = torch.autograd.grad(
            layer(images()).tanh().square().sum(), layer.weight, create_graph=True
        )
        with FlopCounterMode(display=False) as counter:
            slope.sum().backward()
        counts.append(counter.get_total_flops())
    assert counts[0] < counts[1]
