"""CUDA graphs: a step is recorded once, and its kernels are started again by one call.

A graph repeats the same kernels with the same arguments at the same addresses. So a step can be
captured only if everything that changes from step to step is on the device.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Work = Callable[[], Any]
aten = torch.ops.aten
COPIES = (aten._to_copy.default, aten.copy_.default)
INDEXING = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)
DRAWS = "draws random numbers on the CPU"
COPY = "copies between the CPU and the device"
READS = "reads values of the device"
SIZES = "makes tensors whose size depends on values"
HOST = "computes on the CPU"


class GraphBackend(Protocol):
    """Captures work on a device."""

    def warm_up(self, work: Work) -> Any:
        """Do some work as it will be captured, but for real."""

    def capture(self, work: Work) -> tuple[Work, Any]:
        """Record work without doing it; a function that does it, and what the work returned."""


class CudaGraphs:
    """The graphs of a CUDA device."""

    def __init__(self) -> None:
        self._stream: Any = None

    def warm_up(self, work: Work) -> Any:
        """Do some work on a stream of its own, so that libraries set themselves up."""
        self._stream = self._stream or torch.cuda.Stream()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            result = work()
        torch.cuda.current_stream().wait_stream(self._stream)
        return result

    def capture(self, work: Work) -> tuple[Work, Any]:
        """Record work without doing it; a function that does it, and what the work returned."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = work()
        return graph.replay, result


class StepProbe(TorchDispatchMode):
    """Watches one step, and says why it cannot be captured."""

    def __init__(self, device: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device = device  # kind of the device, such as cuda
        self.reasons: list[str] = []
        self.paused = False  # while the harness itself computes, such as the learning rate

    def add(self, reason: str) -> None:
        """Note a reason, once."""
        if reason not in self.reasons:
            self.reasons.append(reason)

    def run(self, owner: Any, step: Work, updates_at_most: int | None) -> Any:
        """Do a step of ``owner``, a method; its attributes must be the same objects after it.

        ``updates_at_most`` is how often it may step along the schedule; None: any number.
        """
        draws, state, updates = _host_draws(), _state_of(owner), owner.updates
        cls = type(owner)
        owner.__class__ = _watched(cls, self)
        try:
            with self:
                result = step()
        finally:
            owner.__class__ = cls
        if self.device != "cpu" and _host_draws() != draws:
            self.reasons.insert(0, DRAWS)
        if HOST in self.reasons and {DRAWS, COPY} & set(self.reasons):
            self.reasons.remove(HOST)  # it goes without saying
        changed = {k for k, v in _state_of(owner).items() if state.get(k) != v}
        for name in sorted(changed - {"updates"}):
            self.add("adds images to the pool" if name == "pool" else f"replaces self.{name}")
        if updates_at_most is not None and owner.updates - updates > updates_at_most:
            self.add("updates the network several times with a rate that changes")
        return result

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Look at an operation, then do it."""
        result = func(*args, **(kwargs or {}))
        if self.paused:
            return result
        inputs = [t for t in tree_leaves((args, kwargs or {})) if isinstance(t, Tensor)]
        outputs = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
        kinds = {t.device.type for t in (*inputs, *outputs)}
        if torch.Tag.data_dependent_output in func.tags and self.device in kinds:
            self.add(READS)
        elif _has_dynamic_size(func, args) and self.device in kinds:
            self.add(SIZES)
        elif func in COPIES and len(kinds) > 1:
            self.add(COPY)
        elif self.device not in kinds and any(t.device.type == "cpu" for t in outputs):
            self.add(HOST)
        return result


def _has_dynamic_size(func: Any, args: Sequence[Any]) -> bool:
    if func in INDEXING:  # by numbers it has the size of the index
        return any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in args[1])
    return torch.Tag.dynamic_output_shape in func.tags


def _watched(cls: type[Any], probe: StepProbe) -> type[Any]:
    """A subclass of a method that notices where a number of the schedule enters a step."""

    def optimise(self: Any, *args: Any, **kwargs: Any) -> Any:
        optimise_depth[0] += 1
        try:
            return cls.optimise(self, *args, **kwargs)
        finally:
            optimise_depth[0] -= 1

    def learning_rate(self: Any) -> float:
        if not optimise_depth[0] and self.recipe.schedule != "constant":
            probe.add("uses the learning rate, which changes, as a number")
        before, probe.paused, reading[0] = probe.paused, True, reading[0] + 1
        try:
            return float(cls.learning_rate(self))
        finally:
            probe.paused, reading[0] = before, reading[0] - 1

    def read_updates(self: Any) -> int:
        if not optimise_depth[0] and not reading[0]:
            probe.add("depends on the number of updates so far")
        return int(vars(self)["updates"])

    def write_updates(self: Any, value: int) -> None:
        vars(self)["updates"] = value

    optimise_depth, reading = [0], [0]
    changed = {
        "optimise": optimise,
        "learning_rate": learning_rate,
        "updates": property(read_updates, write_updates),
    }
    return type(cls.__name__, (cls,), changed)


def _host_draws() -> tuple[Any, ...]:
    """The states of the generators of the CPU."""
    numpy_state: Any = np.random.get_state()
    torch_state = bytes(torch.default_generator.get_state().numpy())
    return torch_state, numpy_state[1].tobytes(), numpy_state[2], random.getstate()


def _state_of(owner: Any) -> dict[str, Any]:
    """The attributes of a method: values of numbers and texts, identities of all else."""
    return {name: _identity(value) for name, value in vars(owner).items()} | {
        "pool": len(owner.pool)
    }


def _identity(value: Any) -> Any:
    if isinstance(value, (bool, int, float, str, bytes, type(None))):
        return value
    if isinstance(value, nn.Module):
        return [id(value), *(id(tensor) for tensor in (*value.parameters(), *value.buffers()))]
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, torch.Generator):
        return bytes(value.get_state().cpu().numpy()) if value.device.type == "cpu" else id(value)
    if isinstance(value, dict):
        return {key: _identity(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_identity(item) for item in value]
    return id(value)
