"""Notices when a method opens files of the data folder: there the targets are.

Methods are given the source only. That is a guard against mistakes, not a sandbox: their code runs
with all rights of the user. What they open while they train is noted and recorded.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MOST_NAMES = 20  # that a record keeps


class OpenedFiles:
    """The files below a folder that the thread which made this object opens."""

    def __init__(self, folder: Path, note: Callable[[str], object]) -> None:
        self.folder, self.note = f"{os.path.realpath(folder)}{os.sep}", note
        self.thread = threading.get_ident()
        self.names: dict[str, None] = {}

    def see(self, path: Any) -> None:
        """Note a file that is opened, if it is below the folder."""
        if threading.get_ident() != self.thread or not isinstance(path, (str, bytes, os.PathLike)):
            return
        full = os.path.realpath(os.fsdecode(path))
        if not full.startswith(self.folder) or len(self.names) >= MOST_NAMES:
            return
        name = full.removeprefix(self.folder)
        if name not in self.names:
            self.names[name] = None
            self.note(f"warning: the method opened {full} while it trained")

    def stop(self) -> list[str]:
        """See no more; the names of what was opened, below the folder."""
        if self in _watching:
            _watching.remove(self)
        return list(self.names)


_watching: list[OpenedFiles] = []
_hooked = False


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watching:
        for watcher in list(_watching):
            watcher.see(arguments[0])


@contextmanager
def watch_folder(folder: Path, note: Callable[[str], object]) -> Iterator[OpenedFiles]:
    """Watch what this thread opens below a folder, until ``stop`` or the end of the block."""
    global _hooked
    if not _hooked:  # Python cannot remove a hook, so there is one for all
        sys.addaudithook(_on_event)
        _hooked = True
    watcher = OpenedFiles(folder, note)
    _watching.append(watcher)
    try:
        yield watcher
    finally:
        watcher.stop()
