"""Bring a dataset's splits into the data folder: from the network or from a local folder."""

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sdgbench.data.archives import unpack
from sdgbench.data.download import download
from sdgbench.data.downloaded_dataset import DownloadedDataset
from sdgbench.data.network import NoNetwork, host_of, unreachable_hosts
from sdgbench.data.splits import (
    DataSplit,
    File,
    SplitStore,
    StoredSplit,
    Untrusted,
    import_split,
    paths_named,
)
from sdgbench.errors import UserError
from sdgbench.reporter import Reporter


class Outcome(NamedTuple):
    """What became of one split."""

    split: DataSplit
    stored: StoredSplit | None  # also one that was stored before
    remark: str = ""  # such as a reason
    failed: bool = False  # its files are there, but damaged, or it could not be written


def import_splits(
    dataset: type[DownloadedDataset], folder: Path, root: Path, trust: bool
) -> Iterator[Outcome]:
    """Import every split that is found anywhere below a folder, as files or in its archive."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Give the folder that contains the files.")
    store, unpacked = SplitStore(root), root / "downloads" / dataset.name / "unpacked"
    archives = {split.archive for split in dataset.splits if split.archive}
    published = {archive: path for archive in archives if (path := _find(archive, folder))}
    for split in dataset.splits:
        try:
            if split.archive in published:
                path = published[split.archive]
                files = _unpacked(unpacked / path.name, partial(Path, path))
                yield Outcome(split, import_split(store, split, files, published=True))
            else:
                yield Outcome(split, import_split(store, split, folder, trust))
        except FileNotFoundError:
            yield _outcome(store, split, *_why_absent(split, folder))
        except Untrusted as error:
            yield _outcome(store, split, str(error), failed=False)
        except UserError as error:
            yield _outcome(store, split, str(error), failed=True)
    shutil.rmtree(unpacked, ignore_errors=True)


def _find(archive: File, folder: Path) -> Path | None:
    """An archive below a folder that has its published checksum."""
    paths = (path for path in paths_named(folder, (archive.name,)) if path.is_file())
    return next((path for path in paths if archive.matches(path)), None)


def _why_absent(split: DataSplit, folder: Path) -> tuple[str, bool]:
    """Why a split was not found below a folder, and whether its archive is there but damaged."""
    if split.archive and (split.archive.md5 or split.archive.sha256):
        for path in paths_named(folder, (split.archive.name,)):
            if path.is_file():
                return f"{path} is damaged: it does not have its published checksum", True
    return "not found in this folder", False


def _unpacked(folder: Path, archive: Callable[[], Path]) -> Path:
    """The folder with an archive's content; it is unpacked once for all its splits."""
    if not (folder / ".complete").exists():
        unpack(archive(), folder)
        (folder / ".complete").touch()
    return folder


def _outcome(store: SplitStore, split: DataSplit, remark: str, failed: bool) -> Outcome:
    """What is stored of a split already, with a remark on why nothing was imported."""
    try:
        return Outcome(split, store.get(split.name), remark, failed)
    except UserError as error:
        return Outcome(split, None, f"{remark}; {error}", failed=True)


def fetch_splits(
    dataset: type[DownloadedDataset],
    root: Path,
    reporter: Reporter,
    pause: float = 2.0,
    only: Collection[str] | None = None,
) -> Iterator[Outcome]:
    """Download, unpack and decode every split that is missing; stored ones stay as they are.

    ``only`` names the splits that are wanted, by default all. If none of their servers can be
    reached, this is found out at once (``NoNetwork``).
    """
    store = SplitStore(root)
    folder = root / "downloads" / dataset.name
    wanted = [split for split in dataset.splits if only is None or split.name in only]
    missing = [split for split in wanted if _outcome(store, split, "", False).stored is None]
    unreachable = _check_network(dataset.name, missing)
    for split in wanted:
        try:
            if stored := store.get(split.name):
                yield Outcome(split, stored, "already stored")
                continue
            for file in split.downloads:
                _check_reachable(file, unreachable)
            yield Outcome(split, _fetch(split, store, folder, reporter, pause))
        except FileNotFoundError:
            remark = "the download does not contain it"
            yield Outcome(split, None, remark, failed=not split.manual)
        except UserError as error:
            yield Outcome(split, None, str(error), failed=not split.manual)
    shutil.rmtree(folder / "unpacked", ignore_errors=True)


def _check_network(dataset: str, splits: Sequence[DataSplit]) -> dict[str, str]:
    """The servers of some splits that cannot be reached, with the reason; refuses if all are."""
    downloadable = [split for split in splits if any(file.urls for file in split.downloads)]
    urls = {url for split in downloadable for file in split.downloads for url in file.urls}
    unreachable = unreachable_hosts(urls)
    if urls and not {host_of(url) for url in urls} - unreachable.keys():
        reasons = "; ".join(f"{host}: {reason}" for host, reason in sorted(unreachable.items()))
        names = ", ".join(split.name for split in downloadable[:4])
        more = f" and {len(downloadable) - 4} more" if len(downloadable) > 4 else ""
        raise NoNetwork(
            f"No network: no server of {names}{more} can be reached ({reasons}). Download the "
            f"files on another machine, then: sdgbench data import {dataset} DIR"
        )
    return unreachable


def _check_reachable(file: File, unreachable: Mapping[str, str]) -> None:
    hosts = {host_of(url) for url in file.urls}
    if hosts and hosts <= unreachable.keys():
        reasons = "; ".join(f"{host}: {unreachable[host]}" for host in sorted(hosts))
        raise UserError(f"The server of {file.name} cannot be reached ({reasons}).")


def _fetch(
    split: DataSplit, store: SplitStore, folder: Path, reporter: Reporter, pause: float
) -> StoredSplit:
    if split.archive:
        get = partial(download, split.archive, folder, reporter, pause)
        unpacked = _unpacked(folder / "unpacked" / split.archive.name, get)
        return import_split(store, split, unpacked, published=True)
    if not any(file.urls for file in split.files):
        raise UserError(split.manual or f"{split.name} cannot be downloaded.")
    for file in split.files:
        download(file, folder, reporter, pause)
    return import_split(store, split, folder)
