"""Where the time of a step goes: ``python docs/time_of_steps.py [NETWORK]``, one thread, float32.

Prints, for the steps of ERM, GUD and M-ADA, milliseconds of CPU time and the share of each kind of
work in it. GUD and M-ADA share the ascent; GUD's climbs without the auto-encoder.
"""

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch

from sdgbench import registry
from sdgbench.method import Method, MethodContext
from sdgbench.methods._ascent import frozen
from sdgbench.spec.resolution import resolve
from sdgbench.training.device import Device
from sdgbench.training.pool import Pool

KINDS = {
    "convolution": ("conv", "mkldnn"),
    "matrix product": ("mm", "linear"),
    "optimiser": ("adam", "sgd", "foreach", "optimizer"),
    "pooling": ("pool",),
    "normalisation": ("norm",),
    "loss": ("softmax", "nll", "entropy"),
}
ROUNDS = 5


def kind(operation: str) -> str:
    """What kind of work an operation is."""
    name = operation.lower()
    return next((k for k, parts in KINDS.items() if any(part in name for part in parts)), "other")


def build(method: str, dataset: str, network: str) -> Method:
    """A method as the runner builds it at the paper's settings."""
    spec = resolve(method, dataset, "paper", 0, [("recipe.network", network)])
    pool = Pool(Path(tempfile.mkdtemp()), (3, 32, 32), ())
    task = registry.get("dataset", dataset).load().task
    return spec.method_class(
        MethodContext(
            spec.build_params(), task, spec.build_recipe(), Device("cpu"), 0, 50_000, pool
        )
    )


def measure(name: str, work: Callable[[], object]) -> None:
    """Print the median CPU time of some work and what it is spent on."""
    work()
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        work()
    spent: dict[str, float] = defaultdict(float)
    for event in profile.key_averages():
        spent[kind(event.key)] += event.self_cpu_time_total
    total = sum(spent.values())
    shares = sorted(spent.items(), key=lambda item: -item[1])
    breakdown = ", ".join(f"{key} {100 * value / total:.0f}%" for key, value in shares)
    print(f"{name:<22} {1000 * sorted(times)[ROUNDS // 2]:8.0f} ms   {breakdown}", flush=True)


def main(network: str = "convnet") -> None:
    """Profile the steps of the three methods."""
    torch.set_num_threads(1)
    dataset = "digits" if network.startswith("convnet") else "cifar10c"
    erm, gud, mada = (build(name, dataset, network) for name in ("erm", "gud", "mada"))
    count = erm.recipe.batch
    x, y = torch.rand(count, 3, 32, 32), torch.randint(0, 10, (count,))
    x2, y2 = torch.rand(count, 3, 32, 32), torch.randint(0, 10, (count,))
    print(f"{network}, batch {count}")
    measure("ERM step", lambda: erm.train_step(x, y))
    measure("M-ADA meta step", lambda: mada.train_step(x, y, x2, y2))
    measure("M-ADA WAE step", lambda: mada.wae_step(x, y))
    for method in (gud, mada):
        object.__setattr__(method.params, "T_adv", 1)
    with frozen(gud.network, mada.network, mada.wae):
        gain = gud.objective(gud.network, gud.params.gamma, x, y)
        measure("GUD ascent step", lambda: gud.ascend(x, gain))
        gain = mada.objective(x, y)
        measure("M-ADA ascent step", lambda: mada.ascend(x, gain))


if __name__ == "__main__":
    main(*sys.argv[1:])
