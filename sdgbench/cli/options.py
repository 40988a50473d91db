"""Options that several verbs share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from sdgbench import registry
from sdgbench.errors import UserError

if TYPE_CHECKING:
    from sdgbench.report.gather import Gathered

F = TypeVar("F", bound=Callable[..., Any])


def _add_plugins(ctx: click.Context, _: click.Parameter, files: tuple[str, ...]) -> None:
    for file in files:
        registry.add_plugin(Path(file))


plugins = click.option(
    "--plugin", multiple=True, metavar="FILE.py", is_eager=True, expose_value=False,
    callback=_add_plugins,
    help=f"Also load methods and datasets from this file (or set {registry.PLUGIN_VARIABLE}).",
)  # fmt: skip

runs = click.option(
    "--runs", metavar="DIR", default="runs", envvar="SDGBENCH_RUNS", show_default=True,
    type=click.Path(path_type=Path), help="Folder of the runs (or set SDGBENCH_RUNS).",
)  # fmt: skip

data = click.option(
    "--data", metavar="DIR", default="data", envvar="SDGBENCH_DATA", show_default=True,
    type=click.Path(path_type=Path), help="Folder of the data (or set SDGBENCH_DATA).",
)  # fmt: skip


def completer(kind: registry.Kind) -> Callable[..., list[CompletionItem]]:
    """Complete the last of comma-separated names."""

    def complete(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
        before, comma, last = text.rpartition(",")
        names = [name for name in registry.entries(kind) if name.startswith(last)]
        return [CompletionItem(f"{before}{comma}{name}") for name in names]

    return complete


def names(text: str, option: str) -> list[str]:
    """Split comma-separated names."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise UserError(f"{option} is empty. See: sdgbench list")
    return list(dict.fromkeys(found))


def gathered(runs: Sequence[Path], dataset: str, preset: str, methods: str) -> "Gathered":
    """The boards that a command is about; what was left out goes to the error stream."""
    from sdgbench.report.gather import gather

    asked = ((dataset, "--dataset"), (preset, "--preset"), (methods, "--methods"))
    found = gather(runs, *(names(text, option) if text else () for text, option in asked))
    for remark in found.remarks():
        click.echo(remark, err=True)
    return found


def assignment(text: str, option: str) -> tuple[str, str]:
    """Split key=value."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise UserError(f'"{text}" is not of the form {option} key=value.')
    return key.strip(), value.strip()


def numbers(text: str, what: str = "seed", how: str = "--seeds 0, 0,3 or 0-4") -> list[int]:
    """Read seeds or the like: ``0``, ``0,3``, ``0-4`` or a mixture."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            if not first and dash:
                raise UserError(f"The {what} {part.strip()} is negative. Write {how}.")
            start, stop = int(first), int(last) if dash else int(first)
        except ValueError:
            raise UserError(f'"{part}" is not a {what}. Write {how}.') from None
        if stop < start or stop - start >= 10_000:
            raise UserError(f'"{part}" is not a range of {what}s. Write the smaller one first.')
        found.extend(range(start, stop + 1))
    return list(dict.fromkeys(found))


def processes(text: str) -> int | None:
    """Read ``--jobs``: a number, or None for ``auto``."""
    if text == "auto":
        return None
    if not text.isdecimal() or not int(text):
        raise UserError(f'"{text}" is no number of processes. Write --jobs 2 or --jobs auto.')
    return int(text)
