"""Whether the servers of downloads can be reached, found out within seconds."""

import socket
import threading
import time
import urllib.request
from collections.abc import Iterable
from urllib.parse import urlsplit

from sdgbench.errors import UserError

CONNECT_SECONDS = 5.0  # for all servers together
PORTS = {"http": 80, "https": 443}


class NoNetwork(UserError):
    """None of the servers of a download can be reached."""


def host_of(url: str) -> str:
    """The name of a URL's server."""
    return urlsplit(url).hostname or url


def unreachable_hosts(urls: Iterable[str], seconds: float = CONNECT_SECONDS) -> dict[str, str]:
    """The servers that accept no connection, with the reason; all are tried at the same time."""
    endpoints = {host_of(url): _endpoint(url) for url in urls}
    failures = dict.fromkeys(endpoints, f"no answer within {seconds:g} s")

    def connect(host: str) -> None:
        try:
            socket.create_connection(endpoints[host], timeout=seconds).close()
        except OSError as error:
            failures[host] = error.strerror or str(error)
        else:
            del failures[host]

    # Daemons: looking up a name knows no timeout, and must not keep the command from ending.
    threads = [threading.Thread(target=connect, args=(host,), daemon=True) for host in endpoints]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return failures.copy()


def _endpoint(url: str) -> tuple[str, int]:
    """Where a request for a URL connects to: its server, or the proxy in between."""
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.hostname or ""):
        parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    return parts.hostname or "", parts.port or PORTS.get(parts.scheme, 80)
