"""The seam to the hardware, as far as a CPU can tell. No half-precision kernel runs here."""

import json
import math
import os
import platform
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest
import torch
from click.testing import CliRunner
from helpers import (
    SGD,
    Scaled,
    assert_close,
    assert_same_weights,
    erm,
    mada,
    mada_params,
    make,
    trained,
    weights,
)

from sdgbench.cli.run import command
from sdgbench.errors import Interrupted, UserError
from sdgbench.evaluation import efficiency
from sdgbench.method import Method
from sdgbench.training.device import Device, Execution

METHODS = [pytest.param(erm, dict, id="erm"), pytest.param(mada, mada_params, id="mada")]


@pytest.fixture
def gpu(monkeypatch):
    """Pretend that there is a CUDA device; nothing may be computed on it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)

    def has(bf16=True):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bf16)

    has()
    return has


# What was asked ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        {"fast": True},
        {"precision": "bf16"},
        {"precision": "tf32"},
        {"compile": True},
    ],
)
def test_what_excludes_determinism(asked):
    with pytest.raises(UserError, match="--deterministic and --.* exclude each other"):
        Execution(deterministic=True, **asked)


def test_conflicts_are_one_line_of_the_command():
    arguments = ["--method", "erm", "--dataset", "digits-mini", "--deterministic", "--fast"]
    result = CliRunner().invoke(command, arguments)
    assert isinstance(result.exception, UserError)
    assert str(result.exception).count("\n") == 0


@pytest.mark.parametrize(
    ("name", "precision", "message"),
    [
        ("cpu", "tf32", "tf32 needs a CUDA device"),
        ("cpu", "half", "No precision .half."),
    ],
)
def test_precisions_that_are_not_there(name, precision, message):
    with pytest.raises(UserError, match=message):
        Device(name, Execution(precision=precision))


def test_a_gpu_without_bf16(gpu):
    gpu(bf16=False)
    with pytest.raises(UserError, match="This GPU has no bf16"):
        Device("cuda", Execution(precision="bf16"))
    assert Device("cuda", Execution(fast=True)).precision == "fp16"


def test_the_defaults_are_exact():
    device = Device("cpu")
    assert (device.precision, device.channels_last, device.compiling) == ("float32", False, False)
    assert device.new_scaler() is None


def test_fast_on_a_cpu_stays_float32():
    device = Device("cpu", Execution(fast=True))
    assert (device.precision, device.channels_last, device.compiling) == ("float32", True, False)


def test_fast_on_a_gpu_and_what_is_taken_back(gpu):
    device = Device("cuda", Execution(fast=True))
    assert (device.precision, device.channels_last, device.compiling) == ("bf16", True, True)
    some = Device("cuda", Execution("float32", channels_last=False, compile=False, fast=True))
    assert (some.precision, some.channels_last, some.compiling) == ("float32", False, False)


def test_a_settled_precision_is_what_the_device_will_use(gpu):
    assert Execution().resolved("auto").precision == "float32"
    assert Execution(precision="fp16").resolved("nonsense").precision == "fp16"
    assert Execution(fast=True).resolved("auto").precision == "bf16"
    assert Execution(fast=True).resolved("cpu").precision == "float32"


def switches():
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    allowed = matmul.allow_tf32, cudnn.allow_tf32  # raise where newer switches disagree
    rounding = tuple("tf32" if allow else "ieee" for allow in allowed)
    return (
        cudnn.deterministic,
        cudnn.benchmark,
        *rounding,
        torch.are_deterministic_algorithms_enabled(),
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Execution(), (True, False, "ieee", "ieee", False)),
        (Execution(deterministic=True), (True, False, "ieee", "ieee", True)),
        (Execution("tf32"), (True, False, "tf32", "tf32", False)),
        (Execution(fast=True, compile=False), (False, True, "tf32", "tf32", False)),
    ],
)
def test_torchs_switches_on_a_gpu(asked, expected, gpu, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # and it is put back after the test
    before = switches()
    with Device("cuda", asked).settings(print):
        assert switches() == expected
    assert switches() == before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the GNU C library")
def test_a_run_asks_the_kernel_for_memory_once():
    script = """if True:
        import resource, torch
        from sdgbench.training.device import Device

        def faults():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in range(10):
                arrays = [torch.ones(3_000_000) for _ in range(4)]
                del arrays
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

        torch.set_num_threads(1)
        faults()
        by_default = faults()
        with Device("cpu").settings(print):
            faults()
            print(by_default, faults())
    """
    # What the library does by default depends on what was freed before; so it is told to.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    by_default, kept = map(int, done.stdout.split())
    assert kept < by_default / 10


@pytest.mark.parametrize(
    ("asked", "variable", "used"),
    [(None, "", 1), (None, "3", 3), (2, "3", 2), (None, "many", 1), (None, "0", 1)],
)
def test_a_cpu_run_has_one_thread_unless_more_are_asked_for(asked, variable, used, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    device, before = Device("cpu", Execution(threads=asked)), torch.get_num_threads()
    with device.settings(print):
        assert torch.get_num_threads() == used
        assert device.describe()["threads"] == used
    assert torch.get_num_threads() == before


def test_no_threads_are_refused():
    with pytest.raises(UserError, match="--threads 1 or more"):
        Execution(threads=0)


def test_the_record_says_how_it_was_computed():
    told = Device("cpu", Execution(fast=True)).describe()
    assert told["precision"] == "float32"
    assert (told["channels_last"], told["compile"]) == (True, False)
    assert (told["deterministic"], told["fast"]) == (False, True)


# Autocast, without running anything in it ------------------------------------------------------


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("bf16", torch.bfloat16),
        ("fp16", torch.float16),
        ("float32", None),
    ],
)
def test_forward_passes_are_cast_and_backward_passes_are_not(precision, dtype, tmp_path):
    seen = []

    class Spy(Method):
        name = "spy"

        def note(self, where):
            on = torch.is_autocast_enabled("cpu")
            seen.append((where, torch.get_autocast_dtype("cpu") if on else None))

        def train_step(self, x, y):
            self.note("forward")
            loss = sum(w.sum() for w in self.network.parameters())
            loss.register_hook(lambda grad: self.note("backward"))
            return self.optimise(loss)

        def predict(self, x):
            self.note("predict")
            return torch.zeros(len(x), 10)

    device = Device("cpu", Execution(precision=precision))
    trained(Spy, tmp_path, replace(SGD, steps=1), device=device)
    assert dict(seen) == {"forward": dtype, "backward": None, "predict": dtype}


def test_the_auto_encoder_leaves_autocast(tmp_path, monkeypatch):
    seen = []
    method = make(mada(), tmp_path, params=mada_params(), device=Device("cpu", Execution("bf16")))
    method.float32_wae_step = lambda x: seen.append(torch.is_autocast_enabled("cpu"))
    with method.device.autocast():
        assert torch.is_autocast_enabled("cpu")
        method.wae_step(torch.zeros(1, 3, 32, 32), torch.zeros(1))
    assert seen == [False]


# fp16's scaling, in float32 --------------------------------------------------------------------


@pytest.mark.parametrize(("cls", "params"), METHODS)
def test_scaling_does_not_change_the_weights(cls, params, tmp_path):
    cls, params = cls(), params() or None
    plain, _ = trained(cls, tmp_path / "plain", params=params)
    scaled, _ = trained(cls, tmp_path / "scaled", params=params, device=Scaled())
    assert scaled.scaler.get_scale() >= 2048  # it grew, so it was in use
    assert_close(weights(plain), weights(scaled), 1e-6)
    if len(plain.pool):
        everything = range(len(plain.pool))
        first, second = plain.pool.gather(list(everything)), scaled.pool.gather(list(everything))
        torch.testing.assert_close(first[0], second[0], rtol=1e-6, atol=1e-6)


def test_the_inner_gradient_is_unscaled(tmp_path):
    plain = make(mada(), tmp_path, params=mada_params())
    scaled = make(mada(), tmp_path, params=mada_params(), device=Scaled(4096.0))
    x, y = torch.rand(4, 3, 32, 32), torch.arange(4)
    grads = [
        method.gradients(method.task.loss(method.network(x), y), list(method.network.parameters()))
        for method in (plain, scaled)
    ]
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
    assert sum(float(grad.abs().sum()) for grad in grads[0]) > 0


def test_an_overflow_skips_the_step_and_lowers_the_scale(tmp_path):
    method = make(erm(), tmp_path, SGD, device=Scaled(2.0**20))
    before = weights(method)
    loss = sum(w.square().sum() for w in method.network.parameters())
    method.optimise(loss * 1e36)  # finite, but not so times the scale
    assert method.scaler.skipped
    assert method.scaler.get_scale() == 2.0**19
    assert_same_weights(before, weights(method))
    method.optimise(loss.detach() + sum(w.sum() for w in method.network.parameters()))
    assert not method.scaler.skipped
    assert not torch.equal(before["body.0.weight"], weights(method)["body.0.weight"])


def test_an_overflow_in_the_inner_step_is_no_divergence(tmp_path):
    scaled, position = trained(mada(), tmp_path, params=mada_params(), device=Scaled(2.0**126))
    assert scaled.scaler.get_scale() < 2.0**126
    assert all(value.isfinite().all() for value in weights(scaled).values())
    points = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert None in [point.get("loss", 0) for point in points]
    assert position.phase == len(scaled.plan())


def test_what_overflows_at_any_scale_stops_the_run(tmp_path):
    method = make(erm(), tmp_path, SGD, device=Scaled(2.0**-19))
    infinite = [sum(w.sum() for w in method.network.parameters()) * math.inf for _ in range(2)]
    method.optimise(infinite[0])
    method.scaler.check()
    method.optimise(infinite[1])
    with pytest.raises(FloatingPointError, match="overflow in fp16 at any scale"):
        method.scaler.check()

    class Infinite(erm()):
        def train_step(self, x, y):
            return self.optimise(self.network(x).sum() * math.inf)

    with pytest.raises(FloatingPointError, match="overflow in fp16 at any scale"):
        trained(Infinite, tmp_path / "run", device=Scaled(2.0**-19))


def test_pixels_climb_although_the_scale_is_too_large(tmp_path):
    plain = make(mada(), tmp_path, params=mada_params())
    scaled = make(mada(), tmp_path, params=mada_params(), device=Scaled(2.0**120))
    x = torch.rand(2, 3, 4, 4).requires_grad_()
    found = [
        m.pixel_gradient(lambda x: 1e9 * x.square().sum((1, 2, 3)), x) for m in (plain, scaled)
    ]
    torch.testing.assert_close(*found)


def test_the_scale_is_part_of_the_checkpoint(tmp_path):
    whole, _ = trained(erm(), tmp_path / "whole", device=Scaled())
    stops = 0
    while stops < 5:
        answers = iter([False, True])
        try:
            part, _ = trained(
                erm(), tmp_path / "parts", device=Scaled(), should_stop=partial(next, answers)
            )
            break
        except Interrupted:
            stops += 1
    assert stops == 4
    assert_same_weights(weights(whole), weights(part))
    assert whole.scaler.state_dict() == part.scaler.state_dict()


# Memory layout ---------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["convnet-2", "wrn-10-1"])
@pytest.mark.parametrize(("cls", "params"), METHODS)
def test_channels_last_computes_the_same(cls, params, network, tmp_path):
    cls, params = cls(), params() or None
    # A large step of a network with batch norm would blow up the roundings.
    recipe = replace(SGD, network=network, lr=2e-4, steps=3)
    before = weights(make(cls, tmp_path, recipe, params=params))
    last = Device("cpu", Execution(channels_last=True))
    plain, _ = trained(cls, tmp_path / "plain", recipe, params)
    other, _ = trained(cls, tmp_path / "last", recipe, params, device=last)
    layouts = {w.is_contiguous() for w in other.network.parameters() if w.dim() == 4}
    assert False in layouts
    moved = [(value - before[key]).abs().max() for key, value in weights(plain).items()]
    assert max(moved) > 1e-4
    assert_close(weights(plain), weights(other), 1e-5)


# Cost ------------------------------------------------------------------------------------------


def test_a_gpu_is_timed_by_its_own_events(gpu, monkeypatch):
    happened = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            happened.append("record")

        def synchronize(self):
            happened.append("wait")

        def elapsed_time(self, other):
            assert other is not self
            return 2.5

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: happened.append("idle"))
    assert Device("cuda").milliseconds(lambda: happened.append("work")) == 2.5
    assert happened == ["idle", "record", "work", "record", "wait"]


def test_latency_is_what_the_device_says(tmp_path, monkeypatch):
    device, ticks = Device("cpu"), iter(range(1, 1000))
    monkeypatch.setattr(device, "milliseconds", lambda work: (work(), float(next(ticks)))[1])
    found = efficiency.latency(make(erm(), tmp_path, device=device), 1, budget=0.0)
    assert (found.p50_ms, found.p95_ms) == (5.5, 9.55)  # of 1 to 10


# What becomes of it ------------------------------------------------------------------------------


def test_a_record_names_earlier_machines(tmp_path):
    first = Device("cpu")
    stops = iter([False, True])
    with pytest.raises(Interrupted):
        trained(erm(), tmp_path, device=first, should_stop=lambda: next(stops))
    _, position = trained(erm(), tmp_path, device=Device("cpu", Execution(channels_last=True)))
    assert [machine["channels_last"] for machine in position.machines] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (
            ["--jobs", "2"],
            {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "here"},
            "Under torchrun there is one run at a time",
        ),
        (
            ["--launcher", "slurm", "--fast"],
            {},
            "Which precision --fast uses on the cluster is not known here",
        ),
    ],
)
def test_what_a_launcher_cannot_know_or_do(arguments, environment, message, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(
        command, ["--method", "erm", "--dataset", "digits-mini", *arguments]
    )
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)
