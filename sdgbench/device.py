"""The seam to the hardware: everything that differs between a CPU and a GPU is here."""

import os
import platform
import resource
import sys
from typing import Any

import torch
from torch import Tensor

from sdgbench.errors import UserError, unknown

KINDS = ("auto", "cpu", "cuda", "mps")


class Device:
    """Where tensors live, how to wait for them, and what they cost."""

    def __init__(self, name: str = "auto") -> None:
        self.torch = torch.device(_resolve(name))
        self.kind = self.torch.type

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
            "precision": "float32",
            "platform": platform.platform(),
        }

    def hardware(self) -> str:
        """The name of the chip."""
        if self.kind == "cuda":
            return torch.cuda.get_device_name(self.torch)
        return f"{_cpu_name()} ({os.cpu_count()} cores)"


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
