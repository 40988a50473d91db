"""Whether the process that wrote a file is still alive, on this machine or on another one."""

import os
import socket
from datetime import UTC, datetime

FRESH_SECONDS = 120.0  # the files of a live process are never older, unless its machine is stuck


def age_of(time: str) -> float:
    """Seconds since a time of ``utc_now``; infinite if it is not one."""
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()
    except (TypeError, ValueError):
        return float("inf")


def is_fresh(time: str) -> bool:
    """Whether a file of this time is recent; clocks differ, but not by hours."""
    return abs(age_of(time)) <= FRESH_SECONDS


def is_running_here(host: str, pid: int) -> bool | None:
    """Whether a process of this machine exists; None: it is another machine's and not visible."""
    if host != socket.gethostname():
        return None
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # another user's process
    except (OSError, OverflowError):
        return False
    return True
