"""Downloads that resume, retry, try all mirrors, and leave the right file or none."""

import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

from sdgbench import storage
from sdgbench.data.splits import File, check_space
from sdgbench.errors import UserError, explain_os_errors
from sdgbench.reporter import Reporter

TRIES = 3  # per mirror
TIMEOUT = 60.0
CHUNK = 1 << 18
MEGABYTE = 10**6
WEB_PAGE = (b"<!doctype", b"<html")


class _Unusable(Exception):
    """The response of this mirror is wrong, so that a retry is pointless; try the next one."""


def download(file: File, folder: Path, reporter: Reporter, pause: float = 2.0) -> Path:
    """Download a file into a folder, continuing a download that was interrupted."""
    path = folder / file.name
    with storage.locked(folder, wait=24 * 3600):  # of two processes one waits
        if path.exists() and file.matches(path):
            return path
        failures = []
        for url in file.urls:
            for attempt in range(TRIES):
                if attempt:
                    time.sleep(pause * 2 ** (attempt - 1))
                try:
                    _download(file, url, path, reporter)
                    return path
                except _Unusable as error:
                    failures.append(f"{url}: {error}")
                    break
                except (urllib.error.URLError, TimeoutError, ConnectionError, EOFError) as error:
                    reason = getattr(error, "reason", None) or error
                    failure = f"{url}: {reason}"
                    # Another try in a few seconds would end the same.
                    final = isinstance(reason, socket.gaierror) or (
                        isinstance(error, urllib.error.HTTPError) and error.code < 500
                    )
                    if final or attempt == TRIES - 1:
                        failures.append(failure)
                    if final:
                        break
    raise UserError(
        f"{file.name} could not be downloaded ({'; '.join(failures) or 'it has no URL'}). "
        "Download it by hand, then: sdgbench data import"
    )


def _download(file: File, url: str, path: Path, reporter: Reporter) -> None:
    partial = path.with_name(f"{path.name}.part")
    resumed_at = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "sdgbench"})
    if resumed_at:
        request.add_header("Range", f"bytes={resumed_at}-")
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # 416: nothing is left to download, or the file has changed
            raise
        if not file.matches(partial):
            partial.unlink()
            raise ConnectionError("the file on the server has changed") from None
        partial.replace(path)
        return
    with response, explain_os_errors("write", path):
        if response.status != 206:
            resumed_at = 0
        total = resumed_at + int(response.headers.get("Content-Length") or 0)
        check_space(path.parent, max(total - resumed_at, 0))
        reporter.begin(f"{file.name} MB", -(-total // MEGABYTE), resumed_at // MEGABYTE)
        start, received = time.perf_counter(), resumed_at
        with partial.open("ab" if resumed_at else "wb") as out:
            while chunk := response.read(CHUNK):
                if received == 0 and chunk.lstrip()[:9].lower().startswith(WEB_PAGE):
                    raise _Unusable("the server sent a web page instead of the file")
                out.write(chunk)
                received += len(chunk)
                reporter.update(-(-received // MEGABYTE), None, 0.0)
        reporter.end()
        if total > received:
            speed = (received - resumed_at) / max(1e-9, time.perf_counter() - start)
            raise EOFError(f"the connection broke at {received:,} of {total:,} B ({speed:.0f} B/s)")
    if not file.matches(partial):
        partial.unlink()
        raise _Unusable("its checksum is not the published one")
    partial.replace(path)
