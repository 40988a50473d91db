"""Trains on the toy domain in one of several processes, or alone: what the tests compare.

``python distributed_cases.py CASES FOLDER``; RANK and WORLD_SIZE say which process it is.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch
from helpers import RECIPE, make, trainer

from sdgbench import registry
from sdgbench.training import checkpoint, distributed
from sdgbench.training.device import Device

SGD = replace(RECIPE, optimiser="sgd", lr=0.02, momentum=0.9, steps=6, validations=1)
FEW = {"K": 2, "T_min": 2, "T_adv": 3, "wae_epochs": 1, "max_batches": 1, "ascent_batch": 7}
CASES = {  # method, recipe, parameters
    "erm": ("erm", replace(SGD, network="convnet-8", augment="crop-flip"), {}),
    "odd": ("erm", replace(SGD, network="convnet-8", batch=33), {}),
    "mada": ("mada", replace(SGD, network="convnet-8", batch=9), FEW),
    "leak": ("mada", replace(SGD, network="convnet-8", batch=9), {**FEW, "wae_leak": True}),
    "norm": (
        "mada",
        replace(SGD, network="wrn-10-1", lr=1e-4, steps=3),
        {**FEW, "wae": "cifar", "wae_lr": 1e-5},
    ),
    "ccsa": ("ccsa", replace(SGD, network="convnet-2"), {}),
    "randconv": ("randconv", replace(SGD, network="wrn-10-1", lr=1e-4, steps=3), {}),
    "pro-randconv": ("pro-randconv", replace(SGD, network="convnet-2", batch=9), {}),
    "trivialaugment": ("trivialaugment", replace(SGD, network="convnet-2", batch=9), {}),
    "augmix": ("augmix", replace(SGD, network="convnet-2", batch=9), {}),
    "ensemble": (
        "gud-ensemble",
        SGD,
        {"K": 1, "T_min": 2, "T_adv": 2, "members": 2, "max_batches": 1, "ascent_batch": 7},
    ),
}


def train(case: str, folder: Path) -> None:
    """Keep all modules' weights, the pool, the curve and the counts."""
    name, recipe, changes = CASES[case]
    cls = registry.get("method", name).load()
    method = make(cls, folder, recipe, params=replace(cls.Params(), **changes))
    sizes = []
    for step in ("train_step", "generate_step", "wae_step"):
        if hasattr(method, step):
            spy(method, step, sizes)
    position = trainer(method, folder).run()
    pool = method.pool.gather(range(len(method.pool))) if len(method.pool) else ()
    torch.save(
        {
            "weights": checkpoint.copy_weights(method),
            "pool": pool,
            "sizes": sizes,
            "forward": position.images_forward,
            "gradient": position.images_with_gradient,
            "score": position.last_score,
        },
        folder / f"{distributed.rank()}.pt",
    )


def spy(method, step: str, sizes: list) -> None:
    plain = getattr(method, step)
    changed = {step: lambda self, *batch: (sizes.append((step, len(batch[0]))), plain(*batch))[1]}
    method.__class__ = type(type(method).__name__, (type(method),), changed)


def main(cases: str, folder: str) -> None:
    """Train each case in its own folder."""
    torch.set_num_threads(1)
    with distributed.joined("cpu") as name:
        assert Device(name).kind == "cpu"
        for case in cases.split(","):
            train(case, Path(folder) / case)
        votes = distributed.AnyRank(lambda: distributed.rank() == 1)
        answers = [votes() for _ in range(3)]
        assert answers == ([False, True, True] if distributed.size() > 1 else [False] * 3)


if __name__ == "__main__":
    main(*sys.argv[1:])
