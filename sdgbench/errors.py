"""Errors that are the user's to mend: one line, with the way out, and exit code 2."""

import difflib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """Bad input or a bad surrounding. Its text says what is wrong and how to fix it."""


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
            fix = "Permission was denied. Choose another folder or change its rights."
        elif isinstance(error, (NotADirectoryError, FileExistsError)):
            fix = "A file stands where a folder is needed. Move it or choose another folder."
        else:
            fix = f"{error.strerror or error}."
        raise UserError(f"Cannot {doing} {path}. {fix}") from error
