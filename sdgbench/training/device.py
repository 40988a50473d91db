"""The device of a run: everything that differs between a CPU and a GPU is here."""

import ctypes
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sdgbench.errors import UserError, unknown
from sdgbench.spec.precision import DEFAULT_PRECISION, PRECISIONS
from sdgbench.training import distributed
from sdgbench.training.compilation import Compilation
from sdgbench.training.cuda_graphs import CudaGraphs, GraphBackend
from sdgbench.training.gpu_memory import GpuMemory
from sdgbench.training.sharing import DeviceShare

CONCURRENT_RUNS = "SDGBENCH_RUNS_BESIDE"  # environment: other runs on this machine at a time
KINDS = ("auto", "cpu", "cuda", "mps")

HALF_PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}
MIN_SCALE = 2.0**-20  # a loss that overflows below it is no longer a number

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Execution:
    """How to compute; None: the device's default, or the faster choice with ``fast``."""

    precision: str | None = None
    channels_last: bool | None = None
    compile: bool | None = None
    deterministic: bool = False
    fast: bool = False
    threads: int | None = None  # of a run on a CPU
    cuda_graphs: bool = False  # capture steps, where they can be captured

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise UserError(f"{self.threads} threads cannot compute. Write --threads 1 or more.")
        if self.precision not in (None, *PRECISIONS):
            raise unknown("precision", str(self.precision), PRECISIONS)
        nondeterministic = {
            "--fast": self.fast,
            f"--precision {self.precision}": self.precision not in (None, DEFAULT_PRECISION),
            "--compile": self.compile,
        }
        for option, given in nondeterministic.items():
            if self.deterministic and given:
                raise UserError(f"--deterministic and {option} exclude each other. Omit one.")

    def resolved(self, device: str) -> "Execution":
        """The same with a precision chosen for the device: it is part of a run's identity."""
        if self.precision or not self.fast:
            return replace(self, precision=self.precision or DEFAULT_PRECISION)
        return replace(self, precision=Device(device, self).precision)


def cpu_threads(asked: int | None = None) -> int:
    """The threads of a run on a CPU: as asked, else OMP_NUM_THREADS, else one.

    Another number rounds differently, and after a training the scores differ by a point or two.
    With a fixed number a run gives the same scores with any number of cores and ``--jobs``.
    """
    variable = os.environ.get("OMP_NUM_THREADS", "")
    return asked or (int(variable) if variable.isdecimal() else 0) or 1


class Device:
    """Moves and computes tensors, waits for them, and measures time and memory."""

    def __init__(self, name: str = "auto", execution: Execution | None = None) -> None:
        options = execution or Execution()
        self.torch = torch.device(_resolve(name))
        self.kind = self.torch.type
        self.fast, self.deterministic = options.fast, options.deterministic
        fast_gpu = options.fast and self.kind == "cuda"
        self.precision = options.precision or (_best_half() if fast_gpu else DEFAULT_PRECISION)
        _check_precision(self.precision, self.kind)
        self.channels_last = (
            options.fast if options.channels_last is None else options.channels_last
        )
        self.threads = cpu_threads(options.threads) if self.kind == "cpu" else None
        if options.cuda_graphs and self.kind != "cuda":
            raise UserError("--cuda-graphs needs a CUDA device. Omit it.")
        self.graphs: GraphBackend | None = CudaGraphs() if options.cuda_graphs else None
        self.captured: list[str] = []  # steps that were
        self.not_captured: dict[str, str] = {}  # steps that could not be, and why
        self.capturing = False
        self.memory = GpuMemory(self.torch) if self.kind == "cuda" else None
        self.share: DeviceShare | None = None  # None: no other process of the command uses it
        self.compilation = Compilation(fast_gpu if options.compile is None else options.compile)

    # How to compute ------------------------------------------------------------------------

    @contextmanager
    def settings(self, warn: Callable[[str], object]) -> Iterator[None]:
        """Set torch's global switches for a run, and reset them after it."""
        keep_freed_memory()
        self.captured, self.not_captured = [], {}
        cuda = self.kind == "cuda"
        switches: list[tuple[Any, str, Any]] = []
        if cuda:
            switches = [
                (torch.backends.cudnn, "deterministic", not self.fast),
                (torch.backends.cudnn, "benchmark", self.fast),
                *_tf32_switches(self.precision != DEFAULT_PRECISION),
            ]
            if self.deterministic:  # cuBLAS reads it when it starts
                os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        before = [_current(owner, name) for owner, name, _ in switches]
        threads = torch.get_num_threads()
        strict = self.deterministic and not torch.are_deterministic_algorithms_enabled()
        try:
            for owner, name, value in switches:
                setattr(owner, name, value)
            if self.threads:
                torch.set_num_threads(self.threads)
            if strict:  # and only then: the call imports a compiler
                torch.use_deterministic_algorithms(True)
            with self.compilation.settings(warn):
                yield
        finally:
            if strict:
                torch.use_deterministic_algorithms(False)
            torch.set_num_threads(threads)
            for (owner, name, _), value in zip(switches, before, strict=True):
                setattr(owner, name, value)

    def autocast(self) -> AbstractContextManager[Any]:
        """Use half precision in forward passes, where it was requested; weights stay float32."""
        if self.precision not in HALF_PRECISIONS:
            return nullcontext()
        # The cache would hand weights cast under no_grad to passes that need their gradient.
        return torch.autocast(self.kind, HALF_PRECISIONS[self.precision], cache_enabled=False)

    def no_autocast(self) -> AbstractContextManager[Any]:
        """Suspend ``autocast``: for backward passes, and for what needs float32."""
        if self.precision not in HALF_PRECISIONS:
            return nullcontext()
        return torch.autocast(self.kind, enabled=False)

    def new_scaler(self) -> "Scaler | None":
        """A loss scaler for fp16, where small gradients would become 0; None for all else."""
        return Scaler(self.kind) if self.precision == "fp16" else None

    def prepare_module(self, module: M) -> M:
        """Move a module to the device, in the requested memory layout, without waiting."""
        if self.kind == "cuda":
            module._apply(self.to_device)  # type: ignore[no-untyped-call]
        if self.channels_last:
            moved: M = module.to(self.torch, memory_format=torch.channels_last)  # type: ignore[call-overload]
            return moved
        return module.to(self.torch)

    @property
    def compiling(self) -> bool:
        """Whether networks run compiled at this moment."""
        return self.compilation.active

    def compile(self, module: nn.Module, functions: Sequence[str]) -> None:
        """Compile functions of a module, where that was requested and works."""
        self.compilation.apply(module, functions)

    def uncompiled(self) -> AbstractContextManager[None]:
        """Suspend compilation, for example where operations are counted."""
        return self.compilation.suspended()

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Inside of it, work is recorded and not done."""
        self.capturing = True
        try:
            yield
        finally:
            self.capturing = False

    # Moving, waiting, cost -----------------------------------------------------------------

    def to_device(self, tensor: Tensor) -> Tensor:
        """Move a tensor to the device, without waiting where the hardware allows."""
        return tensor if self.kind == "cpu" else to_device(tensor, self.torch)

    def pin(self, tensor: Tensor) -> Tensor:
        """Pin a tensor for ``to_device``; unlike the other methods, from any thread."""
        return _pinned(tensor, self.torch)

    def synchronise(self) -> None:
        """Wait until all queued work is done, so that a clock shows its time."""
        if self.kind == "cuda":
            torch.cuda.synchronize(self.torch)
        elif self.kind == "mps":
            torch.mps.synchronize()

    def milliseconds(self, work: Callable[[], object]) -> float:
        """The time that the device takes for some work, by its own clock on a GPU."""
        self.synchronise()
        if self.kind == "cuda":
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            work()
            last.record()
            last.synchronize()
            elapsed: float = first.elapsed_time(last)
            return elapsed
        start = time.perf_counter()
        work()
        self.synchronise()
        return 1000 * (time.perf_counter() - start)

    def event(self) -> Any:
        """A point in the queued work of a GPU, for which another thread can wait."""
        event = torch.cuda.Event()
        event.record()
        return event

    @property
    def sharing(self) -> int:
        """How many processes of the command use the device."""
        return self.share.processes if self.share else 1

    @contextmanager
    def alone(self) -> Iterator[bool | None]:
        """Have the device alone; False: others still use it, None: nobody shares it."""
        if self.share is None:
            yield None
        else:
            with self.share.alone() as alone:
                yield alone

    def reset_peak_memory(self) -> None:
        """Reset the high-water mark, where the hardware has one."""
        if self.memory:
            self.memory.reset_peak()

    def peak_memory(self) -> int:
        """High-water mark in bytes: of the GPU's allocator, or of the whole process."""
        if self.memory:
            return self.memory.peak()
        if self.kind == "mps":
            return torch.mps.driver_allocated_memory()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

    def describe(self) -> dict[str, Any]:
        """Device, hardware and switches, as records keep them."""
        return {
            "device": str(self.torch),
            "hardware": self.hardware(),
            "threads": torch.get_num_threads(),
            "cuda": torch.version.cuda if self.kind == "cuda" else None,
            "precision": self.precision,
            "channels_last": self.channels_last,
            "compile": self.compilation.enabled,
            "uncompiled": list(self.compilation.given_up),
            "cuda_graphs": list(self.captured) if self.graphs else None,
            "deterministic": self.deterministic,
            "fast": self.fast,
            "processes": distributed.size(),
            "runs_beside": int(os.environ.get(CONCURRENT_RUNS, 0)),  # they slow each other down
            "runs_on_device": self.sharing,
            "platform": platform.platform(),
        }

    def hardware(self) -> str:
        """The name of the chip."""
        if self.kind == "cuda":
            return torch.cuda.get_device_name(self.torch)
        return f"{_cpu_name()} ({os.cpu_count()} cores)"


class Scaler(torch.amp.GradScaler):
    """Scales losses for fp16; a step whose gradients overflow is skipped and lowers the scale."""

    skipped: Tensor | None = None  # whether the last step was: 1 or 0, on the device

    def advance(self, optimizer: Optimizer) -> None:
        """Step with unscaled gradients, and adapt the scale, without waiting for the device."""
        self.step(optimizer)
        found = list(self._found_inf_per_device(optimizer).values())
        self.skipped = torch.stack(found).amax(0).clone()
        self.update()

    def current(self) -> Tensor | float:
        """The scale, on the device once it is there."""
        scale: Tensor | None = self._get_scale_async()
        return self.get_scale() if scale is None else scale

    def check(self) -> None:
        """Give up if gradients overflow at any scale. It waits for the device."""
        if self.get_scale() < MIN_SCALE:
            raise FloatingPointError("gradients overflow in fp16 at any scale of the loss")


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Move a tensor to a device, without waiting where the hardware allows."""
    return _pinned(tensor, device).to(device, non_blocking=device.type == "cuda")


def _pinned(tensor: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory()  # only from pinned memory does the copy not wait
    return tensor


@lru_cache
def keep_freed_memory() -> None:
    """Let the C library keep up to 1 GB of what is freed, for the rest of the process.

    By default it returns large arrays to the kernel and requests them again at each step:
    thousands of page faults, about a tenth of a step's time on a CPU. Arrays of 32 MB and more
    are still returned: to keep them, too, took a quarter more memory in a large meta step.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # a C library without such a switch
            set_option = ctypes.CDLL(None).mallopt
            trim_threshold, map_threshold = -1, -3  # as malloc.h numbers them
            set_option(trim_threshold, 1 << 30)
            set_option(map_threshold, 1 << 25)


def _tf32_switches(allowed: bool) -> list[tuple[Any, str, Any]]:
    # These set the newer switches (fp32_precision of matmul, conv and rnn), too. To set only the
    # newer ones would make the getters of these raise, which libraries still use.
    return [
        (torch.backends.cuda.matmul, "allow_tf32", allowed),
        (torch.backends.cudnn, "allow_tf32", allowed),
    ]


def _current(owner: Any, switch: str) -> Any:
    """The value of a switch of torch; its default where older and newer switches were mixed."""
    try:
        return getattr(owner, switch)
    except RuntimeError:
        return owner is torch.backends.cudnn


def _best_half() -> str:
    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"


def _check_precision(precision: str, kind: str) -> None:
    if kind == "mps" and precision != DEFAULT_PRECISION:
        raise UserError(
            f"{precision} is not supported on an Apple GPU. Use --precision {DEFAULT_PRECISION}."
        )
    if precision == "tf32" and kind != "cuda":
        raise UserError("tf32 needs a CUDA device. Use --precision float32.")
    if precision == "bf16" and kind == "cuda" and _best_half() != "bf16":
        raise UserError("This GPU has no bf16. Use --precision fp16.")


def _resolve(name: str) -> str:
    kind, _, index = name.partition(":")
    if kind not in KINDS or (index and (kind != "cuda" or not index.isdigit())):
        raise unknown("device", name, KINDS, "Use auto, cpu, cuda, cuda:0 or mps.")
    if kind == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise UserError("No CUDA device was found. Use --device cpu, or see: sdgbench doctor")
        if index and int(index) >= count:
            raise UserError(f"There is no {name}: this machine has {count} CUDA device(s).")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise UserError("No Apple GPU (mps) was found. Use --device cpu.")
    return name


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as lines:  # noqa: PTH123
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
