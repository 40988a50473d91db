"""What runs compiled, and what becomes of a compiler that fails. Inductor itself is not needed."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from helpers import (
    SGD,
    assert_same_weights,
    erm,
    mada,
    mada_params,
    make,
    trained,
    trainer,
    weights,
)

from sdgbench import registry
from sdgbench.evaluation import efficiency
from sdgbench.method import Method
from sdgbench.training import compilation
from sdgbench.training.device import Device, Execution

REAL = torch.compile


@pytest.fixture
def compiling():
    """A device that compiles, and what it warned of."""
    device, told = Device("cpu", Execution(compile=True)), []
    with device.settings(told.append):
        yield device, told


def compile_with(monkeypatch, compiled):
    """Replace the compiler: ``compiled(function)`` is what it makes of a function."""
    monkeypatch.setattr(torch, "compile", compiled)


def broken(function):
    """A compiler that fails when the function is first called, as one without g++ does."""

    def fail(*args):
        raise RuntimeError("no compiler\nfound")

    return fail


def test_no_compiler_is_a_warning(compiling, monkeypatch, tmp_path):
    def fail(function):
        raise RuntimeError("no compiler\nfound")

    compile_with(monkeypatch, fail)
    device, told = compiling
    plain, _ = trained(erm(), tmp_path / "plain")
    other, _ = trained(erm(), tmp_path / "other", device=device)
    assert told == ["torch.compile failed, going on without it (RuntimeError: no compiler)"]
    assert device.describe()["compile"] is False
    assert_same_weights(weights(plain), weights(other))


@pytest.mark.parametrize("name", ["erm", "jigen"])
def test_a_broken_compiler_is_one_line_whoever_calls_it_first(
    name, compiling, monkeypatch, tmp_path
):
    """JiGen calls the network in setup; validation and evaluation are first calls as well."""
    compile_with(monkeypatch, broken)
    device, told = compiling
    cls = registry.get("method", name).load()
    plain, _ = trained(cls, tmp_path / "plain")
    other, _ = trained(cls, tmp_path / "other", device=device)
    costs = efficiency.measure(other, quickly=True)
    assert len(told) == 1
    assert told[0].endswith("embed, which goes on without it (RuntimeError: no compiler)")
    assert device.describe()["compile"] is False
    assert device.describe()["uncompiled"] == ["ConvNet.embed", "ConvNet.head"]
    assert not any(latency.compiled for latency in costs.latency.values())
    assert_same_weights(weights(plain), weights(other))


def test_an_error_of_the_method_is_not_the_compilers(compiling, monkeypatch, tmp_path):
    class Wrong(erm()):
        def train_step(self, x, y):
            return self.optimise(self.network(x[:, :2]).sum())

    compile_with(monkeypatch, lambda function: function)
    device, told = compiling
    with pytest.raises(RuntimeError, match="channels"):
        trained(Wrong, tmp_path, device=device)
    assert told == []


def test_setup_does_not_compile(compiling, monkeypatch, tmp_path):
    compiled = []
    compile_with(monkeypatch, lambda function: compiled.append(function.__name__) or broken)
    make(registry.get("method", "jigen").load(), tmp_path, device=compiling[0])
    assert compiled == ["embed", "head"]  # prepared, but not called
    assert compiling[1] == []


@pytest.mark.parametrize("phase", ["train_step", "generate_step"])
def test_a_compiled_step_that_fails_is_done_again_without(phase, compiling, monkeypatch, tmp_path):
    """As where the meta step needs a second derivative, which compiled code does not have."""
    compile_with(monkeypatch, lambda function: function)
    device, told = compiling
    few, states = mada_params(), {}

    class Breaks(mada()):
        def predict(self, x):
            states["predict"] = self.device.compiling
            return super().predict(x)

    def step(name, self, *batch):
        states[name] = self.device.compiling
        loss = getattr(super(Breaks, self), name)(*batch)
        if name == phase and self.device.compiling:
            raise RuntimeError("no double backward")  # after the weights and the pool changed
        return loss

    for name in ("train_step", "generate_step"):
        setattr(Breaks, name, partial_method(step, name))
    plain, at = trained(mada(), tmp_path / "plain", params=few)
    other, then = trained(Breaks, tmp_path / "other", params=few, device=device)
    reason = "which goes on without it (RuntimeError: no double backward)"
    assert told == [f"torch.compile failed in {phase}, {reason}"]
    compiled = {"train_step": True, "generate_step": True, "predict": True}
    assert states == {**compiled, phase: False}  # all else stays compiled
    assert device.describe()["compile"] is True
    assert device.describe()["uncompiled"] == [phase]
    assert_same_weights(weights(plain), weights(other))
    assert len(plain.pool) == len(other.pool)
    assert (at.images_forward, at.images_with_gradient) == (
        then.images_forward,
        then.images_with_gradient,
    )


def partial_method(function, name):
    def method(self, *batch):
        return function(name, self, *batch)

    return method


def test_a_step_that_fails_at_a_later_shape_is_done_again(compiling, monkeypatch, tmp_path):
    compile_with(monkeypatch, lambda function: function)
    device, told = compiling

    class Later(Method):
        name = "later"

        def train_step(self, x, y):
            if self.device.compiling and self.updates > 3:
                raise RuntimeError("cannot compile the backward pass")
            count = 8 if self.updates < 4 else 6
            return self.optimise(self.task.loss(self.network(x[:count]), y[:count]))

    method = make(Later, tmp_path, SGD, device=device)
    run = trainer(method, tmp_path)
    feed_next = run._feeds_of

    def feeds_of(phase):
        """The batch shrinks after four steps."""
        feeds = feed_next(phase)
        plain = feeds[0].next
        feeds[0].next = lambda shard=None: tuple(
            t[: 8 if method.updates < 4 else 6] for t in plain(shard)
        )
        return feeds

    monkeypatch.setattr(run, "_feeds_of", feeds_of)
    run.run()
    assert method.updates == 9
    assert len(told) == 1
    assert device.describe()["uncompiled"] == ["train_step"]


def test_copies_of_a_compiled_network_use_their_own_weights(compiling, monkeypatch, tmp_path):
    compile_with(monkeypatch, lambda function: function)
    method = make(erm(), tmp_path, device=compiling[0])
    copied = deepcopy(method.network)
    with torch.no_grad():
        for weight in copied.parameters():
            weight.zero_()
    x = torch.rand(2, 3, 32, 32)
    assert copied(x).abs().sum() == 0
    assert method.network(x).abs().sum() > 0


def test_a_latency_says_whether_it_was_compiled(compiling, monkeypatch, tmp_path):
    def only_large(function):
        def call(module, x):
            if len(x) == 1:
                raise RuntimeError("no kernel for one image")
            return function(module, x)

        return call

    device, _ = compiling
    compile_with(monkeypatch, lambda function: function)
    method = make(erm(), tmp_path, device=device)
    assert efficiency.latency(method, 1, budget=0.0).compiled is True
    with device.uncompiled():
        assert efficiency.latency(method, 1, budget=0.0).compiled is False
    assert efficiency.latency(make(erm(), tmp_path), 1, budget=0.0).compiled is False
    other = Device("cpu", Execution(compile=True))
    compile_with(monkeypatch, only_large)
    method = make(erm(), tmp_path, device=other)
    assert efficiency.latency(method, 64, budget=0.0).compiled is True
    assert efficiency.latency(method, 1, budget=0.0).compiled is False


# With the real compiler, up to the graph of the backward pass ------------------------------------


def test_the_limit_of_variants_is_said_and_recorded(monkeypatch, tmp_path):
    compile_with(monkeypatch, partial(REAL, backend="eager", dynamic=False))
    monkeypatch.setattr(compilation, "VARIANTS", 1)
    device, told = Device("cpu", Execution(compile=True)), []
    with device.settings(told.append), torch.inference_mode():
        method = make(erm(), tmp_path, device=device)
        for count in (2, 3):
            method.predict(torch.rand(count, 3, 32, 32))
        assert efficiency.latency(method, 4, budget=0.0, block=1).compiled is False
    assert len(told) == 1
    assert "ConvNet.embed" in told[0]


@pytest.mark.parametrize("first_order", [True, False])
def test_the_meta_step_stays_compiled_in_first_order_only(first_order, monkeypatch, tmp_path):
    compile_with(monkeypatch, partial(REAL, backend="aot_eager"))
    device, told = Device("cpu", Execution(compile=True)), []
    params = mada_params(K=1, first_order=first_order, relaxation="pixel", T_adv=1)
    with device.settings(told.append):
        method, _ = trained(mada(), tmp_path, params=params, device=device)
        assert device.compilation.compiled_calls > 0
    assert device.compilation.given_up == ([] if first_order else ["train_step"])
    assert len(told) == (not first_order)
    plain, _ = trained(mada(), tmp_path / "plain", params=params)
    for key, value in weights(plain).items():
        torch.testing.assert_close(value, weights(method)[key], rtol=1e-4, atol=1e-5)
