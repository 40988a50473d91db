"""``sdgbench data``: bring real data into place and tell what is there."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sdgbench import registry
from sdgbench.cli import options
from sdgbench.errors import UserError

if TYPE_CHECKING:
    from sdgbench.data.dataset import RealDataset
    from sdgbench.data.fetch import Outcome


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
    """Fetch, import, verify and list real data."""


def _real(name: str) -> "type[RealDataset]":
    from sdgbench.data.dataset import RealDataset

    cls = registry.get("dataset", name).load()
    if not issubclass(cls, RealDataset):
        raise UserError(f"{name} is embedded: it makes its own data when it is first used.")
    return cls


name_argument = click.argument("name", shell_complete=options.completer("dataset"))


@command.command("status", epilog="Example: sdgbench data status digits")
@click.argument("name", default="", shell_complete=options.completer("dataset"))
@options.data
@options.plugins
def status(name: str, data: Path) -> None:
    """Show what is there, how far it can be trusted, and what is missing."""
    from rich.console import Console
    from rich.table import Table

    from sdgbench.data.dataset import RealDataset
    from sdgbench.data.parts import PartStore

    store = PartStore(data)
    console = Console(highlight=False)
    for entry in [registry.get("dataset", name)] if name else registry.entries("dataset").values():
        cls = entry.load()
        if not issubclass(cls, RealDataset):
            console.print(f"[bold]{entry.name}[/]: embedded, needs no data")
            continue
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for title in (entry.name, "state", "images", "MB", "from"):
            table.add_column(title, justify="right" if title in ("images", "MB") else "left")
        for part in cls.parts:
            kept = store.get(part.name)
            if kept is None:
                table.add_row(
                    part.name, "[red]missing[/]", f"{part.count:,}" if part.count else "", "", ""
                )
                continue
            style = "green" if kept.state == "verified" else "yellow"
            table.add_row(part.name, f"[{style}]{kept.state}[/]", f"{kept.facts['count']:,}",
                          f"{kept.size() / 1e6:.0f}", Path(kept.facts["origin"]).name)  # fmt: skip
        console.print(table)
    console.print(f"in {data}; fetch what is missing: sdgbench data prepare NAME", style="dim")


@command.command("prepare", epilog="Example: sdgbench data prepare digits --data /datasets")
@name_argument
@click.option("--generate", is_flag=True, help="Make corrupted images here instead of fetching.")
@options.data
@options.plugins
def prepare(name: str, generate: bool, data: Path) -> int:
    """Download what is missing, with resume, mirrors and checksums."""
    from rich.console import Console

    from sdgbench import progress
    from sdgbench.data.fetch import fetch_parts

    cls = _real(name)
    console = Console(highlight=False)
    with progress.reporter(console, f"preparing {name}") as reporter:
        if generate:
            make = getattr(cls, "generate", None)
            if make is None:
                raise UserError(f"{name} has nothing to generate. Leave --generate away.")
            make(data, reporter)
            return 0
        outcomes = list(fetch_parts(cls, data, reporter))
    _report(outcomes)
    failed = any(kept is None and not part.manual for part, kept, _ in outcomes)
    return 1 if failed else 0


@command.command("import", epilog="Example: sdgbench data import digits ~/datasets")
@name_argument
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--trust", is_flag=True,
              help="Accept content with no known hash, as unverified data.")  # fmt: skip
@options.data
@options.plugins
def import_(name: str, folder: Path, trust: bool, data: Path) -> int:
    """Take files you already have, in any usual layout, found anywhere below DIR."""
    from sdgbench.data.fetch import import_parts

    cls = _real(name)
    outcomes = list(import_parts(cls, folder, data, trust))
    for line in cls.import_extras(folder, data):
        click.echo(line)
    return _report(outcomes)


@command.command("verify", epilog="Example: sdgbench data verify digits")
@name_argument
@options.data
@options.plugins
def verify(name: str, data: Path) -> int:
    """Recompute the hashes of what is there."""
    from sdgbench.data.parts import PartStore

    store, bad = PartStore(data), 0
    for part in _real(name).parts:
        problem = store.verify(part)
        bad += problem not in (None, "missing")
        kept = store.get(part.name)
        click.echo(f"{part.name}: {problem or f'unchanged ({kept.state if kept else chr(63)})'}")
    return 1 if bad else 0


def _report(outcomes: "Iterable[Outcome]") -> int:
    there = 0
    for part, kept, why in outcomes:
        there += kept is not None
        state = f"{kept.state}, {kept.facts['count']:,} images" if kept else "missing"
        click.echo(f"{part.name}: {state}{f' ({why})' if why and kept else ''}"
                   f"{f'. {why}' if why and not kept else ''}")  # fmt: skip
    if not there:
        raise UserError("Nothing was found. See what is needed: sdgbench data status")
    return 0
