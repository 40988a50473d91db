"""How much memory M-ADA needs on CIFAR-10: 50,000 images, three domains, the paper's network.

Everything has its full size: source, WAE, pools, batches, the graph of the meta step. Only the
number of steps is small, and images are kept as they are instead of climbing, 64 at a time, which
needs less than a meta step on 128 and 128.
"""

import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

LIMIT = 4 * 2**30  # bytes


def run(images: int, steps: int) -> None:
    """Train in this process and print its high-water mark, and the size of the pool."""
    import numpy as np

    from sdgbench import registry
    from sdgbench.data.domain import Domain
    from sdgbench.launch.progress import LineReporter
    from sdgbench.method import MethodContext
    from sdgbench.spec.resolution import resolve
    from sdgbench.training.device import Device, keep_freed_memory
    from sdgbench.training.pool import Pool
    from sdgbench.training.trainer import Trainer

    keep_freed_memory()  # as every run does
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (images, 3, 32, 32), dtype=np.uint8)
    domain = Domain("cifar10", pixels, rng.integers(0, 10, images).astype(np.uint8))
    spec = resolve("mada", "cifar10c", "paper", 0, [("T_adv", "0"), ("wae_steps", "20")])
    recipe = replace(spec.build_recipe(), epochs=0, steps=steps, validations=1)
    task = registry.get("dataset", "cifar10c").load().task
    with tempfile.TemporaryDirectory() as name:
        pool = Pool(Path(name) / "pool", (3, 32, 32), ())
        method = spec.method_class(
            MethodContext(spec.build_params(), task, recipe, Device("cpu"), 0, images, pool)
        )
        # On a class of its own: functions among a method's attributes could not be saved.
        still = {"objective": lambda self, x, y: None}
        method.__class__ = type("MADA", (type(method),), still)
        from rich.console import Console

        told = LineReporter(Console(stderr=True), "memory", interval=60)
        Trainer(method, domain, domain.subsample(1000), Path(name), "memory", told).run()
        print(len(pool), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def test_mada_on_cifar10_fits_into_memory(benchmark):
    done = benchmark.pedantic(
        lambda: subprocess.run(
            [sys.executable, __file__], check=True, stdout=subprocess.PIPE, text=True
        ),
        rounds=1,
    )
    made, peak = (int(word) for word in done.stdout.split())
    print(f"\n{made:,} augmented images, peak {peak / 2**30:.2f} GB")
    benchmark.extra_info["peak_bytes"] = peak
    assert made > 90_000
    assert peak < LIMIT


if __name__ == "__main__":
    run(*(int(word) for word in sys.argv[1:] or ("50000", "12")))
