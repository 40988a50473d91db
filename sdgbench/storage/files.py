"""Files that are written whole or not at all, JSON files, and hashes of files."""

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from sdgbench.errors import Damaged, UserError, explain_os_errors

T = TypeVar("T")
MAX_JSON_BYTES = 2**26
_NOT_FOLLOWING = getattr(os, "O_NOFOLLOW", 0)
_NOT_BLOCKING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # one per platform


def write_atomic(
    path: Path,
    write: Callable[[IO[bytes]], object],
    *,
    durable: bool = True,
    earlier: Path | None = None,
) -> None:
    """Let ``write`` fill a temporary file next to ``path``, flush it to disk, rename it.

    Without ``durable`` a power cut may lose it, but nobody waits for the disk. The file that it
    replaces is kept under the name ``earlier``, if that is given.
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
            if earlier is not None and path.exists():
                path.replace(earlier)
            temporary.replace(path)
            if durable:
                sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk: without that, a power cut may undo a rename."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append(path: Path, data: bytes, size: int) -> None:
    """Append to a file of a known size; a link in its place is an OSError.

    Damaged: it has another size, because somebody deleted or changed it meanwhile.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NOT_FOLLOWING | _NOT_BLOCKING
    with os.fdopen(os.open(path, flags, 0o666), "ab") as file:
        actual = os.fstat(file.fileno()).st_size
        if actual != size:
            raise Damaged(
                f"{path} has {actual} bytes instead of {size}: it was deleted or changed while "
                "the run went on. Run the same command again."
            )
        file.write(data)


def write_at(path: Path, data: bytes, start: int, offset: int) -> None:
    """Write to a file at ``offset``; others may write to other parts of it, from ``start`` on.

    Damaged: it has fewer bytes than ``start``, because somebody deleted or changed it meanwhile.
    """
    flags = os.O_WRONLY | os.O_CREAT | _NOT_FOLLOWING | _NOT_BLOCKING
    with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
        actual = os.fstat(file.fileno()).st_size
        if actual < start:
            raise Damaged(
                f"{path} has {actual} bytes instead of {start}: it was deleted or changed while "
                "the run went on. Run the same command again."
            )
        file.seek(offset)
        file.write(data)


def overwrite(path: Path, data: bytes) -> None:
    """Write a small file in place; a link or a pipe in its place is an OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NOT_FOLLOWING | _NOT_BLOCKING
    with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
        file.write(data)


def cut(path: Path, size: int) -> None:
    """Shorten a file to ``size`` bytes; a link in its place is an OSError."""
    descriptor = os.open(path, os.O_WRONLY | _NOT_FOLLOWING | _NOT_BLOCKING)
    try:
        os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Flush a file and its name to disk."""
    with open_regular(path) as file:
        os.fsync(file.fileno())
    sync_folder(path.parent)


def refuse_link(path: Path) -> None:
    """Refuse a file or folder that is a link: what is written there would go elsewhere."""
    if path.is_symlink():
        raise UserError(f"{path} is a link, and sdgbench follows none in a runs folder. Delete it.")


def hash_start(path: Path, size: int) -> "hashlib._Hash":
    """The running sha256 of the first ``size`` bytes of a file; a shorter file is a Damaged."""
    digest, left = hashlib.sha256(), size
    with explain_os_errors("read", path), open_regular(path) as file:
        while left and (chunk := file.read(min(left, 2**20))):
            digest.update(chunk)
            left -= len(chunk)
    if left:
        raise Damaged(f"{path} is too short")
    return digest


def open_regular(path: Path | str) -> BufferedReader:
    """Open a file for reading; anything else, such as a pipe that would block, is an OSError."""
    descriptor = os.open(path, os.O_RDONLY | _NOT_BLOCKING)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "It is not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path | str, most: int = MAX_JSON_BYTES) -> bytes:
    """The content of a regular file; one of more than ``most`` bytes is an OSError."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"It has {size:,} bytes, more than {most:,}", str(path))
        return file.read(most)


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Write a value or a ``msgspec.Struct`` as indented JSON, atomically.

    NaN is refused: it is not JSON.
    """
    text = json.dumps(
        value, indent=2, ensure_ascii=False, allow_nan=False, default=msgspec.to_builtins
    )
    write_atomic(path, lambda file: file.write(f"{text}\n".encode()), durable=durable)


def read_json(path: Path) -> Any:
    """Read a JSON file as plain values; a UserError names a file that is damaged."""
    with explain_os_errors("read", path):
        data = read_bytes(path)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged or half-written ({error}). Delete it.") from error


def read_struct(path: Path, kind: type[T]) -> T:
    """Read a JSON file as a ``msgspec.Struct``; a UserError names a file that does not fit."""
    try:
        return msgspec.convert(read_json(path), kind)
    # 10^400 is an OverflowError, and a SystemError before msgspec 0.22.
    except (msgspec.ValidationError, ValueError, OverflowError, SystemError) as error:
        raise UserError(f"{path} is damaged ({error}). Delete it.") from error


def sha256(path: Path) -> str:
    """Return the hash of a file's content."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sweep_temporaries(folder: Path) -> None:
    """Delete what killed writers left behind. Only the owner of the folder's lock may call it."""
    for leftover in folder.glob(".*.tmp"):
        with suppress(OSError):
            leftover.unlink()
