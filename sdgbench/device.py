"""The seam to the hardware: everything that differs between a CPU and a GPU is here."""

import ctypes
import os
import platform
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sdgbench import parallel
from sdgbench.errors import UserError, unknown

BESIDE = "SDGBENCH_RUNS_BESIDE"  # tells a worker how many others share the machine
KINDS = ("auto", "cpu", "cuda", "mps")
EXACT = "float32"
HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
PRECISIONS = (EXACT, "tf32", *HALF)
LEAST_SCALE = 2.0**-20  # a loss that overflows below it is no longer a number

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Execution:
    """How to compute, as asked for; None: what the device does by default, or fast."""

    precision: str | None = None
    channels_last: bool | None = None
    compile: bool | None = None
    deterministic: bool = False
    fast: bool = False

    def __post_init__(self) -> None:
        if self.precision not in (None, *PRECISIONS):
            raise unknown("precision", str(self.precision), PRECISIONS)
        against = {
            "--fast": self.fast,
            f"--precision {self.precision}": self.precision not in (None, EXACT),
            "--compile": self.compile,
        }
        for option, given in against.items():
            if self.deterministic and given:
                raise UserError(f"--deterministic and {option} exclude each other. Leave one out.")

    def settled(self, device: str) -> "Execution":
        """The same with its precision decided, which is part of what a run is asked."""
        if self.precision or not self.fast:
            return replace(self, precision=self.precision or EXACT)
        return replace(self, precision=Device(device, self).precision)


class Device:
    """Where tensors live, how they are computed, how to wait for them, and what they cost."""

    def __init__(self, name: str = "auto", execution: Execution | None = None) -> None:
        asked = execution or Execution()
        self.torch = torch.device(_resolve(name))
        self.kind = self.torch.type
        self.fast, self.deterministic = asked.fast, asked.deterministic
        fast_gpu = asked.fast and self.kind == "cuda"
        self.precision = asked.precision or (_best_half() if fast_gpu else EXACT)
        _check_precision(self.precision, self.kind)
        self.channels_last = asked.fast if asked.channels_last is None else asked.channels_last
        self.compiling = self._compile = fast_gpu if asked.compile is None else asked.compile
        self._warn: Callable[[str], object] = warnings.warn

    # How to compute ------------------------------------------------------------------------

    @contextmanager
    def settings(self, warn: Callable[[str], object]) -> Iterator[None]:
        """Turn torch's global switches for a run, and turn them back after it."""
        self._warn, self.compiling = warn, self._compile
        keep_freed_memory()
        cuda = self.kind == "cuda"
        switches: list[tuple[Any, str, Any]] = []
        if cuda:
            rounding = "ieee" if self.precision == EXACT else "tf32"
            switches = [
                (torch.backends.cudnn, "deterministic", not self.fast),
                (torch.backends.cudnn, "benchmark", self.fast),
                (torch.backends.cuda.matmul, "fp32_precision", rounding),
                (torch.backends.cudnn.conv, "fp32_precision", rounding),  # type: ignore[attr-defined]
            ]
            if self.deterministic:  # cuBLAS reads it when it starts
                os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        before = [getattr(place, name) for place, name, _ in switches]
        strict = self.deterministic and not torch.are_deterministic_algorithms_enabled()
        try:
            for place, name, value in switches:
                setattr(place, name, value)
            if strict:  # and only then: the call imports a compiler
                torch.use_deterministic_algorithms(True)
            yield
        finally:
            if strict:
                torch.use_deterministic_algorithms(False)
            for (place, name, _), value in zip(switches, before, strict=True):
                setattr(place, name, value)
            if self._compile:
                torch.compiler.set_stance("default")

    def autocast(self) -> AbstractContextManager[Any]:
        """Where half precision was asked for: forward passes use it, weights stay float32."""
        if self.precision not in HALF:
            return nullcontext()
        # The cache would hand weights cast under no_grad to passes that need their gradient.
        return torch.autocast(self.kind, HALF[self.precision], cache_enabled=False)

    def exact(self) -> AbstractContextManager[Any]:
        """Out of ``autocast`` for a while: for backward passes, and for what needs float32."""
        return torch.autocast(self.kind, enabled=False) if self.precision in HALF else nullcontext()

    def new_scaler(self) -> "Scaler | None":
        """What keeps small gradients above zero in fp16; no other precision needs it."""
        return Scaler(self.kind) if self.precision == "fp16" else None

    def place(self, module: M) -> M:
        """Move a module here, into the memory layout that was asked for."""
        if self.channels_last:
            return module.to(self.torch, memory_format=torch.channels_last)  # type: ignore[call-overload]
        return module.to(self.torch)

    def compile(self, module: nn.Module, functions: Sequence[str]) -> None:
        """Compile functions of a module, where that was asked for and works."""
        if self.compiling:
            try:
                module.__class__ = _compiled(type(module), tuple(functions))  # type: ignore[arg-type]
            except Exception as error:
                self.stop_compiling(error)

    def stop_compiling(self, error: Exception) -> None:
        """Go on without; what was compiled already runs as it was written."""
        reason = (str(error).strip().splitlines() or [""])[0]
        self._warn(
            f"torch.compile failed, going on without it ({type(error).__name__}: {reason[:200]})"
        )
        self.compiling = False
        torch.compiler.set_stance("force_eager")

    def uncompiled(self) -> AbstractContextManager[Any]:
        """Run as written for a while, such as where operations are counted."""
        return torch.compiler.set_stance("force_eager") if self.compiling else nullcontext()

    # Moving, waiting, cost -----------------------------------------------------------------

    def put(self, tensor: Tensor) -> Tensor:
        """Move a tensor here, without waiting where the hardware allows."""
        return self.stage(tensor).to(self.torch, non_blocking=self.kind == "cuda")

    def stage(self, tensor: Tensor) -> Tensor:
        """Get a tensor ready to be put; any thread may do it, unlike the rest."""
        if self.kind == "cuda" and tensor.device.type == "cpu":
            return tensor.pin_memory()  # only from such memory does the copy not wait
        return tensor

    def synchronise(self) -> None:
        """Wait until all queued work is done, so that a clock tells the truth."""
        if self.kind == "cuda":
            torch.cuda.synchronize(self.torch)
        elif self.kind == "mps":
            torch.mps.synchronize()

    def milliseconds(self, work: Callable[[], object]) -> float:
        """What the device takes for some work: by its own clock on a GPU."""
        self.synchronise()
        if self.kind == "cuda":
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            work()
            last.record()
            last.synchronize()
            return first.elapsed_time(last)
        start = time.perf_counter()
        work()
        self.synchronise()
        return 1000 * (time.perf_counter() - start)

    def reset_peak_memory(self) -> None:
        """Start measuring anew, where the hardware keeps a high-water mark."""
        if self.kind == "cuda":
            torch.cuda.reset_peak_memory_stats(self.torch)

    def peak_memory(self) -> int:
        """High-water mark in bytes: of the GPU's allocator, or of the whole process."""
        if self.kind == "cuda":
            return torch.cuda.max_memory_allocated(self.torch)
        if self.kind == "mps":
            return torch.mps.driver_allocated_memory()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

    def describe(self) -> dict[str, Any]:
        """What a record should say about where it was made."""
        return {
            "device": str(self.torch),
            "hardware": self.hardware(),
            "threads": torch.get_num_threads(),
            "cuda": torch.version.cuda if self.kind == "cuda" else None,
            "precision": self.precision,
            "channels_last": self.channels_last,
            "compile": self.compiling,
            "deterministic": self.deterministic,
            "fast": self.fast,
            "processes": parallel.size(),
            "runs_beside": int(os.environ.get(BESIDE, 0)),  # they slow each other down
            "platform": platform.platform(),
        }

    def hardware(self) -> str:
        """The name of the chip."""
        if self.kind == "cuda":
            return torch.cuda.get_device_name(self.torch)
        return f"{_cpu_name()} ({os.cpu_count()} cores)"


class Scaler(torch.amp.GradScaler):
    """Scales losses for fp16; a step whose gradients overflow is left out and lowers the scale."""

    skipped = False  # whether the last step was

    def advance(self, optimizer: Optimizer) -> None:
        """Step with unscaled gradients, and adapt the scale."""
        before = self.get_scale()
        self.step(optimizer)
        self.update()
        self.skipped = self.get_scale() < before
        if self.skipped and before < LEAST_SCALE:
            raise FloatingPointError("gradients overflow in fp16 at any scale of the loss")


@lru_cache
def _compiled(cls: type[nn.Module], functions: tuple[str, ...]) -> type[nn.Module]:
    """The class with compiled functions: copies of a module stay compiled, on their own weights."""
    changed = {name: torch.compile(getattr(cls, name)) for name in functions}
    return type(cls.__name__, (cls,), changed)


@lru_cache
def keep_freed_memory() -> None:
    """Let the C library keep up to 1 GB of what is freed, for the rest of the process.

    By default it hands large arrays back to the kernel and asks for them again at each step:
    thousands of page faults, about a tenth of a step's time on a CPU. Arrays of 32 MB and more
    are still handed back: to keep them, too, took a quarter more memory in a large meta step.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # a C library without such a switch
            set_option = ctypes.CDLL(None).mallopt
            trim_threshold, map_threshold = -1, -3  # as malloc.h numbers them
            set_option(trim_threshold, 1 << 30)
            set_option(map_threshold, 1 << 25)


def _best_half() -> str:
    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"


def _check_precision(precision: str, kind: str) -> None:
    if kind == "mps" and precision != EXACT:
        raise UserError(f"{precision} is not supported on an Apple GPU. Use --precision {EXACT}.")
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
