"""Files that are written whole or not at all, and folder locks that die with their owner."""

from sdgbench.storage.files import (
    append,
    cut,
    hash_start,
    open_regular,
    read_bytes,
    read_json,
    read_struct,
    refuse_link,
    sha256,
    sweep_temporaries,
    sync,
    sync_folder,
    write_at,
    write_atomic,
    write_json,
)
from sdgbench.storage.locks import is_locked, locked

__all__ = [
    "append",
    "cut",
    "hash_start",
    "is_locked",
    "locked",
    "open_regular",
    "read_bytes",
    "read_json",
    "read_struct",
    "refuse_link",
    "sha256",
    "sweep_temporaries",
    "sync",
    "sync_folder",
    "write_at",
    "write_atomic",
    "write_json",
]
