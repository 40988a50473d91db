"""How steps are executed: several as one, and as graphs that are replayed."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from helpers import (
    SGD,
    Everything,
    Scaled,
    assert_close,
    assert_same_weights,
    erm,
    mada,
    mada_params,
    make,
    trainer,
    weights,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sdgbench import registry
from sdgbench.errors import UserError
from sdgbench.method import Method
from sdgbench.reporter import Silent
from sdgbench.training import checkpoint
from sdgbench.training.device import Device, Execution
from sdgbench.training.steps import batches_that_fit

ADAM = replace(SGD, optimiser="adam", momentum=0.0, lr=1e-3)
BOUND = 1e-6  # of pixels that ascended in batches of other sizes: kernels sum in another order


def by_name(name):
    return registry.get("method", name).load()


# Several steps as one ----------------------------------------------------------------------------


class Memory:
    """The memory of a pretended GPU on which a number of batches fit; beyond a limit it fails."""

    def __init__(self, fitting):
        self.fitting = fitting

    def measure(self, work):
        return work(), 1

    def free(self):
        return 2 * self.fitting

    def uncounted(self):
        return nullcontext()

    def release(self):
        pass

    def total(self):
        return 0  # nothing fits: the pool stays in its files


def generated(folder, memory=None, cls=None, **changes):
    """The pool after a training, and the sizes of the batches that it was made of."""
    device, sizes = Device("cpu"), []
    device.memory = memory

    class Watched(cls or by_name("gud")):
        def generate_step(self, x, y):
            sizes.append(len(x))
            super().generate_step(x, y)

    params = replace(Watched.Params(), K=2, T_min=2, T_adv=3, ascent_batch=4, **changes)
    method = make(Watched, folder, SGD, params=params, device=device)
    position = trainer(method, folder).run()
    return method, sizes, position


ASCENDING = {"gud": {}, "gud-ensemble": {"members": 2}, "me-ada": {}, "mada": {"wae_steps": 2}}


def test_which_methods_take_larger_batches(tmp_path):
    """New ones are added to the test below."""
    ascending = set()
    for entry in registry.entries("method").values():
        cls = entry.load()
        if cls.any_batch is not Method.any_batch and "mada-" not in entry.name:  # its ablations
            ascending.add(entry.name)
    assert ascending == set(ASCENDING)


@pytest.mark.parametrize(
    ("name", "fitting"), [("gud", 2), ("gud", 64), ("gud-ensemble", 4), ("me-ada", 4), ("mada", 64)]
)
def test_images_do_not_depend_on_how_many_ascend_at_a_time(name, fitting, tmp_path):
    cls, changes = by_name(name), ASCENDING[name]
    plain, sizes, _ = generated(tmp_path / "plain", None, cls, **changes)
    other, larger, position = generated(tmp_path / "other", Memory(fitting), cls, **changes)
    assert max(sizes) == 4
    assert max(larger) > 8 - (fitting == 2)
    if name == "gud":
        assert max(larger) == min(4 * fitting, 36)  # 40 images: a first batch is measured
    assert sum(sizes) == sum(larger)
    assert position.phase == len(other.plan())
    everything = list(range(len(plain.pool)))
    first, second = plain.pool.gather(everything), other.pool.gather(everything)
    torch.testing.assert_close(first[0], second[0], rtol=0, atol=BOUND)
    assert torch.equal(first[1], second[1])
    assert (plain.pool.source_indices == other.pool.source_indices).all()
    assert plain.pool.domains == other.pool.domains
    assert_close(weights(plain), weights(other), 1e-5)


def test_a_larger_batch_without_memory_is_done_in_parts(tmp_path):
    class Full(by_name("gud")):
        def ascend(self, x, gain):
            if len(x) > 8:
                raise torch.OutOfMemoryError("no memory")
            return super().ascend(x, gain)

    plain, _, _ = generated(tmp_path / "plain")
    other, sizes, _ = generated(tmp_path / "other", Memory(4), Full)
    assert sizes[:8] == [4, 16, 4, 4, 4, 4, 4, 4]
    assert len(plain.pool) == len(other.pool)
    everything = list(range(len(plain.pool)))
    first, second = plain.pool.gather(everything)[0], other.pool.gather(everything)[0]
    torch.testing.assert_close(first, second, rtol=0, atol=BOUND)


@pytest.mark.parametrize(
    ("used", "free", "together"), [(1, 2, 1), (1, 4, 2), (1, 31, 8), (0, 100, 1), (1, 10**9, 64)]
)
def test_batches_that_fit(used, free, together):
    assert batches_that_fit(used, free) == together


# Graphs ------------------------------------------------------------------------------------------


class Recorder(TorchDispatchMode):
    """Keeps every operation with its arguments and results."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result


class RecordedGraphs:
    """Graphs on a CPU: the operations of a step are done again, in the same memory.

    As a CUDA graph, it sees nothing that Python would have done, and capturing changes nothing.
    """

    def __init__(self):
        self.method, self.replays = None, 0

    def warm_up(self, work):
        return work()

    def tensors(self):
        method = self.method
        yield from (t for m in checkpoint.modules(method).values() for t in m.state_dict().values())
        for optimizer in checkpoint.optimisers(method):
            yield from (t for s in optimizer.state.values() for t in s.values())
        if method.scaler:
            yield from (method.scaler._scale, method.scaler._growth_tracker)

    def capture(self, work):
        before = [(t, t.detach().clone()) for t in self.tensors() if isinstance(t, torch.Tensor)]
        draws = torch.get_rng_state()
        with Recorder() as recorder:
            result = work()
        torch.set_rng_state(draws)
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)

        def replay():
            self.replays += 1
            with torch.no_grad():
                for func, args, kwargs, old in recorder.calls:
                    new = func(*args, **kwargs)
                    for kept, value in zip(tree_leaves(old), tree_leaves(new), strict=True):
                        if isinstance(kept, torch.Tensor) and not shares_memory(kept, value):
                            kept.copy_(value)

        return replay, result


def shares_memory(first, second):
    return first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


class NoGraphs(RecordedGraphs):
    """A device on which capturing fails, after the step has changed everything."""

    def capture(self, work):
        work()
        raise RuntimeError("operation not permitted when stream is capturing")


class Notes(Silent):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def run_with(backend, cls, folder, recipe, params=None, device=None):
    device = device or Device("cpu")
    device.graphs, notes = backend, Notes()
    method = make(cls, folder, recipe, params=params, device=device)
    if backend:
        backend.method = method
    position = trainer(method, folder, reporter=notes).run()
    return method, position, notes.notes


CASES = {
    "erm": (erm, dict, replace(SGD, schedule="cosine"), Device, ["train_step"]),
    "erm-adam-scaled": (erm, dict, replace(ADAM, schedule="linear"), Scaled, ["train_step"]),
    "jigen": (
        lambda: by_name("jigen"),
        dict,
        replace(ADAM, network="wrn-10-1", schedule="linear"),
        Device,
        ["train_step"],
    ),
    "mada": (
        mada,
        lambda: mada_params(K=1, T_min=5, wae_epochs=1),
        replace(ADAM, steps=14),
        Device,
        ["wae_step", "train_step"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_replayed_steps_are_the_steps(case, tmp_path):
    cls, params, recipe, device, captured = CASES[case]
    cls, params = cls(), params() or None
    graphs = RecordedGraphs()
    method, position, notes = run_with(graphs, cls, tmp_path / "g", recipe, params, device())
    same, at, told = run_with(NoGraphs(), cls, tmp_path / "n", recipe, params, device())
    plain, _, _ = run_with(None, cls, tmp_path / "p", recipe, params, device())
    assert method.device.captured == captured
    assert method.device.describe()["cuda_graphs"] == captured
    assert graphs.replays >= 5
    assert any("failed to be captured (operation not permitted" in note for note in told)
    assert_same_weights(weights(method), weights(same))
    assert_close(weights(method), weights(plain), 1e-4)  # the learning rate has 24 bits in a graph
    assert method.updates == same.updates == plain.updates
    assert (position.images_forward, position.images_with_gradient) == (
        at.images_forward,
        at.images_with_gradient,
    )
    assert notes == []


class Warm(Method):
    """Does something else in its first steps."""

    name = "warm"

    def train_step(self, x, y):
        weight = 1.0 if self.updates < 3 else 0.5
        return self.optimise(weight * self.task.loss(self.network(x), y))


@pytest.mark.parametrize(
    ("cls", "recipe", "reason"),
    [
        (lambda: Everything, SGD, "replaces self.history"),
        (mada, replace(ADAM, schedule="linear", steps=14), "uses the learning rate"),
        (lambda: Warm, SGD, "depends on the number of updates"),
    ],
)
def test_steps_that_depend_on_python_are_not_captured(cls, recipe, reason, tmp_path):
    cls = cls()
    params = mada_params(K=1, T_min=3, wae_steps=1) if cls is mada() else None
    method, _, notes = run_with(RecordedGraphs(), cls, tmp_path, recipe, params)
    assert reason in method.device.not_captured["train_step"]
    assert sum("train_step" in note for note in notes) == 1
    if cls is Everything:
        note = "generate_step: no CUDA graph, since it adds images to the pool"
        assert notes.count(note) == 1  # of two such phases


def test_graphs_need_a_gpu():
    with pytest.raises(UserError, match="--cuda-graphs needs a CUDA device"):
        Device("cpu", Execution(cuda_graphs=True))
