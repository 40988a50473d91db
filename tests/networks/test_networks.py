import functools
import inspect
from copy import deepcopy

import pytest
import timm
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


@pytest.mark.parametrize(
    ("name", "classes", "size", "count"),
    [
        ("convnet", 10, (32, 32), 4_547_466),
        ("wrn-16-4", 10, (32, 32), 2_748_890),
        ("wrn-40-2", 10, (32, 32), 2_243_546),
        ("fcn32-resnet50", 14, (192, 320), 23_508_032 + 28_686 + 802_816),
    ],
)
def test_published_parameter_counts(name, classes, size, count):
    assert parameters(networks.build(name, classes, size)) == count


@pytest.mark.parametrize(
    ("name", "size", "features"),
    [
        ("convnet", (32, 32), (1024,)),
        ("convnet", (33, 33), (1024,)),
        ("convnet-8", (32, 32), (128,)),
        ("wrn-16-4", (32, 32), (256,)),
        ("wrn-16-1", (33, 33), (64,)),
        ("fcn32-resnet18", (64, 96), (512, 2, 3)),
        ("timm:test_resnet", (32, 32), (96,)),
        ("timm:test_efficientnet", (48, 32), (256,)),
        ("timm:test_vit", (32, 64), (64,)),
        ("timm:mobilenetv3_small_050", (32, 32), (1024,)),
        ("smp:fpn-tu-test_resnet", (64, 96), (128, 16, 24)),
        ("smp:unet-tu-test_resnet", (64, 64), (16, 64, 64)),
    ],
)
def test_forward_is_the_head_of_the_features(name, size, features):
    network = networks.build(name, 10, size).eval()
    x = torch.rand(2, 3, *size)
    with torch.inference_mode():
        z = network.features(x)
        logits = network.head(z)
        assert tuple(z.shape) == (2, *features)
        assert torch.equal(network(x), logits)
    assert logits.shape[:2] == (2, 10)
    assert logits.shape[2:] == (size if name.startswith(("fcn", "smp")) else ())


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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("convnt", 'No network "convnt". Did you mean "convnet"'),
        ("wrn-15-4", "depth is 6n"),
        ("wrn-16", "wrn-16-4"),
        ("convnet-0", "use a width"),
        ("fcn32-resnet5000", 'No encoder "resnet5000". Did you mean "resnet50"'),
        ("timm:resnet1", 'No timm model "resnet1". Did you mean "resnet18"'),
        ("timm:resnet18.a9_in1k", 'tag of timm:resnet18 called "a9_in1k". Did you mean "a._in1k"'),
        ("smp:fnp-resnet18", 'No architecture "fnp". Did you mean "fpn"'),
        ("smp:fpn", "names no encoder"),
        ("smp:fpn-tu-resnet1", 'No encoder "tu-resnet1". Did you mean "tu-resnet18"'),
    ],
)
def test_unknown_networks_are_explained(name, message):
    with pytest.raises(UserError, match=message):
        networks.build(name, 10, (32, 32))


def test_a_network_is_refused_for_another_task_and_for_images_that_it_cannot_take():
    with pytest.raises(UserError, match=r"timm:resnet18 is for classification.*fcn32-resnet50"):
        networks.check("timm:resnet18", (32, 32), "segmentation")
    with pytest.raises(UserError, match=r"multiples of 32, not 60 x 100.*image_size=64,96"):
        networks.check("smp:fpn-resnet18", (60, 100), "segmentation")
    with pytest.raises(UserError, match=r"16 x 16 pixels or more, not 12 x 40"):
        networks.check("convnet", (12, 40))
    with pytest.raises(UserError, match=r"timm:test_vit cannot be built for images of 8 x 8"):
        networks.build("timm:test_vit", 10, (8, 8))


def test_a_network_of_a_plugin(tmp_path, cli):
    plugin = tmp_path / "my_network.py"
    plugin.write_text(
        """
from torch import nn

from sdgbench.networks import Network
from sdgbench.registry import register_network


@register_network("flat")
class Flat(Network):
    def __init__(self, classes, size):
        super().__init__()
        self.classifier = nn.Linear(3 * size[0] * size[1], classes)

    def embed(self, x):
        return x.flatten(1)

    def head(self, z):
        return self.classifier(z)
"""
    )
    where = ["--dataset", "digits-mini", "--preset", "smoke", "--plugin", plugin]
    done = cli("run", "--method", "erm", *where, "--set", "recipe.network=flat")
    assert done.code == 0, done
    refused = cli("run", "--method", "erm", *where, "--set", "recipe.network=flat-3")
    assert (refused.code, "has none" in refused.err) == (2, True)


# Networks of timm ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["test_resnet", "test_vit", "resnetv2_50", "convnext_atto"])
def test_a_timm_network_is_timms_own_with_its_normalisation(name):
    torch.manual_seed(0)
    network = networks.build(f"timm:{name}", 5, (64, 64)).eval()
    size = {"img_size": 64} if "vit" in name else {}
    model = timm.create_model(name, num_classes=5, **size).eval()
    model.load_state_dict(network.model.state_dict())
    x = torch.rand(2, 3, 64, 64)
    mean, std = (torch.tensor(model.pretrained_cfg[key]).view(3, 1, 1) for key in ("mean", "std"))
    with torch.no_grad():
        assert torch.allclose(network(x), model((x - mean) / std), atol=1e-5)


def test_a_transformer_takes_images_of_another_size_and_has_no_stages():
    network = networks.build("timm:test_vit", 5, (32, 32)).eval()
    assert network(torch.rand(2, 3, 33, 33)).shape == (2, 5)
    with pytest.raises(UserError, match="no stages of feature maps"):
        network.stages(torch.rand(2, 3, 32, 32))


# Stages --------------------------------------------------------------------------------------

STAGED = pytest.mark.parametrize(
    ("name", "size", "shapes"),
    [
        ("convnet-2", (32, 32), [(2, 14, 14), (4, 5, 5)]),
        ("wrn-16-1", (32, 32), [(16, 32, 32), (32, 16, 16), (64, 8, 8)]),
        ("wrn-10-2", (33, 33), [(32, 33, 33), (64, 17, 17), (128, 9, 9)]),
        (
            "fcn32-resnet18",
            (64, 96),
            [(64, 16, 24), (128, 8, 12), (256, 4, 6), (512, 2, 3)],
        ),
        ("timm:test_resnet", (64, 64), [(32, 16, 16), (48, 8, 8), (192, 4, 4), (96, 2, 2)]),
        ("timm:test_efficientnet", (64, 64), [(24, 16, 16), (32, 8, 8), (48, 4, 4), (64, 2, 2)]),
    ],
)


@pytest.mark.parametrize("encoder", ["efficientnet-b0", "mobilenet_v2", "tu-resnet18"])
def test_stages_of_other_encoders(encoder):
    """Identities inside a block return its input, and must not be taken for the block."""
    network = networks.build(f"fcn32-{encoder}", 4, (64, 64)).eval()
    assert [m.shape[-1] for m in network.stages(torch.rand(1, 3, 64, 64))] == [16, 8, 4, 2]
    x, blank = torch.rand(2, 3, 64, 64), lambda m, number: m * (number != 0)
    with torch.no_grad():
        zeroed = network(x, blank)
    assert torch.equal(zeroed[0], zeroed[1])


@STAGED
def test_stages_are_feature_maps(name, size, shapes):
    network = networks.build(name, 10, size).eval()
    maps = network.stages(torch.rand(2, 3, *size))
    assert [tuple(m.shape) for m in maps] == [(2, *shape) for shape in shapes]
    assert network.images_forward == 2


@STAGED
def test_the_network_goes_on_with_what_a_stage_hook_returns(name, size, shapes):
    network, x = networks.build(name, 10, size).eval(), torch.rand(2, 3, *size)
    with torch.no_grad():
        plain, seen = network(x), []
        assert torch.equal(network(x, lambda m, number: seen.append(number) or m), plain)
        assert seen == list(range(len(shapes)))
        for chosen in seen:
            zeroed = network(x, lambda m, number, chosen=chosen: m * (number != chosen))
            assert torch.equal(zeroed[0], zeroed[1])  # nothing of the images is left
            assert not torch.equal(zeroed, plain)
        assert torch.equal(network(x), plain)  # no hook stays


@pytest.mark.parametrize("name", ["convnet-2", "fcn32-resnet18"])
def test_a_stage_hook_does_not_change_the_state_of_a_network(name):
    network, x = networks.build(name, 10, (64, 64)).train(), torch.rand(2, 3, 64, 64)
    copy = deepcopy(network)
    for one, hook in ((network, None), (copy, lambda m, _: m)):
        torch.manual_seed(0)
        one(x, hook).sum().backward()
    for (key, mine), theirs in zip(
        network.state_dict().items(), copy.state_dict().values(), strict=True
    ):
        assert torch.equal(mine, theirs), key
    for mine, theirs in zip(network.parameters(), copy.parameters(), strict=True):
        assert torch.equal(mine.grad, theirs.grad)


def test_a_stage_hook_ends_with_its_call_even_if_it_fails():
    network, x = networks.build("convnet-2", 10, (32, 32)), torch.rand(2, 3, 32, 32)
    with pytest.raises(ZeroDivisionError):
        network(x, lambda m, _: 1 / 0)
    network(x)


def test_stage_hooks_act_in_functional_calls_and_in_copies():
    network, x = networks.build("wrn-10-1", 10, (32, 32)).eval(), torch.rand(2, 3, 32, 32)
    weights = {name: 2 * w.detach() for name, w in network.named_parameters()}

    def double(feature_map, number):
        return 2 * feature_map if number == 2 else feature_map

    twin = deepcopy(network)
    with torch.no_grad():
        for name, weight in twin.named_parameters():
            weight.copy_(weights[name])
        expected = twin(x, double)
        result = torch.func.functional_call(network, weights, (x, double))
    assert torch.equal(result, expected)
    assert not torch.equal(result, twin(x))


def test_stage_hooks_act_on_a_compiled_network(monkeypatch):
    """Compiled code does not see hooks, so a call with one must not use it."""

    def stale(function):
        @functools.wraps(function)
        def compiled(self, x):
            raise AssertionError("compiled code ran")

        return compiled

    network, x = networks.build("convnet-2", 10, (32, 32)), torch.rand(2, 3, 32, 32)
    network.__class__ = type("Compiled", (type(network),), {"embed": stale(type(network).embed)})
    assert len(network.stages(x)) == 2
    with pytest.raises(AssertionError, match="compiled code ran"):
        network(x)


def test_torch_says_what_a_compiled_function_was_made_of():
    def function(x):
        return x

    assert inspect.unwrap(torch.compile(function)) is function


def test_stages_that_a_network_does_not_have_are_refused():
    network = networks.build("convnet-2", 10, (32, 32))
    network.check_stages([0, 1])
    with pytest.raises(UserError, match="no stage 2: its stages are 0 to 1"):
        network.check_stages([0, 2])
    with pytest.raises(UserError, match="no stages of feature maps.*wrn-16-4"):
        networks.Network().check_stages([])


# Layers with cheaper second derivatives ------------------------------------------------------


def rows():
    return torch.rand(4, 6, dtype=torch.double, requires_grad=True)


def images():
    return torch.rand(2, 3, 7, 6, dtype=torch.double)


LAYERS = pytest.mark.parametrize(
    ("ours", "torchs", "given"),
    [
        (lambda: layers.Linear(6, 5), lambda: nn.Linear(6, 5), rows),
        (lambda: layers.FirstConv2d(3, 4, 3), lambda: nn.Conv2d(3, 4, 3), images),
    ],
)


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
    grads = [torch.autograd.grad(layer(x).tanh().sum(), x)[0] for layer in (ours, torchs)]
    assert torch.equal(*grads)


def test_no_gradient_of_pixels_is_computed_in_second_derivatives():
    """Torch's own convolution does so, whoever asks."""
    counts = []
    for layer in same_layers(lambda: layers.FirstConv2d(3, 4, 3), lambda: nn.Conv2d(3, 4, 3)):
        (grad,) = torch.autograd.grad(
            layer(images()).tanh().square().sum(), layer.weight, create_graph=True
        )
        with FlopCounterMode(display=False) as counter:
            grad.sum().backward()
        counts.append(counter.get_total_flops())
    assert counts[0] < counts[1]
