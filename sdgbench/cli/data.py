"""``sdgbench data``: download, import, verify and list real data."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sdgbench import registry
from sdgbench.cli import options, text
from sdgbench.cli.fetch import size
from sdgbench.errors import UserError

if TYPE_CHECKING:
    from sdgbench.data.downloaded_dataset import DownloadedDataset
    from sdgbench.data.obtain_splits import Outcome
    from sdgbench.data.splits import DataSplit


@click.group(
    "data",
    epilog="""\b
Examples:
  sdgbench data status
  sdgbench data prepare digits
  sdgbench data import digits ~/datasets
  sdgbench data prepare cifar10c --generate""",
)
def command() -> None:
    """Download, import, verify and list real data."""


def _downloaded_dataset(name: str) -> "type[DownloadedDataset]":
    from sdgbench.data.downloaded_dataset import DownloadedDataset

    cls = registry.get("dataset", name).load()
    if not issubclass(cls, DownloadedDataset):
        raise UserError(f"{name} has nothing to download: it is ready when it is first used.")
    return cls


name_argument = click.argument("name", shell_complete=options.completer("dataset"))


@command.command("status", epilog="Example: sdgbench data status digits")
@click.argument("name", default="", shell_complete=options.completer("dataset"))
@options.data
@options.plugins
def status(name: str, data: Path) -> None:
    """Show what is stored, whether it is verified, and what is missing."""
    from rich.console import Console
    from rich.table import Table

    from sdgbench.data.downloaded_dataset import DownloadedDataset
    from sdgbench.data.generated_dataset import GeneratedDataset
    from sdgbench.data.splits import SplitStore

    store = SplitStore(data)
    console = Console(highlight=False)
    for entry in [registry.get("dataset", name)] if name else registry.entries("dataset").values():
        cls = entry.load()
        if not issubclass(cls, DownloadedDataset):
            what = "embedded, needs no data"
            if not issubclass(cls, GeneratedDataset):
                what = "nothing to download; its options name the data"
            console.print(f"[bold]{entry.name}[/]: {what}")
            continue
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for title in (entry.name, "state", "images", "MB", "download", "from"):
            right = title in ("images", "MB", "download")
            table.add_column(title, justify="right" if right else "left")
        missing: list[DataSplit] = []
        shown: set[str] = set()  # archives whose size is in the table
        for split in cls.splits:
            try:
                stored = store.get(split.name)
            except UserError:
                table.add_row(split.name, "[bold red]damaged[/]", "", "", "")
                continue
            if stored is None:
                table.add_row(
                    split.name,
                    "[red]missing[/]",
                    f"{split.count:,}" if split.count else "",
                    "",
                    _download(split, shown),
                    "",
                )
                shown |= {file.name for file in split.downloads}
                missing.append(split)
                continue
            style = "green" if stored.state == "verified" else "yellow"
            table.add_row(
                split.name,
                f"[{style}]{stored.state}[/]",
                f"{stored.metadata['count']:,}",
                f"{stored.size() / 1e6:.0f}",
                "",
                Path(stored.metadata["origin"]).name,
            )
        console.print(table)
        by_hand = sum(not split.downloads for split in missing)
        files = {file.name: file for split in missing for file in split.downloads}
        for line in (
            f"to download: {size(files.values())} in {len(files)} files" if files else "",
            f"by hand: {by_hand} splits; how: sdgbench data prepare {entry.name}" * bool(by_hand),
        ):
            if line:
                console.print(f"  {line}", style="dim")
    console.print(f"in {data}; download what is missing: sdgbench data prepare NAME", style="dim")


def _download(split: "DataSplit", shown: set[str]) -> str:
    """How large the download of a split is; ``shown`` are files whose size the table has."""
    if not split.downloads:
        return "by hand"
    if {file.name for file in split.downloads} <= shown:
        return "same file"
    return size(split.downloads) or "yes"


@command.command("prepare", epilog="Example: sdgbench data prepare digits --data /datasets")
@name_argument
@click.option(
    "--generate", is_flag=True, help="Generate corrupted images here instead of downloading them."
)
@options.data
@options.plugins
def prepare(name: str, generate: bool, data: Path) -> int:
    """Download what is missing, with resume, mirrors and checksums."""
    from rich.console import Console

    from sdgbench.data.obtain_splits import fetch_splits
    from sdgbench.launch import progress

    cls = _downloaded_dataset(name)
    console = Console(highlight=False)
    with progress.reporter(console, f"preparing {name}") as reporter:
        if generate:
            generate_splits = getattr(cls, "generate", None)
            if generate_splits is None:
                raise UserError(f"{name} has nothing to generate. Omit --generate.")
            generate_splits(data, reporter)
            return 0
        outcomes = list(fetch_splits(cls, data, reporter))
    _report(outcomes, "Nothing was downloaded.")
    return int(any(outcome.failed for outcome in outcomes))


@command.command("import", epilog="Example: sdgbench data import digits ~/datasets")
@name_argument
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--trust", is_flag=True, help="Accept content with no known hash, as unverified data."
)
@options.data
@options.plugins
def import_(name: str, folder: Path, trust: bool, data: Path) -> int:
    """Import files that you have, in any usual layout, from anywhere below DIR.

    Exit code 1: a file is damaged, or could not be stored; the others were imported.
    """
    from sdgbench.data.obtain_splits import import_splits

    cls = _downloaded_dataset(name)
    outcomes = list(import_splits(cls, folder, data, trust))
    for line in cls.import_extras(folder, data):
        click.echo(line)
    failed = any(outcome.failed for outcome in outcomes)
    _report(outcomes, "" if failed else "Nothing was found.")
    return int(failed)


@command.command("verify", epilog="Example: sdgbench data verify digits")
@name_argument
@options.data
@options.plugins
def verify(name: str, data: Path) -> int:
    """Recompute the hashes of what is stored. Exit code 1: something has changed."""
    from sdgbench.data.splits import SplitStore

    store, splits = SplitStore(data), _downloaded_dataset(name).splits
    missing = changed = 0
    for split in splits:
        try:
            problem, stored = store.verify(split), store.get(split.name)
        except UserError as error:
            problem, stored = str(error), None
        missing += problem == "missing"
        changed += problem not in (None, "missing")
        text.echo(f"{split.name}: {problem or f'unchanged ({stored.state if stored else None})'}")
    if missing == len(splits):
        raise UserError(
            f"Nothing of {name} is in the folder '{data}', so there is nothing to verify. "
            f"Download it: sdgbench data prepare {name}"
        )
    return 1 if changed else 0


def _report(outcomes: "Iterable[Outcome]", if_none: str) -> None:
    """Print a line for each split; nothing at all is an error with this text, if there is one."""
    count = 0
    for split, stored, remark, _ in outcomes:
        count += stored is not None
        state = f"{stored.state}, {stored.metadata['count']:,} images" if stored else "missing"
        text.echo(
            f"{split.name}: {state}{f' ({remark})' if remark and stored else ''}"
            f"{f'. {remark}' if remark and not stored else ''}"
        )
    if if_none and not count:
        raise UserError(f"{if_none} See what is needed: sdgbench data status")
