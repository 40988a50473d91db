"""A simulated CUDA device: tensors have shapes, types and a device, but no values.

Whole trainings run on it in seconds. It raises what a GPU would raise, also where fake tensors
alone do not: a mixed dtype, a generator or an index on another device. It counts each place where
the host would wait for the device.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

aten = torch.ops.aten
ONE_DTYPE = {  # operations whose tensors must all have one dtype on a GPU
    aten.mm.default: 2,
    aten.bmm.default: 2,
    aten.addmm.default: 3,
    aten.baddbmm.default: 3,
    aten.convolution.default: 3,
    aten.index_put.default: 0,
    aten.index_put_.default: 0,
}
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
COPIES = {aten._to_copy.default, aten.copy_.default}
FUSED = {  # torch has no fakes of them; they change tensors in place
    aten._fused_sgd_.default,
    aten._fused_sgd_.tensor_lr,
    aten._fused_adam_.tensor_lr,
}
LIKE_FIRST = {aten._sample_dirichlet.default, aten._standard_gamma.default}  # without a fake
DYNAMIC = "the size of its result depends on values, so the host waits for the device"
TORCH = str(Path(torch.__file__).parent)
HERE = str(Path(__file__).parent)


MEMORY = 8 << 30  # bytes of the simulated GPU
STEP_MEMORY = 1 << 30  # bytes that any work needs on it


class Event:
    """A point in the queued work; there is nothing to wait for."""

    def __init__(self, enable_timing: bool = False) -> None: ...

    def record(self) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""


class SimulatedGraphs:
    """Graphs of the simulated GPU: what is captured may neither wait nor use the CPU."""

    def __init__(self, gpu: "SimulatedGPU") -> None:
        self.gpu = gpu

    def warm_up(self, work: Callable[[], Any]) -> Any:
        """Do the work."""
        return work()

    def capture(self, work: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """Do the work under the rules of a capture; a replay has nothing to do."""
        self.gpu.capturing = True
        try:
            return (lambda: None), work()
        finally:
            self.gpu.capturing = False


class SimulationError(RuntimeError):
    """What would fail, or wait without end, on a GPU."""


@dataclass(frozen=True)
class Wait:
    """A place where the host waits for the device."""

    reason: str  # such as "reads a value"
    where: str  # file:line
    step: str  # name of the method's step that it is in; empty: outside of any


@dataclass
class Census:
    """The waits of a simulated run, and its steps."""

    waits: Counter[Wait] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)  # by name of the step
    operations: Counter[str] = field(default_factory=Counter)  # on the device, by step

    def in_steps(self) -> dict[Wait, int]:
        """The waits inside of the method's steps."""
        return {wait: count for wait, count in self.waits.items() if wait.step}

    def outside(self) -> int:
        """The number of waits outside of them: the training loop's own."""
        return sum(count for wait, count in self.waits.items() if not wait.step)


class SimulatedGPU(FakeTensorMode):
    """Runs everything inside ``with SimulatedGPU().active():`` on fake CUDA tensors."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True, allow_fallback_kernels=False)
        self.census = Census()
        self.step = ""
        self.capturing = False  # into a CUDA graph, where the host may neither wait nor draw

    @property
    def avoid_device_init(self) -> bool:
        """Never start the CUDA runtime."""
        return True

    @contextmanager
    def active(self) -> Iterator[Census]:
        """Simulate inside of this block."""
        with ExitStack() as stack:
            for owner, name, value in _replacements(self):
                stack.enter_context(patch.object(owner, name, value))
            stack.enter_context(self)
            yield self.census

    @contextmanager
    def inside_step(self, name: str) -> Iterator[None]:
        """Count what happens here as a step of the method."""
        self.step = name
        self.census.steps[name] += 1
        try:
            yield
        finally:
            self.step = ""

    def wait(self, reason: str) -> None:
        """Count a wait at the current line of code; a CUDA graph cannot hold one."""
        if self.capturing:
            raise SimulationError(f"{_caller()}: it {reason} in a CUDA graph")
        self.census.waits[Wait(reason, _caller(), self.step)] += 1

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Check an operation, count its waits, and compute the shape of its result.

        What happens on the host alone is computed for real.
        """
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        on_gpu = [tensor for tensor in tensors if tensor.is_cuda]
        if not any(isinstance(tensor, FakeTensor) for tensor in tensors):
            device = kwargs.get("device")
            if device is None or torch.device(device).type != "cuda":
                if self.capturing and torch.Tag.nondeterministic_seeded in func.tags:
                    raise SimulationError(f"{_caller()}: {func} on the CPU in a CUDA graph")
                return func(*args, **kwargs)
        if func is aten._local_scalar_dense.default:
            self.wait("reads a value")
            return _some_value(tensors[0])
        if func in FUSED:
            return None
        if func in LIKE_FIRST:
            return torch.empty_like(args[0])
        self.census.operations[self.step] += 1
        self._check(func, args, kwargs, on_gpu)
        if func is aten.copy_.default and not isinstance(args[0], FakeTensor):
            return args[0].zero_()
        args, kwargs = tree_map_only(Tensor, self._fake, (args, kwargs))
        try:
            result = super().__torch_dispatch__(func, types, args, kwargs)
        except (
            torch._subclasses.fake_tensor.DynamicOutputShapeException,
            torch._subclasses.fake_tensor.DataDependentOutputException,
        ):
            raise SimulationError(f"{_caller()}: {func}: {DYNAMIC}") from None
        if on_gpu and isinstance(result, Tensor) and result.device.type == "cpu":
            return _zeros(result)  # on the host, where values are real
        return result

    def _fake(self, tensor: Tensor) -> Tensor:
        """A fake of a tensor of the host, without its values."""
        return tensor if isinstance(tensor, FakeTensor) else self.from_tensor(tensor)

    def _check(self, func: Any, args: Sequence[Any], kwargs: Any, on_gpu: list[Tensor]) -> None:
        if func in COPIES:
            self._count_copy(func, args, kwargs)
        if (count := ONE_DTYPE.get(func)) is not None and on_gpu:
            operands = [args[0], args[2]] if count == 0 else args[:count]
            dtypes = {tensor.dtype for tensor in operands if isinstance(tensor, Tensor)}
            if len(dtypes) > 1:
                raise SimulationError(f"{_caller()}: {func} of different types: {dtypes}")
        if func in INDEXING and args[0].is_cuda:
            indices = [index for index in args[1] if index is not None]
            if not all(index.is_cuda for index in indices):
                self.wait("copies an index to the device")
        generator = kwargs.get("generator")
        if generator is not None:
            device = on_gpu[0].device if on_gpu else torch.device(kwargs.get("device") or "cpu")
            if generator.device.type != device.type:
                raise SimulationError(
                    f"{_caller()}: {func}: a generator of {generator.device} on {device}"
                )

    def _count_copy(self, func: Any, args: Sequence[Any], kwargs: Any) -> None:
        if func is aten.copy_.default:
            source, target = args[1], args[0].device
            asynchronous = bool(args[2]) if len(args) > 2 else kwargs.get("non_blocking", False)
        else:
            source = args[0]
            target = torch.device(kwargs.get("device") or source.device)
            asynchronous = kwargs.get("non_blocking", False)
        if source.is_cuda and target.type == "cpu":
            pinned = func is aten.copy_.default and getattr(args[0], "simulated_pinned", False)
            if not (pinned and asynchronous):
                self.wait("copies from the device")
        elif not source.is_cuda and target.type == "cuda":
            pinned = getattr(source, "simulated_pinned", False)
            if not (pinned and asynchronous) and source.numel():
                self.wait("copies to the device, and waits")


def _some_value(tensor: Tensor) -> Any:
    """A value in place of one that nobody computed."""
    if tensor.dtype == torch.bool:
        return True
    return 0.5 if tensor.is_floating_point() else 1


def _zeros(like: Tensor) -> Tensor:
    """Real zeros on the host."""
    if not like.numel():
        return torch.empty(like.shape, dtype=like.dtype)
    memory = bytearray(like.numel() * like.element_size())
    return torch.frombuffer(memory, dtype=like.dtype).reshape(like.shape)


def _caller() -> str:
    """The line of code, outside of torch and of this simulation, that is being executed."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((TORCH, HERE, "<")) and "contextlib" not in file:
            return f"{Path(file).parent.name}/{Path(file).name}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "backward pass"


def _replacements(mode: SimulatedGPU) -> list[tuple[Any, str, Any]]:
    """What needs a real GPU, replaced for the time of the simulation."""

    def pin_memory(tensor: Tensor, *_: Any) -> Tensor:
        if tensor.is_cuda:
            raise SimulationError(f"{_caller()}: only a CPU tensor can be pinned")
        if mode.capturing:
            raise SimulationError(f"{_caller()}: pinned memory is allocated in a CUDA graph")
        pinned = tensor.view_as(tensor)
        pinned.simulated_pinned = True  # type: ignore[attr-defined]
        return pinned

    real_numpy = Tensor.numpy

    def numpy(tensor: Tensor, *, force: bool = False) -> np.ndarray:
        if tensor.is_cuda:
            raise SimulationError(f"{_caller()}: a CUDA tensor has no numpy(): call .cpu() first")
        return real_numpy(tensor, force=force)

    def deepcopy(tensor: FakeTensor, memo: dict[int, Any]) -> Tensor:
        with mode:
            copy = tensor.detach().clone()
        copy = copy.requires_grad_(tensor.requires_grad)
        result = (
            nn.Parameter(copy, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else copy
        )
        memo[id(tensor)] = result
        return result

    def apply(module: nn.Module, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        for child in module.children() if recurse else ():
            child._apply(change)
        for name, weight in module._parameters.items():
            if weight is not None:
                changed = change(weight.detach())
                module._parameters[name] = nn.Parameter(changed, weight.requires_grad)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = change(buffer)
        return module

    select = torch._C._select_conv_backend

    def select_conv_backend(*args: Any, **kwargs: Any) -> Any:
        with torch.backends.cudnn.flags(enabled=False):  # it would ask for the GPU's generation
            try:
                return select(*args, **kwargs)
            except RuntimeError:  # torch 2.6 asks all the same for grouped convolutions
                return torch._C._ConvBackend.Cudnn  # type: ignore[attr-defined]

    nothing: Callable[..., None] = lambda *args, **kwargs: None  # noqa: E731
    return [
        (Tensor, "pin_memory", pin_memory),
        (Tensor, "numpy", numpy),
        (nn.Module, "_apply", apply),
        (torch._C, "_select_conv_backend", select_conv_backend),
        (FakeTensor, "__deepcopy__", deepcopy),
        (fake_tensor, "init_gpu_context", nothing),  # for torch without avoid_device_init
        (torch.cuda, "is_bf16_supported", lambda *args, **kwargs: True),
        (torch.cuda, "get_device_name", lambda *args: "simulated GPU"),
        (torch.cuda, "synchronize", nothing),
        (torch.cuda, "reset_peak_memory_stats", nothing),
        (torch.cuda, "max_memory_allocated", lambda *args: STEP_MEMORY),
        (torch.cuda, "memory_allocated", lambda *args: 0),
        (torch.cuda, "memory_reserved", lambda *args: 0),
        (torch.cuda, "mem_get_info", lambda *args: (MEMORY, MEMORY)),
        (torch.cuda, "Event", Event),
        (torch.cuda, "_lazy_init", nothing),
    ]
