"""What a method costs to use: parameters, FLOPs, latency, memory."""

import math
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from sdgbench.method import Method
from sdgbench.records.schema import Efficiency, Latency
from sdgbench.training import checkpoint

BATCHES = (1, 64)
WARM_UP = 3  # repetitions that are not timed
BLOCK = 10  # repetitions whose median is one sample of the interval: neighbours are alike
FEWEST_BLOCKS = 5
PRECISION = 0.02  # of the median: an interval of this half-width is small enough
SECONDS = 2.0  # after which the interval is what it is
QUICK_EFFORT = {"budget": 0.0, "warm_up": 1, "block": 1}


def count_parameters(modules: Iterable[nn.Module]) -> int:
    """The number of parameters; shared ones count once."""
    sizes = {id(p): p.numel() for module in modules for p in module.parameters()}
    return sum(sizes.values())


def flops(method: Method) -> int:
    """Floating-point operations of one prediction (a multiply-add counts as two)."""
    with (
        method.device.uncompiled(),
        FlopCounterMode(display=False) as counter,
        torch.inference_mode(),
    ):
        method.predict(_images(method, 1))
    total: int = counter.get_total_flops()
    return total


def latency(
    method: Method, batch: int, budget: float = SECONDS, warm_up: int = WARM_UP, block: int = BLOCK
) -> Latency:
    """Milliseconds per forward pass of a batch: median with its interval, and 95th percentile.

    After a warm-up, blocks of repetitions are timed until the interval of their medians is small,
    or ``budget`` seconds are over.
    """
    images = _images(method, batch)
    times: list[float] = []
    device = method.device
    with torch.inference_mode(), device.autocast():
        for _ in range(warm_up):
            method.predict(images)
        calls = device.compilation.calls
        began = time.perf_counter()
        while True:
            times += [device.milliseconds(lambda: method.predict(images)) for _ in range(block)]
            half = median_half_width(times, block)
            is_small = half is not None and half <= PRECISION * float(np.median(times))
            if is_small or time.perf_counter() - began >= budget:
                break
    p50, p95 = np.percentile(times, [50, 95])
    return Latency(
        p50_ms=round(float(p50), 4),
        p95_ms=round(float(p95), 4),
        repetitions=len(times),
        half_ms=None if half is None else round(half, 4),
        compiled=device.compilation.ran_compiled(calls),
    )


def expected_images(quickly: bool = False) -> int:
    """The images that go through the network to time it, if the interval is small at once."""
    repetitions = 2 if quickly else WARM_UP + FEWEST_BLOCKS * BLOCK
    return repetitions * sum(BATCHES)


def median_half_width(times: Sequence[float], block: int) -> float | None:
    """Half the 95% t-interval of the medians of blocks of times; None: too few blocks."""
    count = len(times) // block
    if count < FEWEST_BLOCKS:
        return None
    from scipy.special import stdtrit  # the quantile alone: scipy.stats takes a second to import

    medians = np.median(np.reshape(times[: count * block], (count, block)), axis=1)
    return float(stdtrit(count - 1, 0.975) * np.std(medians, ddof=1) / math.sqrt(count))


def measure(method: Method, peak_memory: int | None = None, quickly: bool = False) -> Efficiency:
    """Sizes, FLOPs and latency, as records keep them; ``quickly`` times one repetition."""
    effort: dict[str, Any] = QUICK_EFFORT if quickly else {}
    modules = checkpoint.modules(method).values()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None  # before it adds to it
    for module in modules:
        module.eval()
    with method.device.alone() as alone:
        latencies = {f"batch_{size}": latency(method, size, **effort) for size in BATCHES}
    return Efficiency(
        parameters_train=count_parameters(modules),
        parameters_inference=count_parameters(method.inference_modules()),
        flops=flops(method),
        latency=latencies,
        alone=alone,
        load_average=None if load is None else round(load, 2),
        peak_memory_bytes=peak_memory,
    )


def _images(method: Method, batch: int) -> torch.Tensor:
    shape = (batch, 3, *method.recipe.image_size)
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)).to(method.device.torch)
