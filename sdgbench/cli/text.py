"""Lines for people: on a terminal they break between words, elsewhere they stay whole."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import click


def echo(text: str, err: bool = False, indent: int = 2) -> None:
    """Print one line; where a terminal must break it, the next lines are indented."""
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        text = wrap(text, shutil.get_terminal_size().columns, " " * indent)
    click.echo(text, err=err)


@contextmanager
def loading(what: str = "PyTorch") -> Iterator[None]:
    """Say on a terminal that a package is loaded, which takes seconds, and erase it at the end."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal and os.environ.get("RANK", "0") == "0":  # of torchrun
        with console.status(f"Loading {what} ..."):
            yield
    else:
        yield


def wrap(text: str, width: int, indent: str, first: str = "") -> str:
    """Break a line between words only: a word that is too long, such as a URL, stays whole."""
    return textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
