"""Benchmarks compare as ratios within one run: the machines are noisy, the ratios are not."""

import statistics
import time
from collections.abc import Callable

import pytest
import torch

from sdgbench.training.device import keep_freed_memory


@pytest.fixture(autouse=True)
def _as_in_a_run():
    torch.set_num_threads(1)
    keep_freed_memory()


@pytest.fixture
def ratio(benchmark) -> Callable[[Callable[[], object], Callable[[], object]], float]:
    """Time two things in turn, several times, and keep the median of their ratios.

    ``scale`` is for a reference that does less work than the subject; ``warm`` is off where one
    time is long enough.
    """

    def compare(subject, reference, rounds=9, scale=1.0, warm=True):
        if warm:
            subject(), reference()
        ratios, times = [], []
        for position in range(rounds):
            pair = {}
            order = (subject, reference) if position % 2 else (reference, subject)
            for work in order:
                began = time.perf_counter()
                work()
                pair[work] = time.perf_counter() - began
            ratios.append(scale * pair[subject] / pair[reference])
            times.append(pair[subject])
        found = statistics.median(ratios)
        benchmark.extra_info["ratio"] = round(found, 4)
        benchmark.extra_info["seconds"] = round(statistics.median(times), 4)
        benchmark.pedantic(subject if warm else lambda: None, rounds=1)
        print(f"\n{benchmark.name}: ratio {found:.3f} ({statistics.median(times):.3f} s)")
        return found

    return compare
