"""How far every run of a folder is, by its files alone: no scheduler is asked, no torch loaded."""

import os
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from sdgbench import progress, record, storage
from sdgbench.errors import UserError

State = Literal["running", "failed", "pending", "interrupted", "done"]
STATES: tuple[State, ...] = ("running", "failed", "pending", "interrupted", "done")
FRESH = 120.0  # seconds; the file of a live run is never older, unless its machine is stuck


@dataclass(frozen=True)
class Standing:
    """How far one run is."""

    dataset: str
    method: str
    id: str
    state: State
    label: str
    detail: str = ""  # what a person wants to know of it
    progress: dict[str, Any] | None = None  # the content of its progress file
    queued: dict[str, Any] | None = None  # the scheduler's job, while it waits there


def standings(root: Path) -> list[Standing]:
    """All runs of a folder: those under way first, then by name."""
    record.Store(root).check()
    here, now = socket.gethostname(), datetime.now(UTC)
    found = [_standing(folder, names, here, now) for folder, names in _run_folders(root)]
    labels = Counter(one.label for one in found)  # the points of a grid share theirs
    found = [
        replace(one, label=f"{one.label} {one.id}") if labels[one.label] > 1 else one
        for one in found
    ]
    return sorted(found, key=lambda one: (STATES.index(one.state), one.dataset, one.label, one.id))


def counts(found: Iterable[Standing]) -> dict[State, int]:
    """How many runs there are of each state, zeros included."""
    counted = Counter(one.state for one in found)
    return {state: counted[state] for state in STATES}


def _run_folders(root: Path) -> Iterator[tuple[Path, set[str]]]:
    """Folders of runs and the names of their files; a folder with a lock alone is no run."""
    marks = {"spec.json", "record.json", "queued.json", "failed.json"}
    for folder in sorted(root.glob("*/*/*")):
        with suppress(OSError):  # deleted meanwhile, a file, or not ours to read
            names = set(os.listdir(folder))  # noqa: PTH208
            if names & marks:
                yield folder, names


def _standing(folder: Path, names: set[str], here: str, now: datetime) -> Standing:
    latest = _content(folder, progress.PROGRESS_FILE, names)
    queued = _content(folder, "queued.json", names)
    state: State
    if "record.json" in names:
        state, detail = "done", ""
    elif latest and _is_alive(folder, latest, here, now):
        state, detail = "running", _running(latest, here)
    elif latest is None and storage.is_owned(folder):  # on a full disk, say
        state, detail = "running", ""
    elif "failed.json" in names:
        failure = _content(folder, "failed.json", names) or {}
        state = "failed"
        detail = f"{failure.get('error', 'unknown')}: {failure.get('message', '')}"
    elif "queued.json" in names:
        queued = queued or {}
        state = "pending"
        detail = f"{queued.get('launcher', '')} job {queued.get('job', 'unknown')}".strip()
    else:
        state, detail = "interrupted", _interrupted(latest, names, here, now)
    dataset, method = folder.parts[-3:-1]
    return Standing(
        dataset, method, folder.name, state, _label(folder, names), detail,
        latest if state in ("running", "interrupted") else None,
        queued if state == "pending" else None,
    )  # fmt: skip


def _content(folder: Path, name: str, names: set[str]) -> dict[str, Any] | None:
    """What a file says; nothing where it is missing or damaged."""
    if name in names:
        with suppress(UserError):
            found = storage.read_json(folder / name)
            return found if isinstance(found, dict) else None
    return None


def _label(folder: Path, names: set[str]) -> str:
    spec = _content(folder, "spec.json", names) or {}
    try:
        return record.label(spec)
    except KeyError:
        dataset, method, name = folder.parts[-3:]
        return f"{method} on {dataset} ({name})"


def _is_alive(folder: Path, latest: dict[str, Any], here: str, now: datetime) -> bool:
    if "stopped" in latest:
        return False
    fresh = _age(latest, now) <= FRESH
    if latest.get("host") != here:
        return fresh  # locks and processes of another machine cannot be seen from here
    try:
        os.kill(int(latest["pid"]), 0)
    except PermissionError:
        pass  # somebody else's, and alive
    except (OSError, KeyError, TypeError, ValueError):
        return False
    return fresh or storage.is_owned(folder)  # an old file, and perhaps another process's number


def _age(latest: dict[str, Any], now: datetime) -> float:
    """Seconds since the file was written."""
    try:
        return (now - datetime.fromisoformat(latest["time"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return float("inf")


def _place(latest: dict[str, Any]) -> str:
    try:
        keys = ("phase", "done", "total", "loss", "rate")
        return progress.tell(*(latest[key] for key in keys))
    except (KeyError, TypeError, ValueError):
        return "place unknown"


def _running(latest: dict[str, Any], here: str) -> str:
    left = latest.get("seconds_left")
    parts = [_place(latest)]
    if isinstance(left, int):
        parts.append(f"{timedelta(seconds=left)} left")
    if latest.get("host") != here:
        parts.append(f"on {latest.get('host')}")
    return ", ".join(parts)


def _interrupted(latest: dict[str, Any] | None, names: set[str], here: str, now: datetime) -> str:
    parts = []
    if latest and "stopped" in latest:
        parts.append(str(latest["stopped"]))
    elif latest:
        parts.append(f"{latest.get('phase')} {latest.get('done')}/{latest.get('total')}")
        age = _age(latest, now)
        if age < float("inf"):
            host = "" if latest.get("host") == here else f" on {latest.get('host')}"
            parts.append(f"last seen {_ago(age)} ago{host}")
    if "checkpoint.pt" not in names:
        parts.append("no checkpoint yet")
    return ", ".join(parts)


def _ago(seconds: float) -> str:
    if seconds < 60:
        return f"{max(0, seconds):.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"
