"""Areas by hand, and the plane that samples are shown in."""

import numpy as np
import pytest

from sdgbench.evaluation import hulls

SQUARE = np.array([[0, 0], [2, 0], [2, 2], [0, 2], [1, 1], [0.5, 1.5]], float)


def test_areas_by_hand():
    assert hulls.hull_area(SQUARE) == pytest.approx(4.0)
    assert hulls.hull_area(np.array([[0, 0], [3, 0], [0, 4]], float)) == pytest.approx(6.0)
    assert len(hulls.border(SQUARE)) == 4


@pytest.mark.parametrize("points", [[[0, 0], [1, 1], [2, 2]], [[0, 0], [1, 1]], [[1, 1]], []])
def test_points_on_a_line_have_no_area(points):
    assert hulls.hull_area(np.array(points, float).reshape(-1, 2)) == 0.0


def test_growth_is_what_augmented_domains_add():
    found = {
        "source/s": SQUARE,
        "augmented/1": SQUARE + np.array([2, 0]),
        "augmented/2": SQUARE,
        "target/t": 3 * SQUARE,
    }
    areas = hulls.areas(found)
    assert areas == pytest.approx({"source": 4.0, "source+augmented": 8.0, "target": 36.0})
    assert hulls.growth(areas) == pytest.approx(2.0)
    assert hulls.growth({"source": 0.0, "source+augmented": 1.0}) is None


def test_principal_components_keep_distances_and_say_what_is_lost():
    rng = np.random.default_rng(0)
    plane = rng.standard_normal((60, 2)) * [3, 1]
    turn = np.linalg.qr(rng.standard_normal((7, 7)))[0][:2]
    found, share = hulls.project({"a": plane[:20] @ turn, "b": plane[20:] @ turn}, 2)
    assert share == pytest.approx(1.0)
    joined = np.concatenate([found["a"], found["b"]])
    before, after = (np.linalg.norm(x[:, None] - x[None], axis=2) for x in (plane, joined))
    assert after == pytest.approx(before, abs=1e-4)
    _, half = hulls.project({"a": plane @ turn}, 1)
    values = np.linalg.eigvalsh(np.cov(plane, rowvar=False))
    assert half == pytest.approx(values[-1] / values.sum())


def test_tsne_is_repeatable_and_keeps_domains_apart():
    rng = np.random.default_rng(0)
    found = {
        "source/s": rng.standard_normal((30, 5)),
        "target/t": rng.standard_normal((20, 5)) + 30,
    }
    first, second = hulls.flat(found), hulls.flat(found)
    assert [len(points) for points in first.values()] == [30, 20]
    assert all((first[name] == second[name]).all() for name in found)
    middle = {name: points.mean(0) for name, points in first.items()}
    spread = max(points.std() for points in first.values())
    assert np.linalg.norm(middle["source/s"] - middle["target/t"]) > spread


def test_damaged_or_missing_samples_are_none(tmp_path):
    assert hulls.read(None) == hulls.read(tmp_path) == {}
    (tmp_path / hulls.FILE).write_bytes(b"PK\x03\x04 cut off")
    assert hulls.read(tmp_path) == {}
