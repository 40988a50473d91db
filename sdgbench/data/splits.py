"""Splits of public data sets, such as mnist-train: the units in which real data is stored.

A split is decoded to an array of images and one of labels. It is identified by the hash of that
content, so that a recompressed or repacked file still gives the same split. On disk the folder is
called ``parts`` and its file ``part.json``, as they were before splits had this name.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from sdgbench import storage
from sdgbench.data.domain import Arrays, content_sha256, load_array
from sdgbench.errors import UserError, explain_os_errors

State = Literal["verified", "unverified", "regenerated", "missing"]


@dataclass(frozen=True)
class File:
    """A public download: its name, its mirrors, and what is known to identify it."""

    name: str
    urls: tuple[str, ...] = ()
    size: int = 0  # exact, in bytes; 0: not known
    md5: str = ""
    sha256: str = ""
    about: int = 0  # bytes, to show where the exact size is not known

    def matches(self, path: Path) -> bool:
        """Whether a file is this download, by its strongest published checksum."""
        if not (self.md5 or self.sha256) or (self.size and path.stat().st_size != self.size):
            return False
        kind, expected = ("sha256", self.sha256) if self.sha256 else ("md5", self.md5)
        with storage.open_regular(path) as stream:
            return hashlib.file_digest(stream, kind).hexdigest() == expected


@dataclass(frozen=True)
class Candidate:
    """Files that may hold a split, and how to decode them."""

    paths: tuple[Path, ...]
    read: Callable[[], Arrays]


@dataclass(frozen=True)
class DataSplit:
    """One split of one public data set."""

    name: str
    count: int  # of images; 0: not known
    candidates: Callable[[Path], Iterator[Candidate]]  # below a folder, in any usual layout
    files: tuple[File, ...] = ()
    sha256: tuple[str, ...] = ()  # of the decoded content, where it is known
    archive: File | None = None  # a download that holds this split among others
    manual: str = ""  # instructions for the user, if there is nothing to download

    @property
    def downloads(self) -> tuple[File, ...]:
        """The files to download for it; empty: it can only be imported."""
        if self.archive:
            return (self.archive,)
        return tuple(file for file in self.files if file.urls)


@dataclass(frozen=True)
class StoredSplit:
    """A split in the data folder: its arrays and the metadata in ``part.json``."""

    folder: Path
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> State:
        """How far its content can be trusted."""
        state: State = self.metadata.get("state", "unverified")
        return state

    def load(self) -> Arrays:
        """Images and labels, both memory-mapped."""
        images, labels = (
            load_array(
                self.folder / f"{name}.npy",
                f"Delete {self.folder} and import it again.",
                mmap=True,
            )
            for name in ("images", "labels")
        )
        try:
            _check_arrays(images, labels)
            if not len(images) == len(labels) == self.metadata.get("count", len(images)):
                raise ValueError(f"{len(images)} images and {len(labels)} labels")
        except ValueError as error:
            raise UserError(
                f"{self.folder} is damaged ({error}). Delete it and import it again."
            ) from None
        return images, labels

    def size(self) -> int:
        """The size on disk in bytes."""
        return sum(file.stat().st_size for file in self.folder.iterdir() if file.is_file())


class Untrusted(UserError):
    """Content that may be good, but has no known hash."""


class _Metadata(msgspec.Struct):
    """What ``part.json`` must hold; datasets add more."""

    name: str
    count: Annotated[int, msgspec.Meta(ge=0)]
    state: State
    origin: str
    sha256: str
    frost: str | None = None


class SplitStore:
    """The splits that are stored in a data folder."""

    def __init__(self, root: Path) -> None:
        self.root = root / "parts"

    def get(self, name: str) -> StoredSplit | None:
        """The split of a name, or None if it is missing or incomplete."""
        path = self.root / name / "part.json"  # written last
        if not path.exists():
            return None
        metadata = storage.read_struct(path, dict[str, Any])
        try:
            msgspec.convert(metadata, _Metadata)
        except msgspec.ValidationError as error:
            raise UserError(
                f"{path} is damaged ({error}). Delete {path.parent} and import it again."
            ) from None
        return StoredSplit(path.parent, metadata)

    def save(
        self, name: str, arrays: Arrays, state: State, origin: str, **more: Any
    ) -> StoredSplit:
        """Store decoded content with its hash; ``more`` is added to the metadata."""
        images, labels = arrays
        folder = self.root / name
        check_space(self.root, images.nbytes)
        with storage.locked(folder, wait=3600):
            with explain_os_errors("replace", folder / "part.json"), suppress(FileNotFoundError):
                (folder / "part.json").unlink()
            storage.write_atomic(folder / "images.npy", lambda file: np.save(file, images))
            storage.write_atomic(folder / "labels.npy", lambda file: np.save(file, labels))
            metadata = {
                "name": name,
                "count": len(images),
                "state": state,
                "origin": origin,
                "sha256": content_sha256(images, labels),
                **more,
            }
            storage.write_json(folder / "part.json", metadata)
        return StoredSplit(folder, metadata)

    def verify(self, split: DataSplit) -> str | None:
        """Recompute the hash of a stored split; returns what is wrong, or None."""
        stored = self.get(split.name)
        if stored is None:
            return "missing"
        if content_sha256(*stored.load()) != stored.metadata["sha256"]:
            return f"{stored.folder} has changed since it was made. Delete it and import it again."
        return None


def import_split(
    store: SplitStore, split: DataSplit, folder: Path, trust: bool = False, published: bool = False
) -> StoredSplit:
    """Find a split in a folder, check its content and store it.

    Content is verified when its hash is known, when all files it comes from have their published
    checksums, or when the folder was unpacked from a ``published`` archive. Other content is
    stored only if the user trusts it.
    """
    problems: list[str] = []
    unknown: tuple[Candidate, Arrays] | None = None
    for candidate in split.candidates(folder):
        try:
            arrays = candidate.read()
            _check_arrays(*arrays)
        except Exception as error:  # readers of foreign formats raise errors of any kind
            problems.append(f"{candidate.paths[0]} cannot be read ({_in_words(error)})")
            continue
        images, labels = arrays
        if len(images) != len(labels) or (split.count and len(images) != split.count):
            problems.append(
                f"{candidate.paths[0]} has {len(images):,} images, {split.name} has {split.count:,}"
            )
            continue
        known = published or content_sha256(images, labels) in split.sha256
        if known or _all_published(split, candidate.paths):
            return store.save(split.name, arrays, "verified", str(candidate.paths[0]))
        unknown = unknown or (candidate, arrays)
    if unknown and trust:
        candidate, arrays = unknown
        return store.save(split.name, arrays, "unverified", str(candidate.paths[0]))
    if unknown:
        raise Untrusted(
            f"{unknown[0].paths[0]} is not known to be {split.name}: its content has no known "
            "hash. If you trust it, add --trust; every record and table will say unverified data."
        )
    if problems:
        raise UserError(f"{'; '.join(problems)}.")
    raise FileNotFoundError(split.name)


def _check_arrays(images: np.ndarray, labels: np.ndarray) -> None:
    """Refuse what no file of the public sets holds, such as numbers of another type."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise ValueError(f"its images are {images.dtype} {images.shape}, not bytes")
    if labels.dtype.kind not in "iu" or not labels.ndim:
        raise ValueError(f"its labels are {labels.dtype} {labels.shape}, not integers")


def _in_words(error: Exception) -> str:
    """What is wrong with a file, in one short line."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _all_published(split: DataSplit, paths: Sequence[Path]) -> bool:
    by_name = {file.name: file for file in split.files}
    return all(path.name in by_name and by_name[path.name].matches(path) for path in paths)


def check_space(folder: Path, needed: int) -> None:
    """Raise a UserError if the disk of a folder has too little space."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed * 1.05:
        raise UserError(
            f"{folder} needs {needed / 1e6:,.0f} MB, but only {free / 1e6:,.0f} MB are free there. "
            "Free some space or choose another --data folder."
        )


def paths_named(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """All files and folders with one of the names anywhere below a folder, sorted."""
    wanted = set(names)
    yield from (path for path in sorted(folder.rglob("*")) if path.name in wanted)
