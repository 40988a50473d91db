"""Every reader on mutated files: a result or one of the errors that it names, and nothing else.

SDGBENCH_FUZZ sets the number of mutations of each file (make soak raises it).
"""

import gzip
import io
import json
import os
import pickle
import random
import tarfile

import numpy as np
import pytest
import torch
from fuzz.mutations import mutate
from PIL import Image
from sample_records import make as make_record
from scipy.io import savemat

from sdgbench.data import decoding, readers
from sdgbench.data.archives import unpack
from sdgbench.data.splits import SplitStore
from sdgbench.errors import UserError
from sdgbench.launch.status import run_statuses
from sdgbench.leaderboard.runs import load
from sdgbench.records import adaptations, arrays, reading
from sdgbench.training import checkpoint

COUNT = int(os.environ.get("SDGBENCH_FUZZ", "150"))
SEED = os.environ.get("SDGBENCH_FUZZ_SEED", "0")
CPU = torch.device("cpu")


def saved(save, *arguments):
    buffer = io.BytesIO()
    save(buffer, *arguments)
    return buffer.getvalue()


def batch():
    rows = np.zeros((2, 3072), np.uint8)
    return pickle.dumps({b"data": rows, b"labels": [1, 2]}, 2)


def tar():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("a/b")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    return buffer.getvalue()


def state(folder):
    checkpoint.save(folder / "c.pt", {"run": "x", "weights": torch.arange(50.0)})
    return (folder / "c.pt").read_bytes()


def png(folder):
    Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(folder / "i.png")
    return (folder / "i.png").read_bytes()


def mat(folder):
    savemat(folder / "m.mat", {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.ones((2, 1))})
    return (folder / "m.mat").read_bytes()


PART = {"name": "x", "count": 1, "state": "verified", "origin": "y", "sha256": "z"}
PROGRESS = {
    "phase": "train", "done": 1, "total": 2, "loss": 0.5, "rate": 1.0, "seconds_left": 5,
    "time": "2026-01-01T00:00:00+00:00", "host": "x", "pid": 4,
}  # fmt: skip
FOREIGN = Exception  # import_split reports whatever a reader of a foreign format raises
CASES = {
    "record": (
        lambda f: json.dumps(make_record("erm")).encode(),
        reading.read,
        UserError,
    ),
    "checkpoint": (state, lambda p: checkpoint.load(p, CPU), UserError),
    "arrays": (lambda f: saved(np.savez_compressed, np.zeros(9)), arrays.read_arrays, ()),
    "adaptation": (lambda f: b'{"kind": "adaptation", "schema": 1}', adaptations.read, UserError),
    "pickle": (lambda f: batch(), readers.read_cifar_batch, (ValueError, OSError)),
    "image": (png, decoding.read_rgb, ValueError),
    "archive": (lambda f: tar(), lambda p: unpack(p, p.parent / "unpacked"), UserError),
    "mat": (mat, readers.read_mat, FOREIGN),
    "idx": (lambda f: gzip.compress(b"\0\0\x08\1\0\0\0\2ab"), readers.read_idx, FOREIGN),
    "npy": (lambda f: saved(np.save, np.zeros(9)), readers.read_npy, FOREIGN),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mutated_file_is_read_or_named(name, tmp_path):
    make, read, expected = CASES[name]
    original, rng, path = make(tmp_path), random.Random(f"{name} {SEED}"), tmp_path / "file"
    for number in range(COUNT):
        damaged = mutate(original, rng)
        path.write_bytes(damaged)
        try:
            result = read(path)
        except expected:
            continue
        if name == "checkpoint" and damaged != original:
            assert torch.equal(result["weights"], torch.arange(50.0)), number


def test_a_mutated_file_of_a_runs_folder_stops_no_command(tmp_path):
    rng = random.Random(SEED)
    folder = tmp_path / "runs" / "digits-mini" / "erm" / "0123456789ab"
    folder.mkdir(parents=True)
    contents = {
        "record.json": json.dumps(make_record("erm")).encode(),
        "progress.json": json.dumps(PROGRESS).encode(),
        "failed.json": b'{"error": "x", "message": "y"}',
        "spec.json": json.dumps(make_record("erm")["spec"]).encode(),
    }
    for _ in range(COUNT):
        for name, content in contents.items():
            (folder / name).write_bytes(mutate(content, rng))
        load([tmp_path / "runs"])
        if rng.random() < 0.7:
            (folder / "record.json").unlink()
        run_statuses(tmp_path / "runs")


def test_a_mutated_part_is_named(tmp_path):
    rng, path = random.Random(SEED), tmp_path / "parts" / "x" / "part.json"
    path.parent.mkdir(parents=True)
    for _ in range(COUNT):
        path.write_bytes(mutate(json.dumps(PART).encode(), rng))
        try:
            SplitStore(tmp_path).get("x")
        except UserError:
            continue
