"""What a method costs to use: parameters, FLOPs, latency, memory."""

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from sdgbench import checkpoint
from sdgbench.method import Method

BATCHES = (1, 64)
WARM_UP, MINIMUM, MAXIMUM = 3, 10, 200  # repetitions, timed within a second where that is enough


def count_parameters(modules: Iterable[nn.Module]) -> int:
    """Distinct parameters, shared ones once."""
    found = {id(p): p.numel() for module in modules for p in module.parameters()}
    return sum(found.values())


def flops(method: Method) -> int:
    """Floating-point operations of one prediction (a multiply-add counts as two)."""
    with (
        method.device.uncompiled(),
        FlopCounterMode(display=False) as counter,
        torch.inference_mode(),
    ):
        method.predict(_images(method, 1))
    return counter.get_total_flops()


def latency(
    method: Method, batch: int, budget: float = 1.0, warm_up: int = WARM_UP, minimum: int = MINIMUM
) -> dict[str, Any]:
    """Milliseconds per forward pass of a batch: median and 95th percentile.

    Repeats for ``budget`` seconds, within ``minimum`` and MAXIMUM, after a warm-up.
    """
    images = _images(method, batch)
    times: list[float] = []
    device = method.device
    with torch.inference_mode(), device.autocast():
        for _ in range(warm_up):
            method.predict(images)
        began = time.perf_counter()
        while len(times) < MAXIMUM and (
            len(times) < minimum or time.perf_counter() - began < budget
        ):
            times.append(device.milliseconds(lambda: method.predict(images)))
    p50, p95 = np.percentile(times, [50, 95])
    return {"p50_ms": round(p50, 4), "p95_ms": round(p95, 4), "repetitions": len(times)}


def measure(method: Method, quickly: bool = False) -> dict[str, Any]:
    """All of it, for a record; ``quickly`` times one repetition."""
    effort: dict[str, Any] = {"budget": 0.0, "warm_up": 1, "minimum": 1} if quickly else {}
    everything = checkpoint.modules(method).values()
    for module in everything:
        module.eval()
    return {
        "parameters_train": count_parameters(everything),
        "parameters_inference": count_parameters(method.inference_modules()),
        "flops": flops(method),
        "latency": {f"batch_{size}": latency(method, size, **effort) for size in BATCHES},
    }


def _images(method: Method, batch: int) -> torch.Tensor:
    shape = (batch, 3, *method.recipe.image_size)
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)).to(method.device.torch)
