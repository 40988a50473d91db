import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import (
    RECIPE,
    assert_erm_without_weight,
    assert_same_weights,
    erm,
    make,
    toy_domain,
    weights,
)

from sdgbench.evaluation import efficiency
from sdgbench.methods._permutations import PERMUTATIONS
from sdgbench.methods.jigen import JiGen, cut, join, rearrange, to_grid
from sdgbench.training import checkpoint

SGD = replace(RECIPE, network="wrn-10-1", optimiser="sgd", lr=0.05, momentum=0.9, schedule="linear")


def jigen(folder, recipe=RECIPE, cls=JiGen, **params):
    return make(cls, folder, recipe, params=cls.Params(**params))


def batch(count=4):
    domain = toy_domain()
    images = torch.from_numpy(domain.images[:count]).float() / 255
    return images, torch.from_numpy(domain.labels[:count]).long()


def fixed(*orders):
    """The method with the orders of its four images given."""

    class Fixed(JiGen):
        def draw_orders(self, count):
            return torch.tensor(orders)

    return Fixed


# The permutations --------------------------------------------------------------------------


def greedy(count, tiles, seed):
    """How the stored list was made."""
    draw = random.Random(seed).random
    every = np.array(list(itertools.permutations(range(tiles))), dtype=np.uint8)[1:]
    total, least = np.zeros(len(every), dtype=np.int64), np.full(len(every), tiles)
    chosen = []
    for _ in range(count):
        best = np.flatnonzero(total == total.max())
        best = best[least[best] == least[best].max()]
        pick = best[int(draw() * len(best))]
        chosen.append(tuple(every[pick].tolist()))
        distance = (every != every[pick]).sum(1)
        total, least = total + distance, np.minimum(least, distance)
        total[pick] = -(10**9)  # never again
    return tuple(chosen)


def test_the_stored_permutations_can_be_made_again():
    assert greedy(30, 9, seed=0) == PERMUTATIONS


def test_the_stored_permutations_differ_well():
    identity = tuple(range(9))
    assert len(set(PERMUTATIONS)) == 30
    assert all(sorted(order) == list(identity) for order in PERMUTATIONS)
    assert identity not in PERMUTATIONS
    pairs = itertools.combinations(PERMUTATIONS, 2)
    distances = [sum(p != q for p, q in zip(*pair, strict=True)) for pair in pairs]
    assert min(distances) == 6
    assert sum(distances) / len(distances) == pytest.approx(8.255, abs=1e-3)


# Tiles -------------------------------------------------------------------------------------


def test_tiles_are_counted_row_by_row():
    image = torch.arange(54.0).view(1, 1, 6, 9)
    tiles = cut(image)
    assert tiles.shape == (1, 9, 1, 2, 3)
    assert tiles[0, 0, 0].tolist() == [[0, 1, 2], [9, 10, 11]]
    assert tiles[0, 1, 0].tolist() == [[3, 4, 5], [12, 13, 14]]
    assert tiles[0, 3, 0].tolist() == [[18, 19, 20], [27, 28, 29]]
    assert torch.equal(join(tiles), image)


def test_each_place_gets_the_tile_that_its_order_names():
    """Three images with their own orders, pixels numbered through, no pixel left unchecked."""
    orders = [PERMUTATIONS[0], tuple(range(9)), PERMUTATIONS[7]]
    images = torch.arange(3 * 3 * 6 * 9.0).view(3, 3, 6, 9)
    shuffled = join(rearrange(cut(images), torch.tensor(orders)))
    for n, channel, row, column in itertools.product(range(3), range(3), range(6), range(9)):
        tile = orders[n][row // 2 * 3 + column // 3]
        from_row, from_column = tile // 3 * 2 + row % 2, tile % 3 * 3 + column % 3
        assert shuffled[n, channel, row, column] == images[n, channel, from_row, from_column]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((32, 32), (33, 33)),
        ((33, 33), (33, 33)),
        ((31, 28), (33, 30)),
        ((1, 3), (3, 3)),
    ],
)
def test_images_grow_to_the_next_multiple_of_three(size, expected):
    assert to_grid(torch.zeros(1, 3, *size)).shape[2:] == expected


def test_resizing_is_bilinear_between_pixel_centres():
    ramp = torch.arange(32.0).expand(1, 3, 32, 32)
    places = [min(31.0, max(0.0, (i + 0.5) * 32 / 33 - 0.5)) for i in range(33)]
    resized = to_grid(ramp)
    assert resized[0, 2, 5].tolist() == pytest.approx(places, abs=1e-5)
    assert to_grid(ramp.transpose(2, 3))[0, 0, :, 9].tolist() == pytest.approx(places, abs=1e-5)


def test_grey_tiles(tmp_path):
    tiles = torch.rand(50, 9, 3, 2, 2)
    red, green, blue = tiles.unbind(2)
    grey = (0.299 * red + 0.587 * green + 0.114 * blue)[:, :, None].expand(-1, -1, 3, -1, -1)
    assert jigen(tmp_path).make_grey(tiles) is tiles
    assert torch.allclose(jigen(tmp_path, grey=1.0).make_grey(tiles), grey)
    torch.manual_seed(0)
    some = jigen(tmp_path, grey=0.5).make_grey(tiles)
    turned = torch.isclose(some, grey).flatten(2).all(2)
    kept = (some == tiles).flatten(2).all(2)
    assert torch.equal(turned, ~kept)
    assert 170 < int(turned.sum()) < 280  # of 450
    assert 0 < int(turned[0].sum()) < 9  # each tile for itself


# Orders ------------------------------------------------------------------------------------


def test_how_often_images_stay_in_order(tmp_path):
    method = jigen(tmp_path, bias=0.6)
    torch.manual_seed(0)
    counts = torch.bincount(method.draw_orders(40_000), minlength=31).tolist()
    assert len(counts) == 31
    assert counts[0] / 40_000 == pytest.approx(0.6 + 0.4 / 31, abs=0.01)
    assert all(0.4 / 31 * 40_000 * 0.75 < count < 0.4 / 31 * 40_000 * 1.25 for count in counts[1:])


def test_class_0_is_the_image_in_order(tmp_path):
    method = jigen(tmp_path)
    assert method._orders[0].tolist() == list(range(9))
    assert tuple(method._orders[30].tolist()) == PERMUTATIONS[29]
    assert set(jigen(tmp_path, bias=1.0).draw_orders(100).tolist()) == {0}


# The step ----------------------------------------------------------------------------------


def with_known_logits(method):
    """Both heads answer with their biases, whatever they see: 0, 1, ..., 9 and 0, .1, ..., 3."""
    with torch.no_grad():
        for head, step in ((method.network.classifier, 1.0), (method.jigsaw_head, 0.1)):
            head.weight.zero_()
            head.bias.copy_(step * torch.arange(len(head.bias)))
    return method


@pytest.mark.parametrize(("classify", "counted"), [("ordered", [0, 2]), ("all", [0, 1, 2, 3])])
def test_the_loss_worked_out_by_hand(classify, counted, tmp_path):
    method = jigen(tmp_path, cls=fixed(0, 3, 0, 30), classify=classify, weight=0.5)
    x, _ = batch()
    labels = [1, 7, 4, 2]
    by_class = math.log(sum(math.exp(k) for k in range(10)))
    by_order = math.log(sum(math.exp(k / 10) for k in range(31)))
    classification = sum(by_class - labels[n] for n in counted) / len(counted)
    jigsaw = sum(by_order - order / 10 for order in (0, 3, 0, 30)) / 4
    loss = with_known_logits(method).train_step(x, torch.tensor(labels))
    assert loss.item() == pytest.approx(classification + 0.5 * jigsaw, rel=1e-6)


def test_without_an_image_in_order_only_the_puzzle_counts(tmp_path):
    method = jigen(tmp_path, cls=fixed(4, 3, 9, 30), weight=0.5)
    x, y = batch()
    with torch.no_grad():
        z = method.network.features(join(rearrange(cut(to_grid(x)), method._orders[[4, 3, 9, 30]])))
        logits = method.jigsaw_head(z).tolist()
    cross = [
        math.log(sum(map(math.exp, row))) - row[k]
        for row, k in zip(logits, (4, 3, 9, 30), strict=True)
    ]
    assert method.train_step(x, y).item() == pytest.approx(0.5 * sum(cross) / 4, rel=1e-5)
    assert method.network.classifier.weight.grad.abs().sum() == 0
    assert method.network.body[0].weight.grad.abs().sum() > 0  # through the jigsaw head
    assert all(parameter.isfinite().all() for parameter in method.network.parameters())


def test_a_step_trains_on_shuffled_images_of_33_pixels(tmp_path):
    method = jigen(tmp_path, cls=fixed(0, 3, 0, 30))
    x, y = batch()
    seen = []
    embed = method.network.embed
    method.network.embed = lambda images: seen.append(images) or embed(images)
    method.train_step(x, y)
    expected = to_grid(x)
    assert torch.equal(seen[0][0], expected[0])
    assert torch.equal(seen[0][2], expected[2])
    for n, order in ((1, 3), (3, 30)):
        first = PERMUTATIONS[order - 1][0]  # which tile is now at the top left
        row, column = first // 3 * 11, first % 3 * 11
        tile = expected[n, :, row : row + 11, column : column + 11]
        assert torch.equal(seen[0][n, :, :11, :11], tile)


def test_a_step_trains_on_grey_tiles_if_asked(tmp_path):
    method = jigen(tmp_path, grey=1.0)
    seen = []
    embed = method.network.embed
    method.network.embed = lambda images: seen.append(images) or embed(images)
    coloured = torch.rand(4, 3, 32, 32)
    method.train_step(coloured, batch()[1])
    assert torch.equal(seen[0][:, 0], seen[0][:, 2])


@pytest.mark.parametrize("recipe", [RECIPE, SGD], ids=["adam", "sgd"])
def test_the_jigsaw_head_learns_by_the_schedule(recipe, tmp_path):
    method = jigen(tmp_path, recipe)
    before = method.jigsaw_head.weight.clone()
    method.updates = 6
    method.train_step(*batch())
    assert not torch.equal(before, method.jigsaw_head.weight)
    rates = [group["lr"] for group in method.optimizer.param_groups]
    half = 0.5 if recipe.schedule == "linear" else 1
    assert rates == pytest.approx([recipe.lr * half] * 2)


# Around it ---------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", [RECIPE, SGD], ids=["adam", "batch-norm"])
def test_without_weight_it_is_erm_step_by_step(recipe, tmp_path):
    assert_erm_without_weight(JiGen, tmp_path, recipe)


@pytest.mark.parametrize("recipe", [RECIPE, SGD], ids=["convnet", "wrn"])
def test_making_it_leaves_the_network_as_it_was(recipe, tmp_path):
    method = jigen(tmp_path, recipe)
    assert_same_weights(weights(make(erm(), tmp_path, recipe)), weights(method))
    assert method.network.training
    assert method.network.images_forward == method.network.images_with_gradient == 0


def test_it_predicts_the_whole_image_at_the_size_of_training(tmp_path):
    x, _ = batch()
    method, plain = jigen(tmp_path), jigen(tmp_path, weight=0.0)
    for one in (method, plain):
        one.network.eval()
    with torch.inference_mode():
        assert torch.equal(method.predict(x), method.network(to_grid(x)))
        assert not torch.allclose(method.predict(x), method.network(x), atol=1e-6)
        assert torch.equal(plain.predict(x), plain.network(x))


def test_the_jigsaw_head_is_saved_but_not_needed_to_predict(tmp_path):
    method, plain = jigen(tmp_path), make(erm(), tmp_path)
    inference = efficiency.count_parameters(method.inference_modules())
    assert inference == efficiency.count_parameters([plain.network])
    everything = checkpoint.modules(method)
    assert "jigsaw_head" in everything
    assert efficiency.count_parameters(everything.values()) == inference + 31 * (32 + 1)
    assert "jigsaw_head" not in checkpoint.modules(jigen(tmp_path, weight=0.0))


@pytest.mark.parametrize("bad", [{"weight": -1.0}, {"bias": 1.1}, {"bias": -0.1}, {"grey": 2.0}])
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="jigen needs"):
        JiGen.Params(**bad)
