import itertools
import math
import time

import pytest
import torch
from helpers import erm, make

from sdgbench.errors import UserError
from sdgbench.evaluation import efficiency
from sdgbench.method import Method
from sdgbench.training.device import Device


class TwoHeads(Method):
    """Has a head that prediction does not need."""

    name = "two-heads"

    def setup(self):
        self.puzzle = torch.nn.Linear(32, 31)


def test_parameters_for_training_and_for_prediction(tmp_path):
    found = efficiency.measure(make(TwoHeads, tmp_path), quickly=True)
    network = sum(p.numel() for p in make(erm(), tmp_path).network.parameters())
    assert found.parameters_inference == network
    assert found.parameters_train == network + 32 * 31 + 31


def test_shared_parameters_count_once():
    layer = torch.nn.Linear(4, 4)
    assert efficiency.count_parameters([layer, layer, torch.nn.Sequential(layer)]) == 20


def test_flops_by_hand(tmp_path):
    class Linear(Method):
        def setup(self):
            self.layer = torch.nn.Linear(3 * 32 * 32, 7)

        def predict(self, x):
            return self.layer(x.flatten(1))

    assert efficiency.flops(make(Linear, tmp_path)) == 2 * 3072 * 7


def test_flops_of_the_convnet_by_hand(tmp_path):
    # convnet-2: 28x28x2 outputs of 5x5x3 taps, 10x10x4 of 5x5x2, then three linear layers
    expected = 28 * 28 * 2 * 75 + 10 * 10 * 4 * 50 + 100 * 32 + 32 * 32 + 32 * 10
    assert efficiency.flops(make(erm(), tmp_path)) == 2 * expected


def test_latency_is_of_the_prediction(tmp_path):
    class Sleepy(Method):
        calls = 0

        def predict(self, x):
            Sleepy.calls += 1
            time.sleep(0.002 * len(x))
            return self.network(x)

    one = efficiency.latency(make(Sleepy, tmp_path), 1, budget=0.0)
    assert Sleepy.calls == efficiency.WARM_UP + efficiency.BLOCK
    assert one.repetitions == efficiency.BLOCK
    assert one.half_ms is None  # one block has no interval
    assert one.p50_ms >= 2
    assert one.p95_ms >= one.p50_ms
    assert efficiency.latency(make(Sleepy, tmp_path), 4, budget=0.0).p50_ms >= 8


def timed(monkeypatch, tmp_path, times, **options):
    """The latency by a device whose clock shows these times."""
    method, clock = make(erm(), tmp_path), iter(times)
    monkeypatch.setattr(type(method.device), "milliseconds", lambda self, work: next(clock))
    return efficiency.latency(method, 1, **options)


def test_latency_is_repeated_until_its_interval_is_small(monkeypatch, tmp_path):
    steady = timed(monkeypatch, tmp_path, itertools.repeat(2.0), budget=60)
    assert steady.repetitions == efficiency.FEWEST_BLOCKS * efficiency.BLOCK
    assert (steady.p50_ms, steady.half_ms) == (2.0, 0.0)
    # Blocks that differ at first: more of them make the interval small.
    blocks = itertools.chain([1.9, 2.1, 1.9, 2.1, 1.9, 2.1], itertools.repeat(2.0))
    times = (time for time in blocks for _ in range(efficiency.BLOCK))
    noisy = timed(monkeypatch, tmp_path, times, budget=60)
    assert noisy.repetitions > steady.repetitions
    assert 0 < noisy.half_ms <= efficiency.PRECISION * noisy.p50_ms


def test_latency_stops_when_its_time_is_up_and_says_how_wide_the_interval_is(monkeypatch, tmp_path):
    now = itertools.count(0, 0.5)
    monkeypatch.setattr(efficiency.time, "perf_counter", lambda: next(now))
    blocks = itertools.cycle([1.0, 3.0])
    times = (time for time in blocks for _ in range(efficiency.BLOCK))
    wide = timed(monkeypatch, tmp_path, times, budget=3)
    assert wide.repetitions == 6 * efficiency.BLOCK
    # Medians 1, 3, 1, 3, 1, 3: t(0.975, 5) * sqrt(1.2) / sqrt(6)
    assert wide.half_ms == pytest.approx(2.5706 * math.sqrt(1.2 / 6), abs=0.001)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", "No device .gpu."),
        ("cdua", 'Did you mean "cuda"'),
        ("cpu:1", "No device"),
        ("cuda:x", "No device"),
    ],
)
def test_unknown_devices(name, message):
    with pytest.raises(UserError, match=message):
        Device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_missing_gpu_is_explained():
    with pytest.raises(UserError, match="No CUDA device was found. Use --device cpu"):
        Device("cuda")


def test_the_device_describes_itself():
    device = Device("cpu")
    assert device.peak_memory() > 50e6
    assert device.describe()["device"] == "cpu"
    assert "cores" in device.describe()["hardware"]
    assert device.to_device(torch.ones(2)).device.type == "cpu"
