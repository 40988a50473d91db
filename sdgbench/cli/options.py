"""Options that several verbs share."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from sdgbench import registry
from sdgbench.api.arguments import names, numbers, processes
from sdgbench.errors import UserError

if TYPE_CHECKING:
    from sdgbench.leaderboard import Leaderboard

__all__ = ["names", "numbers", "processes"]  # also for the verbs

F = TypeVar("F", bound=Callable[..., Any])


def _add_plugins(ctx: click.Context, _: click.Parameter, files: tuple[str, ...]) -> None:
    for file in files:
        registry.add_plugin(Path(file))


plugins = click.option(
    "--plugin",
    multiple=True,
    metavar="FILE.py",
    is_eager=True,
    expose_value=False,
    callback=_add_plugins,
    help=f"Also load methods and datasets from this file (or set {registry.PLUGIN_VARIABLE}).",
)

runs = click.option(
    "--runs",
    metavar="DIR",
    default="runs",
    envvar="SDGBENCH_RUNS",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder of the runs (or set SDGBENCH_RUNS).",
)

several_runs = click.option(
    "--runs",
    metavar="DIR",
    multiple=True,
    default=("runs",),
    envvar="SDGBENCH_RUNS",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder of runs; may be given several times (or set SDGBENCH_RUNS).",
)

_merge_versions = click.option(
    "--merge-versions",
    is_flag=True,
    help="Average over runs of different versions of a method's file; else they are rows of "
    "their own, such as mada @3f2a.",
)
_strict = click.option(
    "--strict",
    is_flag=True,
    help="Only runs of one environment per table: device, threads, commit, versions.",
)


_without = click.option(
    "--without",
    default="",
    metavar="FLAGS",
    help="Leave out runs with these flags, such as reconstruction or corruption_overlap.",
)


def grouping(function: F) -> F:
    """Add the options that say which runs may share a row and a table."""
    return _merge_versions(_strict(_without(function)))


data = click.option(
    "--data",
    metavar="DIR",
    default="data",
    envvar="SDGBENCH_DATA",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder of the data (or set SDGBENCH_DATA).",
)


def completer(kind: registry.Kind) -> Callable[..., list[CompletionItem]]:
    """Make the shell completion for the last of comma-separated names."""

    def complete(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
        before, comma, last = text.rpartition(",")
        names = [name for name in registry.entries(kind) if name.startswith(last)]
        return [CompletionItem(f"{before}{comma}{name}") for name in names]

    return complete


def registered(kind: registry.Kind, text: str, option: str) -> list[str]:
    """Methods or datasets: names with commas, patterns such as ``mada*``, or ``all``."""
    return registry.expand(kind, names(text, option))


def names_or_all(text: str, option: str) -> list[str]:
    """Split comma-separated names; empty, which means all, where the option was not given."""
    return names(text, option) if text else []


@dataclass(frozen=True)
class Selection:
    """The leaderboards that a command is about."""

    boards: "list[Leaderboard]"
    skipped: int  # records that could not be read

    @property
    def exit_code(self) -> int:
        """1 if something was skipped: a script must notice it."""
        return 1 if self.skipped else 0

    def of(self, methods: Sequence[str]) -> "list[Leaderboard]":
        """The leaderboards with the rows of these methods only; empty: all."""
        from sdgbench.leaderboard import selection

        methods = selection.matching_methods(self.boards, methods)
        return [board.only(methods) for board in selection.with_methods(self.boards, methods)]


def select(
    runs: Sequence[Path],
    dataset: str,
    preset: str,
    choices: Collection[str] = ("last", "val"),
    classes: bool = True,
    merge_versions: bool = False,
    strict: bool = False,
    without: str = "",
) -> Selection:
    """Read runs; what was skipped goes to the error stream."""
    from sdgbench.leaderboard import selection

    datasets, presets = names_or_all(dataset, "--dataset"), names_or_all(preset, "--preset")
    loaded = selection.read(runs, choices, classes)
    for remark in selection.remarks(loaded):
        click.echo(remark, err=True)
    kept = selection.without_flags(loaded.runs, names_or_all(without, "--without"))
    boards = selection.select(kept, datasets, presets, merge_versions, strict)
    return Selection(boards, len(loaded.problems))


def assignment(text: str, option: str) -> tuple[str, str]:
    """Split key=value."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise UserError(f'"{text}" is not of the form {option} key=value.')
    return key.strip(), value.strip()
