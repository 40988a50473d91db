"""Losing the machine at any moment: the old file or the new one, and a run that resumes."""

import errno
import os

import pytest
import torch
from crash_model import recording
from fuzz.counts import count
from helpers import Everything, assert_same_weights, make, trainer, weights

from sdgbench import storage
from sdgbench.errors import UserError


def test_after_a_crash_there_is_the_old_file_or_the_new_one(tmp_path):
    path = tmp_path / "runs" / "record.json"
    path.parent.mkdir()
    storage.write_json(path, {"is": "old"})
    old = path.read_bytes()
    with recording(path.parent) as recorder:
        recorder.names, recorder.flushed = {path.name: path.stat().st_ino}, {}
        recorder.flushed[path.stat().st_ino] = old
        storage.write_json(path, {"is": "new"})
    new = path.read_bytes()
    assert recorder.points >= 6
    found = {state.files[path.name] for state in recorder.states}
    assert found == {old, new}
    assert recorder.states[-1].files[path.name] == new
    on_disk = recorder.flushed[recorder.names[path.name]]
    assert on_disk == new, "when the call returns, the file must be on disk"


def test_without_fsync_the_model_finds_a_lost_file(tmp_path, monkeypatch):
    """The model must be able to fail: an unflushed rename leaves an empty file."""
    path = tmp_path / "runs" / "record.json"
    path.parent.mkdir()
    with recording(path.parent) as recorder:
        storage.write_json(path, {"is": "new"}, durable=False)
    assert b"" in {state.files.get(path.name) for state in recorder.states}


def test_a_run_resumes_bit_for_bit_from_every_crash_point(tmp_path):
    whole = make(Everything, tmp_path / "whole")
    trainer(whole, tmp_path / "whole").run()
    folder = tmp_path / "run"
    with recording(folder) as recorder:
        trainer(make(Everything, folder), folder, checkpoint_seconds=0).run()
    assert recorder.points > 100
    step = max(1, len(recorder.states) // int(os.environ.get("SDGBENCH_CRASH_STATES", "12")))
    first = int(os.environ.get("SDGBENCH_FUZZ_SEED", "0")) % step  # others in each turn of a soak
    for number, state in enumerate(recorder.states[first::step]):
        again = tmp_path / f"again{number}"
        state.write_to(again)
        method = make(Everything, again)
        trainer(method, again).run()
        assert_same_weights(weights(whole), weights(method))
        curve = (again / "train.jsonl").read_text().splitlines()
        assert len(curve) == len((tmp_path / "whole/train.jsonl").read_text().splitlines())
        assert torch.equal(method.running, whole.running), (state.event, state.kind)
        count("crash states", 1)
    count("crash points", recorder.points)


@pytest.mark.parametrize("moment", range(6))
def test_a_full_disk_at_any_moment_leaves_the_old_file(moment, tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    storage.write_json(path, {"is": "old"})
    calls = iter(range(100))

    def full(original):
        def call(*arguments, **options):
            if next(calls) == moment:
                raise OSError(errno.ENOSPC, "No space left on device")
            return original(*arguments, **options)

        return call

    for name in ("fsync", "replace", "open"):
        monkeypatch.setattr(os, name, full(getattr(os, name)))
    outcome = None
    try:
        storage.write_json(path, {"is": "new"})
    except UserError as error:
        outcome = str(error)
    monkeypatch.undo()
    assert outcome is None or "No space is left" in outcome
    assert storage.read_json(path) in ({"is": "old"}, {"is": "new"})
    assert [file.name for file in tmp_path.iterdir()] == ["record.json"]


# Links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["train.jsonl", "pool/images.f32", "pool/labels.u8", "pool"])
def test_links_in_a_foreign_run_folder_are_not_followed(name, tmp_path):
    target = tmp_path / "precious"
    folder = tmp_path / "run"
    (folder / "pool").mkdir(parents=True)
    if name == "pool":
        (folder / "pool").rmdir()
        target.mkdir()
        (target / "images.f32").write_bytes(b"keep me")
    else:
        target.write_bytes(b"keep me")
    (folder / name).symlink_to(target)
    with pytest.raises(UserError, match="link|Too many levels"):
        trainer(make(Everything, folder), folder).run()
    kept = target / "images.f32" if name == "pool" else target
    assert kept.read_bytes() == b"keep me"


@pytest.mark.parametrize("name", ["lock", "owner"])
def test_locking_waits_for_no_pipe(name, tmp_path):
    """Whoever writes to a pipe without a reader would wait for ever."""
    os.mkfifo(tmp_path / name)
    if name == "lock":
        with pytest.raises(UserError, match="lock is not a regular file"):
            storage.locked(tmp_path).__enter__()
    else:
        with storage.locked(tmp_path):
            assert storage.is_locked(tmp_path)


@pytest.mark.parametrize("name", ["lock", "owner", "."])
def test_locking_follows_no_link(name, tmp_path):
    (tmp_path / "precious").write_bytes(b"keep me")
    folder = tmp_path / "run"
    if name == ".":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir()
        (folder / name).symlink_to(tmp_path / "precious")
    with pytest.raises(UserError, match="is a link"), storage.locked(folder):
        pass
    assert (tmp_path / "precious").read_bytes() == b"keep me"
    assert not storage.is_locked(folder)
