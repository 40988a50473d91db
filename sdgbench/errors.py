"""Errors that a user can fix: one line that says how, and exit code 2."""

import difflib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def printable(value: object, keep: str = "") -> str:
    """Replace all characters that could steer a terminal or break a line, except some to keep."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else "\ufffd" for char in text)


class UserError(Exception):
    """Bad input or a bad environment; its text says what is wrong and how to fix it.

    >>> sdgbench.run("ern", "digits-mini")
    Traceback (most recent call last):
    sdgbench.errors.UserError: No method "ern". Did you mean "erm"? All: sdgbench list
    """

    def __str__(self) -> str:
        """The text, which may quote a foreign file, without what could steer a terminal."""
        return printable(super().__str__(), keep="\n")


class Damaged(UserError):
    """A file of a run is not what the run wrote; its text names the file."""


class Interrupted(Exception):
    """The user (Ctrl-C) or the scheduler (SIGTERM) stopped a run; its state is on disk."""


def unknown(kind: str, name: str, known: Iterable[str], hint: str = "") -> UserError:
    """Build the error for a name that does not exist, with the nearest name that does."""
    known = sorted(known)
    by_lower = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    parts = [f'No {kind} "{name}".']
    if near:
        parts.append(f'Did you mean "{by_lower[near[0]]}"?')
    parts.append(hint or (f"Known: {', '.join(known)}." if known else ""))
    return UserError(" ".join(part for part in parts if part))


@contextmanager
def explain_os_errors(doing: str, path: Path) -> Iterator[None]:
    """Turn the file system's refusals into a line that a person can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            fix = "No space is left there. Free some and run the same command again."
        elif isinstance(error, PermissionError) or error.errno == errno.EROFS:
            fix = "Permission was denied. Choose another folder or change its permissions."
        elif isinstance(error, (NotADirectoryError, FileExistsError)):
            fix = "There is a file where a folder is needed. Move it or choose another folder."
        else:
            fix = f"{error.strerror or error}."
        raise UserError(f"Cannot {doing} {path}. {fix}") from error


class MissingData(UserError):
    """Data is missing; the text says how to get it."""


class BadData(UserError, ValueError):
    """A dataset's images or labels are not what its task needs; the text says how to correct it."""
