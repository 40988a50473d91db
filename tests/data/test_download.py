"""The real download code against a local server that misbehaves."""

import hashlib
import http.server
import subprocess
import sys
import threading

import pytest

from sdgbench.data import download as module
from sdgbench.data.download import download
from sdgbench.data.splits import File
from sdgbench.errors import UserError
from sdgbench.reporter import Silent

CONTENT = bytes(range(256)) * 4096  # 1 MiB


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server = self.server
        server.requests.append((self.path, self.headers.get("Range")))
        if self.path == "/error":
            return self.send_error(503)
        if self.path == "/gone":
            return self.send_error(404)
        if self.path == "/page":
            return self._send(200, b"<!DOCTYPE html><html>Please log in</html>", "text/html")
        content = b"x" * len(CONTENT) if self.path == "/wrong" else CONTENT
        start = 0
        if (asked := self.headers.get("Range")) and self.path != "/no-range":
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                return self.send_error(416)
        cut = len(content)
        if self.path == "/cut" and server.cuts > 0:
            server.cuts -= 1
            cut = start + (len(content) - start) // 2
        return self._send(206 if start else 200, content[start:cut], length=len(content) - start)

    def _send(self, code, content, kind="application/octet-stream", length=None):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests, server.cuts = [], 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


@pytest.fixture
def fetch(server, tmp_path):
    def run(*paths, **checks):
        checks = checks or {"md5": hashlib.md5(CONTENT).hexdigest()}
        urls = tuple(f"http://127.0.0.1:{server.server_port}{path}" for path in paths)
        return download(File("data.bin", urls, **checks), tmp_path, Silent(), pause=0.0)

    return run


def test_a_plain_download(fetch, tmp_path):
    path = fetch("/file", sha256=hashlib.sha256(CONTENT).hexdigest(), size=len(CONTENT))
    assert path.read_bytes() == CONTENT
    assert not list(tmp_path.glob("*.part"))


def test_what_exists_is_not_downloaded_again(fetch, server):
    fetch("/file")
    fetch("/file")
    assert len(server.requests) == 1


def test_a_cut_connection_is_resumed(fetch, server):
    server.cuts = 2
    assert fetch("/cut").read_bytes() == CONTENT
    half = len(CONTENT) // 2
    assert [asked for _, asked in server.requests] == [
        None,
        f"bytes={half}-",
        f"bytes={half + half // 2}-",
    ]


def test_a_later_try_resumes_too(fetch, server, monkeypatch):
    monkeypatch.setattr(module, "TRIES", 1)
    server.cuts = 1
    with pytest.raises(UserError, match="the connection broke at"):
        fetch("/cut")
    assert fetch("/cut").read_bytes() == CONTENT
    assert server.requests[-1][1] == f"bytes={len(CONTENT) // 2}-"


def test_a_server_without_ranges_starts_over(fetch, server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(b"something older")
    assert fetch("/no-range").read_bytes() == CONTENT


def test_a_complete_partial_file_is_used(fetch, tmp_path, server):
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    assert fetch("/file").read_bytes() == CONTENT
    assert len(server.requests) == 1


def test_a_partial_download_of_another_file_is_deleted(fetch, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(b"y" * (len(CONTENT) + 5))
    assert fetch("/file").read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(fetch, tmp_path):
    with pytest.raises(UserError, match="its checksum is not the published one"):
        fetch("/wrong")
    assert {p.name for p in tmp_path.iterdir()} <= {"lock", "owner"}


def test_a_web_page_is_not_data(fetch):
    with pytest.raises(UserError, match="the server sent a web page instead of the file"):
        fetch("/page")


def test_a_failing_server_is_tried_again_then_the_mirror(fetch, server):
    assert fetch("/error", "/page", "/wrong", "/gone", "/file").read_bytes() == CONTENT
    assert [path for path, _ in server.requests] == [
        "/error",
        "/error",
        "/error",
        "/page",
        "/wrong",
        "/gone",
        "/file",
    ]


def test_all_failures_are_named(fetch):
    with pytest.raises(UserError, match=r"Service Unavailable.*Not Found.*sdgbench data import"):
        fetch("/error", "/gone")


def test_an_unreachable_server(tmp_path):
    file = File("x", ("http://127.0.0.1:9/x",), md5="0")
    with pytest.raises(UserError, match="could not be downloaded"):
        download(file, tmp_path, Silent(), pause=0.0)


def test_a_full_disk_is_reported_before_writing(fetch, monkeypatch, tmp_path):
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")(10**9, 10**9, 1000)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(UserError, match="needs 1 MB, but only 0 MB are free"):
        fetch("/file")
    assert not (tmp_path / "data.bin").exists()


CHILD = """
import sys
from pathlib import Path
from sdgbench.data.download import download
from sdgbench.data.splits import File
from sdgbench.reporter import Silent
download(File("data.bin", (sys.argv[1],), md5=sys.argv[2]), Path(sys.argv[3]), Silent())
"""


def test_two_processes_fetch_once(server, tmp_path):
    arguments = [
        sys.executable,
        "-c",
        CHILD,
        f"http://127.0.0.1:{server.server_port}/file",
        hashlib.md5(CONTENT).hexdigest(),
        str(tmp_path),
    ]
    children = [subprocess.Popen(arguments) for _ in range(2)]
    assert [child.wait(timeout=300) for child in children] == [0, 0]
    assert len(server.requests) == 1
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
