"""Parts: the units in which real data is verified and kept.

A part is one split of one public data set, decoded: an array of images and one of labels. Its
identity is the hash of that content, so a recompressed or repacked file is still the same part.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sdgbench import storage
from sdgbench.errors import UserError, explain_os_errors

Arrays = tuple[np.ndarray, np.ndarray]  # images as the data set has them, labels as it counts them
State = Literal["verified", "unverified", "regenerated", "missing"]


@dataclass(frozen=True)
class File:
    """A public download: its name, where it is, and what is known to identify it."""

    name: str
    urls: tuple[str, ...] = ()
    size: int = 0
    md5: str = ""
    sha256: str = ""

    def matches(self, path: Path) -> bool:
        """Say whether a file is this download, by the strongest published checksum."""
        if not (self.md5 or self.sha256) or (self.size and path.stat().st_size != self.size):
            return False
        kind, expected = ("sha256", self.sha256) if self.sha256 else ("md5", self.md5)
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, kind).hexdigest() == expected


@dataclass(frozen=True)
class Candidate:
    """Something in a folder that may be a part."""

    paths: tuple[Path, ...]
    read: Callable[[], Arrays]


@dataclass(frozen=True)
class Part:
    """One split of one public data set."""

    name: str
    count: int  # 0: not known
    find: Callable[[Path], Iterator[Candidate]]  # in any layout that people have
    files: tuple[File, ...] = ()
    sha256: tuple[str, ...] = ()  # of the decoded content, where it is known
    archive: File | None = None  # a download that holds this part among others
    manual: str = ""  # what to do by hand where there is nothing to download


def content_sha256(images: np.ndarray, labels: np.ndarray) -> str:
    """The identity of a part: shapes, bytes and labels."""
    digest = hashlib.sha256(repr((images.shape, labels.shape)).encode())
    for start in range(0, len(images), 4096):  # a memory-mapped part need not fit into memory
        digest.update(np.ascontiguousarray(images[start : start + 4096]).data)
    digest.update(np.ascontiguousarray(labels, dtype=np.int64).data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Kept:
    """A part in the data folder."""

    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> State:
        """How far its content can be trusted."""
        state: State = self.facts.get("state", "unverified")
        return state

    def load(self) -> Arrays:
        """Images and labels, both memory-mapped."""
        with explain_os_errors("read", self.folder):
            try:
                images, labels = (
                    np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
                    for name in ("images", "labels")
                )
            except ValueError:
                raise UserError(f"{self.folder} is damaged. Delete it and import again.") from None
        return images, labels

    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self.folder.iterdir() if file.is_file())


class PartStore:
    """The parts under a data folder."""

    def __init__(self, root: Path) -> None:
        self.root = root / "parts"

    def get(self, name: str) -> Kept | None:
        """A part, if it is there and whole: its facts are written last."""
        facts = self.root / name / "part.json"
        return Kept(facts.parent, storage.read_json(facts)) if facts.exists() else None

    def save(self, name: str, arrays: Arrays, state: State, origin: str, **more: Any) -> Kept:
        """Keep decoded content."""
        images, labels = arrays
        folder = self.root / name
        check_space(self.root, images.nbytes)
        with storage.owned(folder, wait=3600):
            with suppress(FileNotFoundError):
                (folder / "part.json").unlink()
            storage.write_atomic(folder / "images.npy", lambda file: np.save(file, images))
            storage.write_atomic(folder / "labels.npy", lambda file: np.save(file, labels))
            facts = {
                "name": name, "count": len(images), "state": state, "origin": origin,
                "sha256": content_sha256(images, labels), **more,
            }  # fmt: skip
            storage.write_json(folder / "part.json", facts)
        return Kept(folder, facts)

    def verify(self, part: Part) -> str | None:
        """Recompute a kept part's hash; returns what is wrong, or None."""
        kept = self.get(part.name)
        if kept is None:
            return "missing"
        found = content_sha256(*kept.load())
        if found != kept.facts["sha256"]:
            return f"{kept.folder} has changed since it was made. Delete it and import again."
        return None


def take(
    store: PartStore, part: Part, folder: Path, trust: bool = False, published: bool = False
) -> Kept:
    """Find a part in a folder, check its content and keep it.

    Content is verified when its hash is known, when all files it comes from have their published
    checksums, or when the folder was unpacked from a ``published`` archive. Other content is kept
    only on the user's word.
    """
    problems: list[str] = []
    unknown: tuple[Candidate, Arrays] | None = None
    for candidate in part.find(folder):
        try:
            arrays = candidate.read()
        except (OSError, ValueError, EOFError, KeyError) as error:
            problems.append(f"{candidate.paths[0]} cannot be read ({error})")
            continue
        images, labels = arrays
        if len(images) != len(labels) or (part.count and len(images) != part.count):
            problems.append(
                f"{candidate.paths[0]} has {len(images):,} images, {part.name} has {part.count:,}"
            )
            continue
        known = published or content_sha256(images, labels) in part.sha256
        if known or _published(part, candidate.paths):
            return store.save(part.name, arrays, "verified", str(candidate.paths[0]))
        unknown = unknown or (candidate, arrays)
    if unknown and trust:
        candidate, arrays = unknown
        return store.save(part.name, arrays, "unverified", str(candidate.paths[0]))
    if unknown:
        raise UserError(
            f"{unknown[0].paths[0]} is not known to be {part.name}: its content has no known hash. "
            "If you trust it, add --trust; every record and table will say unverified data."
        )
    if problems:
        raise UserError(f"{part.name}: {'; '.join(problems)}.")
    raise FileNotFoundError(part.name)


def _published(part: Part, paths: Sequence[Path]) -> bool:
    by_name = {file.name: file for file in part.files}
    return all(path.name in by_name and by_name[path.name].matches(path) for path in paths)


def check_space(folder: Path, needed: int) -> None:
    """Refuse to begin what cannot end."""
    at = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(at).free
    if free < needed * 1.05:
        raise UserError(
            f"{folder} needs {needed / 1e6:,.0f} MB, but only {free / 1e6:,.0f} MB are free there. "
            "Free some or choose another --data folder."
        )


def matching(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """All files and folders of these names anywhere below a folder, in a stable order."""
    wanted = set(names)
    yield from (path for path in sorted(folder.rglob("*")) if path.name in wanted)
