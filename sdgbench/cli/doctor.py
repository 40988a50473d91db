"""``sdgbench doctor``: describe this machine and what is installed and stored on it."""

import os
import shutil
from pathlib import Path

import click

from sdgbench.cli import options


@click.command("doctor", epilog="Example: sdgbench doctor --data /datasets")
@options.runs
@options.data
@options.plugins
def command(runs: Path, data: Path) -> None:
    """Check this machine: versions, device, memory, disk, stored data, plugins."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from sdgbench import registry
    from sdgbench.data.downloaded_dataset import DownloadedDataset
    from sdgbench.data.splits import SplitStore
    from sdgbench.records import provenance
    from sdgbench.training.device import Device, cpu_threads

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")

    code = provenance.code()
    commit = f", commit {code.commit[:10]}" if code.commit else ""
    table.add_row("sdgbench", f"{code.version}{commit}{' (edited)' if code.dirty else ''}")
    table.add_row("packages", ", ".join(f"{k} {v}" for k, v in provenance.packages().items()))
    device = Device("auto")
    table.add_row("device", f"{device.torch} ({device.hardware()})")
    table.add_row(
        "threads", f"{cpu_threads()} per run on a CPU (--threads); {os.cpu_count()} cores"
    )
    table.add_row("CUDA", _cuda())
    table.add_row("memory", _memory())
    for label, folder in (("runs", runs), ("data", data)):
        table.add_row(label, escape(_folder(folder)))
    console.print(table)
    store = SplitStore(data)
    for entry in registry.entries("dataset").values():
        if entry.error:
            continue
        cls = entry.load()
        if issubclass(cls, DownloadedDataset):
            there = sum(store.get(split.name) is not None for split in cls.splits)
            state = f"{there} of {len(cls.splits)} splits"
        else:
            size = sum(f.stat().st_size for f in (data / entry.name).rglob("*") if f.is_file())
            state = f"{size / 1e6:.1f} MB generated" if size else "embedded, generated on first use"
        console.print(f"  {entry.name}: {state}", markup=False, soft_wrap=True)
    kinds: tuple[registry.Kind, ...] = ("method", "dataset")
    for kind in kinds:
        for entry in registry.entries(kind).values():
            if entry.error:
                console.print(entry.error, style="red", markup=False)


def _cuda() -> str:
    import torch

    if not torch.cuda.is_available():
        return f"none usable (torch was built for CUDA {torch.version.cuda})"
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return ", ".join(f"{d.name} {d.total_memory / 1e9:.0f} GB" for d in devices)


def _memory() -> str:
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        free = os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError):
        return "unknown"
    return f"{pages * size / 1e9:.1f} GB, {free * size / 1e9:.1f} GB unused"


def _folder(folder: Path) -> str:
    """Whether a folder exists, the free space of its disk, and whether it can be written."""
    nearest = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    free = shutil.disk_usage(nearest).free / 1e9
    state = "exists" if folder.exists() else "will be created"
    access = "" if os.access(nearest, os.W_OK) else ", NOT writable"
    return f"{folder} ({state}, {free:.0f} GB free{access})"
