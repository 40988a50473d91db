"""Images decoded once, on all cores, into one uncompressed file; read from there batch by batch."""

import errno
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np

from sdgbench import storage
from sdgbench.data.splits import check_space
from sdgbench.errors import UserError, explain_os_errors
from sdgbench.reporter import Reporter

CHUNK = 16  # images per job
IMAGES, DONE, ABOUT = "images.npy", "done.npy", "cache.json"
BAD = 2  # in the file of what is done: this image could not be decoded


class StoredRows:
    """Rows of an array in a .npy file, read by position.

    Unlike a memory map, what was read does not stay in the process: its memory is that of the
    batches, however large the file. The system caches the file all the same.
    """

    def __init__(self, path: Path) -> None:
        header = np.load(path, mmap_mode="r")
        self.path, self.shape, self.dtype, self.ndim = path, header.shape, header.dtype, header.ndim
        self._offset, self._row = int(header.offset), int(np.prod(header.shape[1:], dtype=np.int64))
        self._row *= header.dtype.itemsize
        self._file: int | None = None

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, key: Any) -> np.ndarray:
        first, *others = key if isinstance(key, tuple) else (key,)
        if isinstance(first, slice):
            start, stop, step = first.indices(len(self))
            if step == 1:
                block = self._read(start, max(0, stop - start))
                return block[(slice(None), *others)] if others else block
            first = np.arange(start, stop, step)
        rows = np.atleast_1d(np.asarray(first))
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        block = np.empty((len(rows), *self.shape[1:]), self.dtype)
        for target, row in zip(block, rows.tolist(), strict=True):
            self._fill(target, row if row >= 0 else row + len(self))
        return block[(slice(None) if np.ndim(first) else 0, *others)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_file": None}  # each process opens the file itself

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)

    def _read(self, start: int, count: int) -> np.ndarray:
        block = np.empty((count, *self.shape[1:]), self.dtype)
        for number, target in enumerate(block):
            self._fill(target, start + number)
        return block

    def _fill(self, target: np.ndarray, row: int) -> None:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        if self._file is None:
            self._file = os.open(self.path, os.O_RDONLY)
        position = self._offset + row * self._row
        if os.preadv(self._file, [target.reshape(-1).data], position) != self._row:
            raise UserError(f"{self.path} is cut off. Delete its folder: it is made again.")


@dataclass(frozen=True)
class Decoded:
    """A finished cache: its images, and which of them could not be decoded."""

    images: np.ndarray  # (N, 3, H, W), read from the disk
    broken: dict[int, str]  # by position: why


def decode(
    folder: Path,
    count: int,
    size: tuple[int, int],
    read: Callable[[int], np.ndarray],
    reporter: Reporter,
    phase: str,
    workers: int | None = None,
) -> Decoded:
    """Decode images 0 to ``count`` into a folder, unless it holds them already.

    ``read`` returns one image as uint8 (3, H, W) or raises ValueError; it is called from threads,
    since decoders release Python's lock. An interrupted call is continued by the next one.
    """
    if not (folder / ABOUT).exists():
        with storage.locked(folder, wait=24 * 3600), explain_os_errors("write", folder):
            if not (folder / ABOUT).exists():
                _fill_cache(folder, count, size, read, reporter, phase, workers)
    about = storage.read_json(folder / ABOUT)
    images = StoredRows(folder / IMAGES)
    if images.shape != (count, 3, *size):
        raise UserError(f"{folder} is damaged. Delete it: it is made again.")
    broken = {int(number): str(reason) for number, reason in about["broken"].items()}
    return Decoded(cast(np.ndarray, images), broken)


def bytes_needed(count: int, size: tuple[int, int]) -> int:
    """The size on disk of a cache."""
    return 3 * size[0] * size[1] * count


def _fill_cache(
    folder: Path,
    count: int,
    size: tuple[int, int],
    read: Callable[[int], np.ndarray],
    reporter: Reporter,
    phase: str,
    workers: int | None,
) -> None:
    first, done = _open_files(folder, count, size)
    todo = np.flatnonzero(done != 1)
    broken: dict[int, str] = {}
    length = bytes_needed(1, size)
    file = os.open(folder / IMAGES, os.O_WRONLY)

    def job(rows: Sequence[int]) -> dict[int, str]:
        failed = {}
        for row in rows:
            try:
                image = np.ascontiguousarray(read(row), np.uint8)
            except ValueError as error:
                done[row], failed[row] = BAD, str(error)
                continue
            # Faster than a memory map, which faults in each new page of a growing file.
            if image.nbytes != length or os.pwrite(file, image.data, first + row * length) < length:
                raise OSError(errno.ENOSPC, "an image was not written in full")
            done[row] = 1
        return failed

    rows = todo.tolist()
    chunks = iter(rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))
    reporter.begin(phase, count, count - len(rows))
    workers = workers or len(os.sched_getaffinity(0))
    finished = count - len(rows)
    try:
        with ThreadPoolExecutor(workers, "sdgbench-decode") as threads:
            # A few jobs in advance only, so that Ctrl-C does not have to wait for all of them.
            pending: dict[Future[dict[int, str]], int] = {}
            for chunk in islice(chunks, 2 * workers):
                pending[threads.submit(job, chunk)] = len(chunk)
            while pending:
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    broken |= future.result()
                    finished += pending.pop(future)
                    for chunk in islice(chunks, 1):
                        pending[threads.submit(job, chunk)] = len(chunk)
                reporter.update(finished, None, 0.0)
        os.fsync(file)
    finally:
        os.close(file)
    reporter.end()
    storage.write_json(folder / ABOUT, {"count": count, "size": list(size), "broken": broken})
    (folder / DONE).unlink()


def _open_files(folder: Path, count: int, size: tuple[int, int]) -> tuple[int, np.memmap]:
    """Make the files to fill, or find those of a call that was interrupted.

    Returns where the first image begins, and the array of what is done.
    """
    shape = (count, 3, *size)
    try:
        images = np.load(folder / IMAGES, mmap_mode="r")
        done = np.lib.format.open_memmap(folder / DONE, mode="r+")
        if images.shape == shape and images.dtype == np.uint8 and done.shape == (count,):
            return int(images.offset), done
    except (OSError, ValueError):
        pass
    check_space(folder, bytes_needed(count, size))
    images = np.lib.format.open_memmap(folder / IMAGES, "w+", np.uint8, shape)
    done = np.lib.format.open_memmap(folder / DONE, "w+", np.uint8, (count,))
    return int(images.offset), done
