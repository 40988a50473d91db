"""Wasserstein distances against brute force and closed forms, and what a run records of them."""

import itertools
import json
import math

import numpy as np
import pytest
import torch
from helpers import Everything, make, toy_domain, trainer

from sdgbench import storage
from sdgbench.evaluation import hulls, transport
from sdgbench.method import Method, Phase, Read


def draw(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def test_exact_is_the_best_of_all_assignments():
    first, second = draw(0, 6, 3), draw(1, 6, 3) + 0.5
    best = min(
        np.square(first - second[list(order)]).sum(1).mean()
        for order in itertools.permutations(range(6))
    )
    assert transport.exact(first, second) == pytest.approx(math.sqrt(best), rel=1e-12)


def test_many_dimensions_are_added_up_in_blocks(monkeypatch):
    first, second = draw(2, 8, 10), draw(3, 8, 10)
    whole = transport.exact(first, second)
    monkeypatch.setattr(transport, "BLOCK", 3)
    assert transport.exact(first, second) == pytest.approx(whole, rel=1e-12)


def test_on_a_line_it_is_the_distance_of_sorted_values():
    first, second = draw(4, 300, 1), 2 * draw(5, 300, 1)
    hand = math.sqrt(np.square(np.sort(first[:, 0]) - np.sort(second[:, 0])).mean())
    assert transport.exact(first, second) == pytest.approx(hand, rel=1e-9)
    assert transport.sliced(first, second) == pytest.approx(hand, rel=1e-9)


def test_a_translation_is_its_length_in_both():
    points, move = draw(6, 50, 4), np.array([3.0, 0.0, -4.0, 0.0])
    assert transport.exact(points, points + move) == pytest.approx(5.0, rel=1e-6)
    # The mean square of a direction's share is 1/D, here over 20,000 drawn directions.
    assert transport.sliced(points, points + move, 20_000) == pytest.approx(5.0, rel=0.02)


def test_sliced_agrees_with_the_closed_form_of_gaussians():
    # W2^2 of N(m, s^2 I) and N(0, I) is |m|^2 + D (s - 1)^2.
    D, shift, spread = 6, 0.5, 1.7
    closed = math.sqrt(D * shift**2 + D * (spread - 1) ** 2)
    first, second = draw(7, 4000, D), shift + spread * draw(8, 4000, D)
    assert transport.sliced(first, second, 500) == pytest.approx(closed, rel=0.03)


def test_exact_agrees_with_the_closed_form_of_gaussians():
    # On one axis and with a factor between the samples: no two samples are drawn.
    first = draw(9, 400, 2)
    second = 1.0 + first * np.array([1.5, 0.5])  # monotone, hence the best transport
    hand = math.sqrt(np.square(first - second).sum(1).mean())
    closed = math.sqrt(2 * 1.0**2 + 0.5**2 + 0.5**2)
    assert transport.exact(first, second) == pytest.approx(hand, rel=1e-9)
    assert transport.exact(first, second) == pytest.approx(closed, rel=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_sliced_is_at_most_exact(seed):
    first, second = draw(seed, 40, 5), draw(seed + 50, 40, 5) * 1.3 + 0.2
    assert transport.sliced(first, second, 2000) <= transport.exact(first, second) * 1.02


def test_distances_are_per_dimension_and_relative_to_the_sources_spread():
    first = np.zeros((4, 9), np.float32)
    first[:2] = 0.5  # spread: 0.25 in each dimension
    found = transport.distances(first, first + np.float32(0.1))
    assert found.exact == pytest.approx(0.1, rel=1e-5)
    assert found.exact_relative == pytest.approx(0.4, rel=1e-5)


def test_unequal_samples_are_refused():
    with pytest.raises(ValueError, match="same shape"):
        transport.exact(draw(0, 3, 2), draw(0, 4, 2))


class Brighter(Method):
    """Makes one domain of two phases, brighter by 0.1, and one of these, brighter by 0.2."""

    name = "brighter"

    def plan(self):
        source = Read(augment=False, batch=5)
        train = Phase("train", 2)
        pooled = Phase(
            "generate", 1, (Read("source+pool", augment=False, batch=20, only=((0, 8),)),)
        )
        return [
            train,
            Phase("generate", 2, (source,)),
            Phase("generate", 1, (source,)),
            train,
            pooled,
            Phase("generate", 1, (source,), part=1),
            train,
        ]

    def train_step(self, x, y):
        return self.optimise(self.task.loss(self.network(x), y))

    def generate_step(self, x, y):
        self.pool.add(x + 0.1, y)


@pytest.fixture
def brighter(tmp_path):
    method = make(Brighter, tmp_path)
    trainer(method, tmp_path / "run").run()
    return method


def test_neighbouring_phases_make_one_domain(brighter):
    # 10 + 5 images in one domain; the next one, and what another part made, stand for themselves.
    assert brighter.pool.domains == [(0, 15), (15, 35), (35, 40)]


def test_each_image_is_traced_to_the_source_image_it_was_made_of(brighter):
    source = torch.from_numpy(toy_domain().images).float() / 255
    images, _ = brighter.pool.gather(np.arange(40))
    moved = (images - source[brighter.pool.source_indices]).flatten(1)
    assert torch.allclose(moved[:15], torch.tensor(0.1), atol=1e-5)
    steps = moved[15:35].mean(1)  # from the source, or from the first domain
    assert torch.allclose((10 * steps).round() / 10, steps, atol=1e-5)
    assert set((10 * steps).round().int().tolist()) == {1, 2}


def test_what_is_known_of_the_pool_outlives_a_stop(brighter, tmp_path):
    state = brighter.pool.state_dict()
    other = make(Brighter, tmp_path)
    other.pool.load_state_dict(state)
    assert other.pool.domains == brighter.pool.domains
    assert (other.pool.source_indices == brighter.pool.source_indices).all()


def test_a_domain_is_measured_against_its_own_source_images(brighter):
    found = transport.measure(brighter, toy_domain())
    assert [domain.images for domain in found.domains] == [15, 20, 5]
    assert found.sample == {"exact": 5, "sliced": 5}
    # Brightness tells the class here, so another assignment than the true one may be better.
    assert found.domains[0].pixel.exact <= 0.1 + 1e-5
    assert found.domains[0].pixel.exact > 0.03


def test_without_a_pool_there_is_nothing_to_measure(tmp_path):
    assert transport.measure(make(Brighter, tmp_path), toy_domain()) is None


def test_images_that_were_not_made_one_of_one_are_not_measured(tmp_path):
    class Halves(Everything):
        def generate_step(self, x, y):
            self.pool.add(x[:2], y[:2])

    method = make(Halves, tmp_path)
    trainer(method, tmp_path / "run").run()
    assert (method.pool.source_indices == -1).all()
    assert transport.measure(method, toy_domain()) is None


def test_a_run_records_its_transport_and_keeps_its_embeddings(tmp_path, cli):
    done = cli("run", "--method", "erm,gud", "--dataset", "digits-mini", "--preset", "smoke")
    assert done.code == 0
    paths = {p.parent.parent.name: p for p in tmp_path.glob("runs/*/*/*/record.json")}
    erm, gud = (json.loads(paths[name].read_text()) for name in ("erm", "gud"))
    assert erm["transport"] is None
    assert [d["images"] for d in gud["transport"]["domains"]] == [64, 64]
    assert 0 < gud["transport"]["domains"][0]["pixel"]["exact"] < 0.01
    folder = paths["gud"].parent
    assert gud["files"][hulls.FILE] == storage.sha256(folder / hulls.FILE)
    assert (folder / hulls.FILE).stat().st_size < 1e6
    kept = hulls.read(folder)
    assert list(kept) == list(gud["embedding"]["sample"])
    assert list(kept)[:3] == ["source/handwriting", "augmented/1", "augmented/2"]
    assert gud["embedding"]["hull_area_pca"] == pytest.approx(hulls.areas(kept), rel=1e-6)
    assert not (folder / "pool").exists()
    shown = cli("compare", "--view", "transport", "--format", "json")
    rows = json.loads(shown.out)
    assert "pixel_W2" in json.dumps(rows)
    assert cli("plot", "tsne", "--format", "svg").code == 0
    assert (tmp_path / "figures" / "digits-mini-smoke-tsne.svg").exists()
