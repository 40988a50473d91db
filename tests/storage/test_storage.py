import json
import os
import signal
import subprocess
import sys
import time

import pytest

from sdgbench import storage
from sdgbench.errors import UserError


def test_a_failing_writer_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file.json"
    storage.write_json(path, {"a": 1})

    def fail(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        storage.write_atomic(path, fail)
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["file.json"]


def test_nan_is_not_json(tmp_path):
    with pytest.raises(ValueError, match="Out of range float"):
        storage.write_json(tmp_path / "x.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())


def test_a_half_written_json_is_named(tmp_path):
    (tmp_path / "x.json").write_text('{"a": 1, "b"')
    with pytest.raises(UserError, match=r"x\.json is damaged or half-written"):
        storage.read_json(tmp_path / "x.json")


def test_a_file_where_a_folder_is_needed(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(UserError, match="There is a file where a folder is needed"):
        storage.write_json(tmp_path / "runs" / "x.json", {})


def test_files_are_readable_by_others_as_the_umask_says(tmp_path):
    before = os.umask(0o022)
    try:
        storage.write_json(tmp_path / "x.json", {})
    finally:
        os.umask(before)
    assert (tmp_path / "x.json").stat().st_mode & 0o777 == 0o644


def test_leftovers_are_swept(tmp_path):
    (tmp_path / ".record.json.abc.tmp").write_text("half")
    (tmp_path / "record.json").write_text("{}")
    storage.sweep_temporaries(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["record.json"]


HOLDER = """
import sys, time
from pathlib import Path
from sdgbench.storage import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_two_processes_never_own_one_folder(holder, tmp_path):
    assert storage.is_locked(tmp_path / "run")
    refusal = pytest.raises(UserError, match=f"is in use by .* pid {holder.pid}")
    with refusal, storage.locked(tmp_path / "run"):
        pass


def test_a_dead_owners_lock_is_free(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert not storage.is_locked(tmp_path / "run")
    with storage.locked(tmp_path / "run"):
        assert f"pid {os.getpid()}" in (tmp_path / "run" / "owner").read_text()


def test_one_can_wait_for_a_lock(holder, tmp_path):
    began = time.monotonic()
    with pytest.raises(UserError), storage.locked(tmp_path / "run", wait=0.3):
        pass
    assert time.monotonic() - began >= 0.29
    holder.kill()
    with storage.locked(tmp_path / "run", wait=240):
        pass
