"""Files that are either whole or not there, and locks that die with their owner."""

import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from sdgbench.errors import UserError, explain_os_errors


def write_atomic(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let ``write`` fill a temporary neighbour of ``path``, flush it to disk, rename it."""
    with explain_os_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            Path(name).chmod(0o666 & ~umask)  # mkstemp makes private files; runs are often shared
            Path(name).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise


def write_json(path: Path, value: Any) -> None:
    """Write a value as readable JSON, atomically. NaN is refused: it is not JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomic(path, lambda file: file.write(text.encode()))


def read_json(path: Path) -> Any:
    """Read JSON; a file that is not whole is named."""
    with explain_os_errors("read", path):
        data = path.read_bytes()
    try:
        return json.loads(data)
    except ValueError as error:
        raise UserError(f"{path} is damaged or half-written ({error}). Delete it.") from error


def sha256(path: Path) -> str:
    """Return the hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sweep_temporaries(folder: Path) -> None:
    """Delete what killed writers left behind. Only the owner of the folder's lock may call it."""
    for leftover in folder.glob(".*.tmp"):
        with suppress(OSError):
            leftover.unlink()


@contextmanager
def owned(folder: Path, wait: float = 0) -> Iterator[None]:
    """Hold the folder's lock, waiting up to ``wait`` seconds, or say who does.

    The lock is the kernel's (flock): it vanishes with its owner, however that died, so a dead
    owner's lock is simply free. The file ``owner`` only tells people who holds it.
    """
    with explain_os_errors("create", folder):
        folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock", timeout=wait)
    with explain_os_errors("lock", folder):
        try:
            lock.acquire()
        except Timeout:
            raise UserError(f"{folder} is in use by {_owner(folder)}. Wait or stop it.") from None
    try:
        with suppress(OSError):  # who holds it is a courtesy, not worth failing for
            (folder / "owner").write_text(f"{socket.gethostname()} pid {os.getpid()}\n")
        yield
    finally:
        lock.release()


def _owner(folder: Path) -> str:
    with suppress(OSError):
        return (folder / "owner").read_text().strip() or "another process"
    return "another process"


def is_owned(folder: Path) -> bool:
    """Say whether a live process holds the folder's lock."""
    if not (folder / "lock").exists():
        return False
    try:
        with FileLock(folder / "lock", timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False
