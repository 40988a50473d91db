"""Locks of folders, which the kernel frees when their owner dies."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from sdgbench.errors import UserError, explain_os_errors
from sdgbench.storage.files import open_regular, overwrite, read_bytes, refuse_link

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# How long to wait at least: is_locked holds a free lock for an instant, and a process that wants
# to own the folder must not fail because of that.
LOCK_PROBE_SECONDS = 0.5


@contextmanager
def locked(folder: Path, wait: float = 0) -> Iterator[None]:
    """Hold the folder's lock, waiting up to ``wait`` seconds; a UserError names another owner.

    The lock is the kernel's (flock): it vanishes with its owner, however that died, so a dead
    owner's lock is simply free. The file ``owner`` only names the owner in messages.
    """
    with explain_os_errors("create", folder):
        folder.mkdir(parents=True, exist_ok=True)
    for path in (folder, folder / "lock", folder / "owner"):
        refuse_link(path)
    if (folder / "lock").exists() and not (folder / "lock").is_file():
        raise UserError(f"{folder / 'lock'} is not a regular file. Delete it.")
    # Not bound to a thread: another one may leave the block, such as a timer.
    wait = max(wait, LOCK_PROBE_SECONDS)
    lock = FileLock(folder / "lock", timeout=wait, thread_local=False)
    with explain_os_errors("lock", folder):
        try:
            lock.acquire()
        except Timeout:
            raise UserError(f"{folder} is in use by {_owner(folder)}. Wait or stop it.") from None
    try:
        with suppress(OSError):  # only for messages: not worth failing for
            overwrite(folder / "owner", f"{socket.gethostname()} pid {os.getpid()}\n".encode())
        yield
    finally:
        lock.release()


def _owner(folder: Path) -> str:
    with suppress(OSError, ValueError):
        return read_bytes(folder / "owner", 10**4).decode().strip() or "another process"
    return "another process"


def is_locked(folder: Path) -> bool:
    """Return whether a live process holds the folder's lock; nothing is written."""
    if (folder / "lock").is_symlink() or not (folder / "lock").is_file():
        return False
    if fcntl is None:
        return _is_taken(folder / "lock")
    try:
        with open_regular(folder / "lock") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def _is_taken(path: Path) -> bool:
    """The same where there is no flock: by taking the lock, which touches the file."""
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:
        return False
