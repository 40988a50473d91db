"""Serves the page to browsers of this machine alone; it reads, and writes nothing."""

import errno
import os
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sdgbench.errors import UserError
from sdgbench.report import page
from sdgbench.version import version
from sdgbench.watch.folder import RunsFolder

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost")  # that a request may use for this machine
ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("dom.js", "theme.js", "table.js", "chart.js")  # of the report, before our own
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def render() -> str:
    """The page; what it shows it asks for."""
    own = {name: (ASSETS / name).read_text(encoding="utf-8") for name in ("page.html", "page.css")}
    script = (ASSETS / "page.js").read_text(encoding="utf-8")
    return page.assemble(
        own["page.html"],
        page.asset("page.css") + own["page.css"],
        [*map(page.asset, SCRIPTS), script],
        {"version": version()},
        may_ask_server=True,
    )


class Handler(BaseHTTPRequestHandler):
    """Answers one request; everything but GET and HEAD is refused."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sdgbench", ""
    timeout = 60  # of a connection that says nothing

    def __init__(self, folder: RunsFolder, html: str, *arguments: Any) -> None:
        self.folder, self.html = folder, html
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Send a page or its data."""
        if not self._is_for_this_machine():
            # A foreign site's name that resolves to this machine (DNS rebinding) gets nothing.
            self._send(HTTPStatus.FORBIDDEN, "text/plain", f"Use http://{ADDRESS} instead.\n")
            return
        url = urlsplit(self.path)
        pages: dict[str, Callable[[], str]] = {
            "/": lambda: self.html,
            "/report": self.folder.report,
        }
        data: dict[str, Callable[[], Any]] = {
            "/api/state": self.folder.state,
            "/api/tables": self.folder.tables,
            "/api/curve": lambda: self._curve(parse_qs(url.query)),
        }
        if url.path in pages:
            self._answer("text/html", pages[url.path])
        elif url.path in data:
            self._answer("application/json", lambda: page.block(data[url.path]()))
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "There is no such page.\n")

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Print nothing: a page asks every two seconds."""

    def _is_for_this_machine(self) -> bool:
        # Any port: that of an ssh tunnel is another one.
        return self.headers.get("Host", "").partition(":")[0].lower() in NAMES

    def _curve(self, query: dict[str, list[str]]) -> dict[str, Any]:
        key, offset, check = (query.get(name, [""])[-1] for name in ("run", "offset", "check"))
        if not offset.isdecimal() or len(offset) > 18:
            raise UserError(f'"{offset}" is no position in a file.')
        return self.folder.curve(key, int(offset), check)

    def _answer(self, kind: str, make: Callable[[], str]) -> None:
        try:
            text = make()
        except UserError as error:
            self._send(HTTPStatus.BAD_REQUEST, "text/plain", f"{error}\n")
        except Exception as error:  # a bug: the page says so, and the terminal has the traceback
            what = f"{type(error).__name__}: {error}"
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", f"{what}\n")
            raise
        else:
            self._send(HTTPStatus.OK, kind, text)

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        data = text.encode(errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


class Server(ThreadingHTTPServer):
    """The server, on a port of this machine that no other machine reaches."""

    daemon_threads = True
    block_on_close = False  # a browser keeps connections open

    def __init__(self, folder: RunsFolder, port: int) -> None:
        try:
            super().__init__((ADDRESS, port), partial(Handler, folder, render()))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise UserError(
                    f"Port {port} is in use, perhaps by another sdgbench watch. Choose another "
                    "with --port, or any free one with --port 0."
                ) from None
            if error.errno == errno.EACCES:
                raise UserError(
                    f"Port {port} needs more rights. Choose one above 1023 with --port."
                ) from None
            raise

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """Show the traceback of a bug; a browser that went away is none."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def has_screen() -> bool:
    """Whether a browser window can be opened here: not over ssh, nor without a display."""
    if "SSH_CONNECTION" in os.environ:
        return False
    graphical = {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)
    return sys.platform in ("darwin", "win32") or bool(graphical)


def serve(folder: RunsFolder, port: int, tell: Callable[[str], object], opens: bool) -> None:
    """Serve the page until Ctrl-C."""
    folder.state()  # a folder that cannot be read is refused before anything starts
    with Server(folder, port) as server:
        tell(f"Watching {folder.root} at {server.url} (this machine only). Ctrl-C stops it.")
        if opens:
            webbrowser.open(server.url)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    tell("Stopped watching. Runs go on.")
