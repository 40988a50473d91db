"""Damaged files of an interrupted run: noticed, named, and the weights come out the same."""

import random

import numpy as np
import pytest
import torch
from helpers import Everything, assert_same_weights, make, trainer, weights

from sdgbench.errors import Damaged, Interrupted
from sdgbench.reporter import Silent
from sdgbench.training import checkpoint

CPU = torch.device("cpu")


class Notes(Silent):
    def __init__(self):
        self.texts = []

    def note(self, text):
        self.texts.append(text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    method = make(Everything, folder)
    trainer(method, folder).run()
    return weights(method)


@pytest.fixture
def stopped(tmp_path):
    """A run that was stopped after its pool had grown, with two checkpoints."""
    folder = tmp_path / "run"
    steps = iter(range(1000))
    halted = trainer(
        make(Everything, folder),
        folder,
        checkpoint_seconds=0,
        should_stop=lambda: next(steps) == 11,
    )
    with pytest.raises(Interrupted):
        halted.run()
    assert (folder / "checkpoint.pt").exists()
    assert (folder / "checkpoint.earlier.pt").exists()
    assert (folder / "pool/images.f32").stat().st_size
    return folder


def go_on(folder):
    notes, method = Notes(), make(Everything, folder)
    trainer(method, folder, reporter=notes).run()
    return weights(method), " ".join(notes.texts)


def test_files_that_a_method_opened_are_kept_over_a_resume(tmp_path):
    folder, steps = tmp_path / "run", iter(range(1000))
    first = trainer(make(Everything, folder), folder, should_stop=lambda: next(steps) == 5)
    first.opened_files = lambda: ["svhn.npy"]
    with pytest.raises(Interrupted):
        first.run()
    second = trainer(make(Everything, folder), folder)
    second.opened_files = lambda: ["usps.npy", "svhn.npy"]
    assert second.run().opened_data == ["svhn.npy", "usps.npy"]


def flip(path, seed):
    data, rng = bytearray(path.read_bytes()), random.Random(seed)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(6))
def test_a_flipped_bit_in_a_checkpoint_goes_back_to_the_earlier_one(seed, stopped, whole):
    flip(stopped / "checkpoint.pt", seed)
    result, notes = go_on(stopped)
    assert "checkpoint.pt is damaged" in notes
    assert "going on from its checkpoint" in notes
    assert_same_weights(whole, result)


@pytest.mark.parametrize("name", ["pool/images.f32", "pool/labels.u8", "train.jsonl"])
def test_a_flipped_bit_in_the_pool_or_curve_starts_again(name, stopped, whole):
    data = bytearray((stopped / name).read_bytes())
    data[1] ^= 4
    (stopped / name).write_bytes(data)
    result, notes = go_on(stopped)
    assert f"{name.split('/')[-1]} is damaged: its sha256 differs" in notes
    assert "starts again" in notes
    assert_same_weights(whole, result)


@pytest.mark.parametrize("name", ["pool/images.f32", "pool/labels.u8", "train.jsonl"])
@pytest.mark.parametrize("damage", ["short", "gone", "empty"])
def test_a_short_or_lost_file_is_named(name, damage, stopped, whole):
    path = stopped / name
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data[:5] if damage == "short" else b"")
    result, notes = go_on(stopped)
    assert path.name in notes
    assert_same_weights(whole, result)
    assert b"\0" not in (stopped / "train.jsonl").read_bytes()


def test_only_the_earlier_checkpoint_is_enough(stopped, whole):
    """A crash between the two renames leaves this."""
    (stopped / "checkpoint.pt").unlink()
    result, notes = go_on(stopped)
    assert "going on" in notes
    assert_same_weights(whole, result)


def test_two_damaged_checkpoints_start_again(stopped, whole):
    flip(stopped / "checkpoint.pt", 0)
    flip(stopped / "checkpoint.earlier.pt", 1)
    result, notes = go_on(stopped)
    assert "no checkpoint is whole, so the run starts again" in notes
    assert_same_weights(whole, result)


def test_a_checkpoint_without_a_hash_is_checked_by_its_crcs(stopped, whole):
    """As sdgbench wrote them before."""
    state = torch.load(stopped / "checkpoint.pt", weights_only=True)
    del state["position"]["curve_sha256"], state["pool"]["sha256"]
    torch.save(state, stopped / "checkpoint.pt")
    data = bytearray((stopped / "checkpoint.pt").read_bytes())
    position = data.find(np.float32(state["method"]["running"][0]).tobytes())
    assert position > 0
    intact = bytes(data)
    data[position] ^= 1
    (stopped / "checkpoint.pt").write_bytes(data)
    with pytest.raises(Damaged):
        checkpoint.load(stopped / "checkpoint.pt", CPU)
    (stopped / "checkpoint.pt").write_bytes(intact)
    result, notes = go_on(stopped)
    assert "damaged" not in notes
    assert_same_weights(whole, result)


def changed(**values):
    def change(state):
        for key, value in values.items():
            where = state
            *parents, last = key.split("__")
            for parent in parents:
                where = where[parent]
            if value is ...:
                del where[last]
            else:
                where[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        changed(method={}),
        changed(method=[]),
        changed(method__network={}),
        changed(method__network="x"),
        changed(method__critic_optimizer={}),
        changed(feeds="x"),
        changed(feeds={"train/0": {}}),
        changed(feeds={"train/0": {"epoch": "x", "offset": 0, "size": 1}}),
        changed(position__phase=-1),
        changed(position__phase=99),
        changed(position__phase="0"),
        changed(position__step=10**9),
        changed(position__curve_bytes=-5),
        changed(position__curve_bytes=10**12),
        changed(position__seconds=None),
        changed(position__best={}),
        changed(position__best={"step": 1, "score": 0.5, "weights": {}}),
        changed(position__loss_sum="x"),
        changed(position__unheard_of=1),
        changed(position=...),
        changed(position=7),
        changed(pool=...),
        changed(pool={}),
        changed(pool__count=10**9),
        changed(pool__count=-1),
        changed(pool__domains=[[1]]),
        changed(pool__origins=torch.zeros(3)),
        changed(pool__sha256=["x"]),
    ],
)
def test_a_state_that_cannot_be_one_is_not_used(change, stopped, whole):
    state = torch.load(stopped / "checkpoint.pt", weights_only=True)
    change(state)
    before = (stopped / "checkpoint.earlier.pt").read_bytes()
    checkpoint.save(stopped / "checkpoint.pt", {k: v for k, v in state.items() if k != "format"})
    (stopped / "checkpoint.earlier.pt").write_bytes(before)
    result, notes = go_on(stopped)
    assert "it is not used" in notes
    assert_same_weights(whole, result)
