"""All corruptions of one set of images as files, made on all cores."""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from sdgbench import storage
from sdgbench.corruptions.generator import corrupt
from sdgbench.corruptions.names import ALL_19, SEVERITIES
from sdgbench.reporter import Reporter

CLEAN = "clean.npy"


def generate(folder: Path, images: np.ndarray, reporter: Reporter) -> None:
    """Write what is missing of NAME.npy for each corruption: (5 N, 3, H, W), severity by severity.

    ``images`` are the clean ones, uint8 (N, 3, H, W).
    """
    todo = [name for name in ALL_19 if not path(folder, name).exists()]
    if not todo:
        return
    with storage.locked(folder, wait=24 * 3600):
        storage.write_atomic(folder / CLEAN, partial(np.save, arr=np.ascontiguousarray(images)))
        reporter.begin("corrupt", len(ALL_19), len(ALL_19) - len(todo))
        _generate(folder, todo, reporter)
        reporter.end()


def path(folder: Path, name: str) -> Path:
    """The file of a corruption."""
    return folder / f"{name}.npy"


def _generate(folder: Path, names: Sequence[str], reporter: Reporter) -> None:
    workers = min(len(names), len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_write, folder, name) for name in names]
        for done, job in enumerate(as_completed(jobs), len(ALL_19) - len(names) + 1):
            job.result()
            reporter.update(done, None, 0.0)


def _write(folder: Path, name: str) -> None:
    clean = np.ascontiguousarray(np.load(folder / CLEAN).transpose(0, 2, 3, 1))
    blocks = np.concatenate([corrupt(clean, name, severity) for severity in SEVERITIES])
    stacked = np.ascontiguousarray(blocks.transpose(0, 3, 1, 2))
    storage.write_atomic(path(folder, name), partial(np.save, arr=stacked))
