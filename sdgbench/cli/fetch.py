"""Fetch what the runs of a command lack, after asking on a terminal or with ``--download``."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from sdgbench.data.downloaded_dataset import DownloadedDataset
    from sdgbench.data.splits import DataSplit, File
    from sdgbench.spec.run_spec import RunSpec

Missing = tuple["type[DownloadedDataset]", "list[DataSplit]"]


def fetch_missing(
    specs: "Sequence[RunSpec]", runs: Path, data: Path, download: bool, console: "Console"
) -> None:
    """Download what unfinished runs need and do not have, if the user wants that.

    Without ``--download`` and without a terminal nothing is asked and nothing is fetched.
    """
    from sdgbench.data.obtain_splits import fetch_splits
    from sdgbench.launch import progress

    if not (download or (sys.stdin.isatty() and console.is_terminal)):
        return
    for dataset, splits in missing(specs, runs, data):
        if not (download or _agreed(dataset.name, splits, data)):
            continue
        with progress.reporter(console, f"preparing {dataset.name}") as reporter:
            names = [split.name for split in splits]
            outcomes = list(fetch_splits(dataset, data, reporter, only=names))
        for outcome in outcomes:
            if outcome.stored is None:
                line = f"{outcome.split.name}: missing. {outcome.remark}"
                console.print(line, markup=False, soft_wrap=True)


def missing(specs: "Sequence[RunSpec]", runs: Path, data: Path) -> list[Missing]:
    """By dataset, the splits that can be downloaded and that unfinished runs lack."""
    from sdgbench.data.downloaded_dataset import DownloadedDataset
    from sdgbench.data.splits import SplitStore
    from sdgbench.records.store import Store

    wanted: dict[type[DownloadedDataset], dict[str, None]] = {}
    for spec in specs:
        dataset = spec.dataset_class
        if issubclass(dataset, DownloadedDataset) and Store(runs).state(spec) != "done":
            names = dataset.wanted_splits(spec.build_options())
            wanted.setdefault(dataset, {}).update(dict.fromkeys(names))
    store, found = SplitStore(data), []
    for dataset, lacked in wanted.items():
        splits = [split for split in dataset.splits if split.name in lacked and split.downloads]
        if lacking := [split for split in splits if store.get(split.name) is None]:
            found.append((dataset, lacking))
    return found


def _agreed(name: str, splits: "Sequence[DataSplit]", data: Path) -> bool:
    """Show what would be fetched, how large it is and where it goes, and ask."""
    files = {file.name: file for split in splits for file in split.downloads}
    click.echo(f"{name} lacks {', '.join(split.name for split in splits)}.")
    for file in files.values():
        click.echo(f"  {file.name}  {size([file]) or 'size not known'}  {file.urls[0]}")
    total = size(files.values())
    return click.confirm(f"Download {total or 'them'} to {data}?", default=True)


def size(files: "Iterable[File]") -> str:
    """How much there is to download; empty: not known."""
    total = sum(file.size or file.about for file in files)
    unit, factor = ("GB", 1e9) if total >= 1e9 else ("MB", 1e6)
    return f"{total / factor:.1f} {unit}" if total else ""
