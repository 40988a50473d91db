"""A model of losing power: which files POSIX permits to find after a crash.

While it records, every fsync, rename, unlink and truncation of a folder is a crash point. What was
flushed is on disk for certain; everything else may have reached the disk or not. Five states
cover the corners: all of it did, none did, only names, only content, or half of the content.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KINDS = ("all", "none", "names", "content", "torn")
Listing = dict[str, int]  # relative path: inode


@dataclass(frozen=True)
class CrashState:
    """One state in which a folder may be found."""

    event: str
    kind: str
    files: dict[str, bytes]

    def write_to(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


class Recorder:
    """Follows what happens to the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.flushed: dict[int, bytes] = {}  # content by inode
        self.names: Listing = {}  # that are on disk for certain
        self.states: list[CrashState] = []
        self.points = 0

    def _now(self) -> tuple[Listing, dict[int, bytes]]:
        listing, content = {}, {}
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path.name != "lock":
                inode = path.stat().st_ino
                listing[str(path.relative_to(self.folder))] = inode
                content[inode] = path.read_bytes()
        return listing, content

    def point(self, event: str) -> None:
        """Keep the states that a crash at this moment may leave."""
        self.points += 1
        listing, content = self._now()
        known = {**dict.fromkeys(content, b""), **self.flushed}
        torn = {
            inode: known.get(inode, b"") if known.get(inode) == data else data[: len(data) // 2]
            for inode, data in content.items()
        }
        for inode, data in self.flushed.items():  # flushed bytes of a file that only grew stay
            if inode in content and content[inode].startswith(data):
                grown = content[inode][len(data) :]
                torn[inode] = data + grown[: len(grown) // 2]
        merged = {**known, **content}
        for kind, names, bytes_of in (
            ("all", listing, merged),
            ("none", self.names, known),
            ("names", listing, known),
            ("content", self.names, merged),
            ("torn", listing, {**known, **torn}),
        ):
            files = {name: bytes_of.get(inode, b"") for name, inode in names.items()}
            if not any(state.files == files for state in self.states[-10:]):
                self.states.append(CrashState(event, kind, files))

    def flush(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        listing, content = self._now()
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            inside = path.relative_to(self.folder) if path.is_relative_to(self.folder) else None
            if inside is not None:
                kept = {n: i for n, i in self.names.items() if Path(n).parent != inside}
                kept |= {n: i for n, i in listing.items() if Path(n).parent == inside}
                self.names = kept
        elif status.st_ino in content:
            self.flushed[status.st_ino] = content[status.st_ino]


@contextmanager
def recording(folder: Path) -> Iterator[Recorder]:
    """Record the crash points of what happens to a folder inside the block."""
    recorder = Recorder(folder)
    originals = {name: getattr(os, name) for name in ("fsync", "replace", "unlink", "ftruncate")}

    def spy(name):
        def call(*arguments, **options):
            recorder.point(f"before {name}")
            result = originals[name](*arguments, **options)
            if name == "fsync":
                recorder.flush(arguments[0])
            recorder.point(f"after {name}")
            return result

        return call

    for name in originals:
        setattr(os, name, spy(name))
    try:
        yield recorder
    finally:
        for name, function in originals.items():
            setattr(os, name, function)
