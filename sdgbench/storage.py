"""Files that are either whole or not there, and locks that die with their owner."""

import hashlib
import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from sdgbench.errors import UserError, explain_os_errors

GLANCE = 0.5  # seconds; is_owned holds a free lock for an instant, which must turn nobody away


def write_atomic(path: Path, write: Callable[[IO[bytes]], object], *, durable: bool = True) -> None:
    """Let ``write`` fill a temporary neighbour of ``path``, flush it to disk, rename it.

    Without ``durable`` a power cut may lose it, but nobody waits for the disk.
    """
    with explain_os_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        try:
            with temporary.open("xb") as file:
                write(file)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Write a value as readable JSON, atomically. NaN is refused: it is not JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomic(path, lambda file: file.write(text.encode()), durable=durable)


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
    lock = FileLock(folder / "lock", timeout=max(wait, GLANCE))
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
