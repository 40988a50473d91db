"""Downloads that resume, retry, change mirrors and end with the right file or none."""

import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from contextlib import suppress
from pathlib import Path

from sdgbench import storage
from sdgbench.data.parts import File, check_space
from sdgbench.errors import UserError, explain_os_errors
from sdgbench.progress import Reporter

TRIES = 3  # per mirror
TIMEOUT = 60.0
CHUNK = 1 << 18
MEGABYTE = 10**6
WEB_PAGE = (b"<!doctype", b"<html")


class _Unusable(Exception):
    """This mirror's answer is no good; another may be."""


def download(file: File, folder: Path, reporter: Reporter, pause: float = 2.0) -> Path:
    """Fetch a file into a folder. What was fetched before a cut is not fetched again."""
    path = folder / file.name
    with storage.owned(folder, wait=24 * 3600):  # two prepares take turns, and the second finds it
        if path.exists() and file.matches(path):
            return path
        complaints = []
        for url in file.urls:
            for attempt in range(TRIES):
                if attempt:
                    time.sleep(pause * 2 ** (attempt - 1))
                try:
                    _fetch(file, url, path, reporter)
                    return path
                except _Unusable as error:  # the same answer would come again
                    complaints.append(f"{url}: {error}")
                    break
                except (urllib.error.URLError, TimeoutError, ConnectionError, EOFError) as error:
                    reason = getattr(error, "reason", None) or error
                    complaint = f"{url}: {reason}"
                    client_error = isinstance(error, urllib.error.HTTPError) and error.code < 500
                    if client_error or attempt == TRIES - 1:
                        complaints.append(complaint)
                    if client_error:
                        break
    raise UserError(
        f"{file.name} could not be fetched ({'; '.join(complaints) or 'it has no address'}). "
        "Fetch it by hand and use: sdgbench data import"
    )


def _fetch(file: File, url: str, path: Path, reporter: Reporter) -> None:
    partial = path.with_name(f"{path.name}.part")
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "sdgbench"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # nothing is left to fetch, or another file is there now
            raise
        if not file.matches(partial):
            partial.unlink()
            raise ConnectionError("the file there has changed") from None
        partial.replace(path)
        return
    with answer, explain_os_errors("write", path):
        if answer.status != 206:
            have = 0
        total = have + int(answer.headers.get("Content-Length") or 0)
        check_space(path.parent, max(total - have, 0))
        reporter.begin(f"{file.name} MB", -(-total // MEGABYTE), have // MEGABYTE)
        began, received = time.perf_counter(), have
        with partial.open("ab" if have else "wb") as out:
            while chunk := answer.read(CHUNK):
                if received == 0 and chunk.lstrip()[:9].lower().startswith(WEB_PAGE):
                    raise _Unusable("a web page came instead of the file")
                out.write(chunk)
                received += len(chunk)
                reporter.update(-(-received // MEGABYTE), None, 0.0)
        reporter.end()
        if total > received:
            speed = (received - have) / max(1e-9, time.perf_counter() - began)
            raise EOFError(f"the connection was cut at {received:,} of {total:,} ({speed:.0f} B/s)")
    if not file.matches(partial):
        partial.unlink()
        raise _Unusable("its checksum is not the published one")
    partial.replace(path)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar or zip file, refusing what would land outside the folder."""
    with explain_os_errors("write", folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if zipfile.is_zipfile(archive):
                with zipfile.ZipFile(archive) as content:
                    for name in content.namelist():
                        if not (folder / name).resolve().is_relative_to(folder.resolve()):
                            raise UserError(f"{archive} wants to write outside its folder: {name}")
                    content.extractall(folder)
            else:
                with tarfile.open(archive) as content:
                    content.extractall(folder, filter="data")
        except tarfile.FilterError as error:
            raise UserError(f"{archive} wants to write outside its folder: {error}") from None
        except (tarfile.ReadError, zipfile.BadZipFile, EOFError) as error:
            with suppress(OSError):
                archive.unlink()
            raise UserError(f"{archive} is damaged ({error}). It was deleted: try again.") from None
