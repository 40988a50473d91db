"""Bringing a dataset's parts into the data folder: from the network or from a folder."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from sdgbench.data.dataset import RealDataset
from sdgbench.data.download import download, unpack
from sdgbench.data.parts import Kept, Part, PartStore, take
from sdgbench.errors import UserError
from sdgbench.progress import Reporter

Outcome = tuple[Part, Kept | None, str]  # what is there now, or why it is not


def import_parts(
    dataset: type[RealDataset], folder: Path, root: Path, trust: bool
) -> Iterator[Outcome]:
    """Take every part that is found anywhere below a folder."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Give the folder that holds the files.")
    store = PartStore(root)
    for part in dataset.parts:
        try:
            yield part, take(store, part, folder, trust), ""
        except FileNotFoundError:
            yield part, store.get(part.name), "not found there"
        except UserError as error:
            yield part, store.get(part.name), str(error)


def fetch_parts(
    dataset: type[RealDataset], root: Path, reporter: Reporter, pause: float = 2.0
) -> Iterator[Outcome]:
    """Download, unpack and decode every part that is missing; what is there stays."""
    store = PartStore(root)
    folder = root / "downloads" / dataset.name
    for part in dataset.parts:
        kept = store.get(part.name)
        if kept:
            yield part, kept, "there already"
            continue
        try:
            yield part, _fetch(part, store, folder, reporter, pause), ""
        except FileNotFoundError:
            yield part, None, "the download does not hold it"
        except UserError as error:
            yield part, None, str(error)
    shutil.rmtree(folder / "unpacked", ignore_errors=True)


def _fetch(part: Part, store: PartStore, folder: Path, reporter: Reporter, pause: float) -> Kept:
    if part.archive:
        unpacked = folder / "unpacked" / part.archive.name
        if not (unpacked / ".complete").exists():
            unpack(download(part.archive, folder, reporter, pause), unpacked)
            (unpacked / ".complete").touch()
        return take(store, part, unpacked, published=True)
    if not any(file.urls for file in part.files):
        raise UserError(part.manual or f"{part.name} cannot be downloaded.")
    for file in part.files:
        download(file, folder, reporter, pause)
    return take(store, part, folder)
