"""How many runs share a GPU: by the size of their steps, by memory and by CPUs."""

import pytest

from sdgbench.launch import gpu_sharing
from sdgbench.launch.gpu_sharing import runs_per_gpu, step_cost
from sdgbench.spec.resolution import resolve

GB = 1 << 30


def test_the_cost_of_a_step_by_hand():
    # convnet-2: see test_flops_of_the_convnet_by_hand
    forward = 2 * (28 * 28 * 2 * 75 + 10 * 10 * 4 * 50 + 100 * 32 + 32 * 32 + 32 * 10)
    operations, memory = step_cost("convnet-2", (32, 32), 10, 8)
    assert operations == 3 * 8 * forward
    outputs = 2 * 2 * 28 * 28 + 2 * 14 * 14 + 2 * 4 * 10 * 10 + 100 + 100 + 4 * 32 + 10
    weights = 2 * 76 + 4 * 51 + 32 * 101 + 32 * 33 + 10 * 33
    assert memory == 4 * (4 * weights + 2 * 8 * outputs)


@pytest.mark.parametrize(
    ("network", "batch", "memory", "cpus", "expected"),
    [
        ("convnet-16", 32, 24 * GB, 16, 4),  # small steps
        ("convnet", 32, 24 * GB, 16, 2),
        ("wrn-16-4", 128, 80 * GB, 16, 1),  # a step that keeps a GPU busy
        ("convnet-16", 32, 3 * GB, 16, 3),  # by memory
        ("convnet-16", 32, 24 * GB, 2, 2),  # by CPUs
        ("convnet-16", 32, GB // 2, 16, 1),
    ],
)
def test_small_recipes_share_a_gpu(network, batch, memory, cpus, expected):
    settings = [("recipe.network", network), ("recipe.batch", str(batch))]
    spec = resolve("erm", "digits-mini", "quick", 0, settings)
    assert runs_per_gpu([spec], memory, cpus) == expected


def test_the_largest_run_decides():
    small, large = (
        resolve("erm", "digits-mini", "quick", 0, [("recipe.network", name)])
        for name in ("convnet-16", "convnet")
    )
    assert runs_per_gpu([small, large], 24 * GB, 16) == 2


def test_a_network_that_cannot_be_counted_has_a_gpu_of_its_own(monkeypatch):
    def fail(*args):
        raise RuntimeError("not on meta")

    monkeypatch.setattr(gpu_sharing, "step_cost", fail)
    assert runs_per_gpu([resolve("erm", "digits-mini", "quick", 0)], 24 * GB, 16) == 1
