"""Every reader on mutated files: a result or one of the errors that it names, and nothing else.

SDGBENCH_FUZZ sets the number of mutations of each file (make soak raises it).
"""

import bz2
import gzip
import io
import json
import os
import pickle
import random
import shutil
import tarfile

import numpy as np
import pytest
import torch
from fuzz.counts import count
from fuzz.mutations import mutate
from helpers import Everything, trainer
from helpers import make as make_method
from leaderboard.test_few_shot import adaptation
from PIL import Image
from sample_records import make as make_record
from scipy.io import savemat

from sdgbench.data import decoding, readers
from sdgbench.data.archives import unpack
from sdgbench.data.obtain_splits import import_splits
from sdgbench.data.splits import SplitStore
from sdgbench.datasets.cifar10c import Cifar10C
from sdgbench.datasets.digits import Digits
from sdgbench.errors import Interrupted, UserError
from sdgbench.launch.slurm.queue import job_of
from sdgbench.launch.status import run_statuses
from sdgbench.leaderboard.runs import load
from sdgbench.networks import weights
from sdgbench.records import adaptations, arrays, curve, reading
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


PROGRESS = {
    "phase": "train", "done": 1, "total": 2, "loss": 0.5, "rate": 1.0, "seconds_left": 5,
    "time": "2026-01-01T00:00:00+00:00", "host": "x", "pid": 4,
}  # fmt: skip
FOREIGN = Exception  # import_split reports whatever a reader of a foreign format raises


def predictions(folder):
    found = {"last/a": np.arange(9) % 3, "val/a": np.zeros(9, np.int64)}
    arrays.write_arrays(folder / "p.npz", found)
    return (folder / "p.npz").read_bytes()


def libsvm():
    line = "1 " + " ".join(f"{n}:0.5" for n in range(1, 257))
    return bz2.compress(f"{line}\n{line}\n".encode())


def exported(folder):
    torch.save({"state_dict": {"a.weight": torch.zeros(3, 3)}}, folder / "w.pt")
    return (folder / "w.pt").read_bytes()


CASES = {
    "record": (
        lambda f: json.dumps(make_record("erm")).encode(),
        reading.read,
        UserError,
    ),
    "checkpoint": (state, lambda p: checkpoint.load(p, CPU), UserError),
    "predictions": (predictions, arrays.read_arrays, ()),
    "adaptation": (
        lambda f: json.dumps(adaptation(make_record("erm"), 7, 0, 0.5)).encode(),
        adaptations.read,
        UserError,
    ),
    "curve": (
        lambda f: b'{"phase": 0, "name": "train", "step": 4, "loss": 0.5}\n' * 3,
        lambda p: (p.replace(p.with_name("train.jsonl")), curve.read_points(p.parent)),
        (),
    ),
    "job": (
        lambda f: b'{"job": "7", "launcher": "slurm", "time": "x"}',
        lambda p: (p.replace(p.with_name("queued.json")), job_of(p.parent)),
        (),
    ),
    "weights": (exported, lambda p: weights.read(p.rename(p.with_suffix(".pt"))), UserError),
    "libsvm": (lambda f: libsvm(), readers.read_libsvm, FOREIGN),
    "text": (
        lambda f: gzip.compress(b"1 " + b"0.5 " * 256 + b"\n"),
        readers.read_zip_text,
        FOREIGN,
    ),
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
    count(f"mutations ({name})", COUNT)


def test_a_mutated_file_of_a_runs_folder_stops_no_command(tmp_path):
    rng = random.Random(SEED)
    folder = tmp_path / "runs" / "digits-mini" / "erm" / "0123456789ab"
    folder.mkdir(parents=True)
    contents = {
        "record.json": json.dumps(make_record("erm")).encode(),
        "progress.json": json.dumps(PROGRESS).encode(),
        "failed.json": b'{"error": "x", "message": "y"}',
        "spec.json": json.dumps(make_record("erm")["spec"]).encode(),
        "queued.json": b'{"job": "7"}',
    }
    for _ in range(COUNT):
        for name, content in contents.items():
            (folder / name).write_bytes(mutate(content, rng))
        load([tmp_path / "runs"])
        if rng.random() < 0.7:
            (folder / "record.json").unlink()
        run_statuses(tmp_path / "runs")
    count("mutations (files of a run)", COUNT * len(contents))


@pytest.mark.parametrize("name", ["part.json", "images.npy", "labels.npy"])
def test_a_mutated_part_is_named(name, tmp_path):
    rng, store = random.Random(f"{name} {SEED}"), SplitStore(tmp_path)
    split = (np.zeros((4, 8, 8, 3), np.uint8), np.arange(4))
    path = store.save("x", split, "verified", "y").folder / name
    original = path.read_bytes()
    for _ in range(COUNT):
        path.write_bytes(mutate(original, rng))
        try:
            images, labels = store.get("x").load()
        except UserError:
            continue
        assert len(images) == len(labels) == 4
        assert images.dtype == np.uint8
        assert labels.dtype.kind in "iu"
    count(f"mutations ({name} of a part)", COUNT)


@pytest.mark.parametrize(
    ("dataset", "name", "make"),
    [
        (Digits, "test_32x32.mat", mat),
        (Digits, "t10k-images-idx3-ubyte.gz", lambda f: gzip.compress(b"\0\0\x08\1\0\0\0\2ab")),
        (Cifar10C, "data_batch_1", lambda f: batch()),
        (Cifar10C, "fog.npy", lambda f: saved(np.save, np.zeros((2, 32, 32, 3), np.uint8))),
    ],
)
def test_a_mutated_file_is_imported_or_named(dataset, name, make, tmp_path):
    rng, folder = random.Random(f"{name} {SEED}"), tmp_path / "files"
    folder.mkdir()
    np.save(folder / "labels.npy", np.zeros(2, np.int64))
    original = make(tmp_path)
    tries = max(1, COUNT // 10)
    for _ in range(tries):
        (folder / name).write_bytes(mutate(original, rng))
        outcomes = list(import_splits(dataset, folder, tmp_path / "data", trust=True))
        assert len(outcomes) == len(dataset.splits)
        assert all(outcome.stored is None for outcome in outcomes)  # none has all of its images
    count(f"mutations ({name} to import)", tries)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped after its pool had grown, and its state."""
    folder, steps = tmp_path_factory.mktemp("stopped") / "run", iter(range(1000))
    method = make_method(Everything, folder)
    with pytest.raises(Interrupted):
        trainer(method, folder, checkpoint_seconds=0, should_stop=lambda: next(steps) == 11).run()
    return folder


def restored(folder):
    """What a run that goes on would use."""
    method = make_method(Everything, folder)
    runner = trainer(method, folder)
    runner._restore()
    points = (folder / "train.jsonl").read_bytes() if (folder / "train.jsonl").exists() else b""
    images = [array.tobytes() for array in method.pool._arrays()] if len(method.pool) else []
    return runner.position.phase, runner.position.step, method.running.tolist(), images, points


@pytest.mark.parametrize(
    "name", ["pool/images.f32", "pool/labels.u8", "train.jsonl", "checkpoint.pt"]
)
def test_a_run_goes_on_from_a_good_state_or_starts_again(name, stopped, tmp_path):
    rng, folder = random.Random(f"{name} {SEED}"), tmp_path / "run"
    states = []
    for path in ("checkpoint.pt", "checkpoint.earlier.pt"):  # the last state, or the one before
        shutil.copytree(stopped, folder)
        shutil.copy(stopped / path, folder / "checkpoint.pt")
        states.append(restored(folder))
        shutil.rmtree(folder)
    states.append((0, 0, [0.0] * 10, [], b""))  # it starts again
    tries = max(1, COUNT // 10)
    for _ in range(tries):
        shutil.copytree(stopped, folder)
        (folder / name).write_bytes(mutate((stopped / name).read_bytes(), rng))
        assert restored(folder) in states
        shutil.rmtree(folder)
    count(f"mutations ({name} of a run)", tries)
