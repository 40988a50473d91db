"""Trains on the toy domain in one of several processes, or alone: what the tests compare.

``python distributed_cases.py CASES FOLDER``; RANK and WORLD_SIZE say which process it is.
"""

import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist
from helpers import RECIPE, make, trainer

from sdgbench import registry
from sdgbench.training import checkpoint, distributed
from sdgbench.training.device import Device
from sdgbench.training.sync_batch_norm import sync_batch_norm

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
THREE = ("odd", "norm", "ccsa")  # also trained by three processes
HANG_SECONDS = 2


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


def count_messages(folder: Path) -> dict[str, list[int]]:
    """The numbers of gathers and sums of one step that is divided, and of one that is not."""
    method = make(registry.get("method", "erm").load(), folder, CASES["randconv"][1])
    sync_batch_norm(method.network)
    counts = {}
    for name, shard in (("divided", distributed.shard_of(8)), ("whole", None)):
        with (
            patch.object(dist, "all_gather", wraps=dist.all_gather) as gathers,
            patch.object(dist, "all_reduce", wraps=dist.all_reduce) as sums,
            distributed.shard_scope(shard),
        ):
            method.train_step(torch.rand(4, 3, 32, 32), torch.zeros(4, dtype=torch.long))
        counts[name] = [gathers.call_count, sums.call_count]
    return counts


def hang() -> str:
    """The second process does not take part for a while; the message that others get."""
    timeout = timedelta(seconds=HANG_SECONDS)
    distributed._process_group.step_group = dist.new_group(timeout=timeout)
    with patch.object(distributed, "REPORT_SECONDS", 1.0):
        if distributed.rank() == 1:
            time.sleep(HANG_SECONDS + 3)
            return ""
        try:
            distributed.sum_in_place(torch.ones(1))
        except distributed.NotAnsweringError as error:
            return str(error)
    return "nobody noticed"


def note(folder: Path, **values) -> None:
    """Add values to what this process keeps of a case."""
    file = folder / f"{distributed.rank()}.pt"
    torch.save({**torch.load(file, weights_only=True), **values}, file)


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
        if distributed.size() == 2:
            if "randconv" in cases:
                place = Path(folder) / "randconv"
                note(place, messages=count_messages(Path(folder) / "messages"))
            note(Path(folder) / "erm", hang=hang())


if __name__ == "__main__":
    main(*sys.argv[1:])
