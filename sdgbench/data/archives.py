"""Unpack tar and zip files from anywhere: nothing is written outside the folder, no link is made.

The members are written here, not by ``extractall``, whose filters have been passed by long chains
of links (CVE-2025-4517). An archive of images and arrays needs no link of any kind.
"""

import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO

from sdgbench.errors import UserError, explain_os_errors

MAX_FILES = 1_000_000
MAX_BYTES = 32 * 2**30  # the largest public archive that is used has 3 GB
CHUNK = 2**20
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, ValueError, RuntimeError)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into a folder, of which earlier content is deleted."""
    with explain_os_errors("write", folder):
        if folder.is_symlink():
            raise UserError(f"{folder} is a link. Delete it and run the same command again.")
        shutil.rmtree(folder, ignore_errors=True)  # a link in it could lead outside
        folder.mkdir(parents=True)
        try:
            _write_members(archive, folder)
        except DAMAGE as error:
            with suppress(OSError):
                archive.unlink()
            raise UserError(f"{archive} is damaged ({error}). It was deleted: try again.") from None


def _write_members(archive: Path, folder: Path) -> None:
    left = MAX_BYTES
    for number, (name, content) in enumerate(_members(archive)):
        if number >= MAX_FILES:
            raise UserError(f"{archive} has more than {MAX_FILES:,} files.")
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or name.startswith("/") or "\\" in name or "\0" in name:
            raise UserError(f"{archive} contains a path outside its folder: {name!r:.200}")
        path = folder.joinpath(*parts)
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with content, path.open("xb") as file:  # an existing file is an error, and so is a link
            while chunk := content.read(CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise UserError(f"{archive} unpacks to more than {MAX_BYTES:,} bytes.")
                file.write(chunk)


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Name and content of each member; without content: it is a folder."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise UserError(f"{archive} contains a link or device: {info.filename!r:.200}")
                yield info.filename, None if info.is_dir() else zipped.open(info)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if not (member.isreg() or member.isdir()):
                raise UserError(f"{archive} contains a link or device: {member.name!r:.200}")
            yield member.name, None if member.isdir() else tar.extractfile(member)
