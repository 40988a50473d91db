"""Lines for people: on a terminal they break between words, elsewhere they stay whole."""

import shutil
import sys
import textwrap

import click


def echo(text: str, err: bool = False, indent: int = 2) -> None:
    """Print one line; where a terminal must break it, the next lines are indented."""
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        text = wrap(text, shutil.get_terminal_size().columns, " " * indent)
    click.echo(text, err=err)


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
