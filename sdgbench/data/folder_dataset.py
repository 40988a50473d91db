"""Datasets that are folders of images: no code, only where they are and which domain to learn."""

import hashlib
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sdgbench.data import image_cache
from sdgbench.data.decoding import Fit, read_fitted
from sdgbench.data.domain import Domain, Split, label_type, lazy_rows
from sdgbench.data.listing import DEFAULT_LAYOUT, Item, Listing, list_images
from sdgbench.dataset import Dataset, param
from sdgbench.errors import BadData, MissingData, UserError, unknown
from sdgbench.recipe import Recipe
from sdgbench.reporter import Reporter, Silent
from sdgbench.task import Classification, Task

VERSION = 1  # of the decoder: another one makes another cache
SHOWN = 5  # names in a message


@dataclass(frozen=True)
class FolderOptions:
    """Where the images are and how they are divided."""

    root: str = param("", "the folder of the images; by default DIR/domain/class/*.jpg")
    source: str = param("", "the domain to learn from; the others are unseen")
    layout: str = param(DEFAULT_LAYOUT, "folders from the root down; {split} and * may occur")
    splits: str = param("", "lists of images (.txt, CoOp's .json), or a folder of them")
    holdout: float = param(0.1, "share of the source held out, by the hash of a path")
    fit: Literal["stretch", "crop"] = param("stretch", "how images get the recipe's size")
    broken: Literal["refuse", "skip"] = param("refuse", "what to do with images that are damaged")

    def __post_init__(self) -> None:
        if not 0 < self.holdout < 1:
            raise ValueError(f"holdout must lie between 0 and 1, not {self.holdout}")
        if self.root:  # the same run from any folder
            object.__setattr__(self, "root", str(Path(self.root).expanduser().absolute()))


class FolderDataset(Dataset):
    """Images in folders, decoded once at the recipe's size and read from the decoded file."""

    task = Classification(classes=7)  # without a folder: only synthetic twins use it
    Options = FolderOptions  # type: ignore[assignment]  # each dataset has fields of its own

    def __init__(self, root: Path, options: Any, recipe: Recipe) -> None:
        super().__init__(root, options, recipe)
        self._reporter: Reporter = Silent()

    @classmethod
    def listing(cls, options: Any) -> Listing:
        """All images that the options name."""
        if not options.root:
            raise MissingData(
                f"{cls.name} needs the folder of your images, with a folder per domain and in it "
                "one per class: --set root=DIR --set source=DOMAIN"
            )
        return list_images(Path(options.root), options.layout, options.splits)

    @classmethod
    def task_for(cls, options: Any) -> Task:
        """A classification into the classes of which the source has images."""
        if not options.root:
            return cls.task
        classes = cls.listing(options).classes(cls.source_name(options))
        return Classification(classes=len(classes), names=classes)

    @classmethod
    def source_name(cls, options: Any) -> str:
        """The domain that the options choose."""
        if not options.root:
            return "source"
        domains = cls.listing(options).domains
        if not options.source:
            raise UserError(
                f"Which domain is the source? {options.root} has {_some(domains)}: "
                f"--set source={domains[0]}"
            )
        if options.source not in domains:
            raise unknown(f"domain in {options.root} called", options.source, domains)
        source: str = options.source
        return source

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """All other domains, sorted."""
        if not options.root:
            return {"target": {}}
        source = cls.source_name(options)
        targets: dict[str, dict[str, Any]] = {
            name: {} for name in cls.listing(options).domains if name != source
        }
        if not targets:
            raise UserError(
                f"{options.root} has one domain only, {source}: there is nothing unseen to test "
                "on. Add a folder per domain next to it, or, to test on corrupted images: "
                "--dataset corrupted"
            )
        return targets

    def prepare(self, reporter: Reporter | None = None) -> None:
        """Check the folder and decode its images; says what is unusual before any training."""
        self._reporter = reporter or Silent()
        self.target_tags(self.options)
        self._check_classes()
        _ = self._decoded
        for split in ("train", "val"):
            if not len(self._rows_of_source(split)):
                raise UserError(
                    f"{self.options.root}: no image of {self.options.source} is left for "
                    f"{'training' if split == 'train' else 'validation'}. Change the share that is "
                    "held out: --set holdout=0.2"
                )

    def data_flags(self) -> dict[str, Any]:
        """Images and classes that were left out."""
        flags: dict[str, Any] = {}
        if self._decoded.broken:
            names = [self._paths[row] for row in sorted(self._decoded.broken)]
            flags["broken_images_skipped"] = names[: 4 * SHOWN]
            flags["broken_images"] = len(names)
        if left_out := self._classes_left_out():
            flags["classes_left_out"] = left_out
        return flags

    def source(self, split: Split) -> Domain:
        """The chosen domain, divided by its lists of images or by the hash of each path."""
        return self._domain(self.options.source, self._rows_of_source(split))

    def target(self, name: str) -> Domain:
        """Another domain in full, or the part that its lists call test."""
        items = [item for item in self._items if item.domain == name]
        tested = [item for item in items if item.split == "test"]
        return self._domain(name, self._rows(tested or items))

    @cached_property
    def _items(self) -> tuple[Item, ...]:
        return self.listing(self.options).items

    @cached_property
    def _paths(self) -> list[str]:
        """One path per row of the cache."""
        return list(dict.fromkeys(item.path for item in self._items))

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {path: row for row, path in enumerate(self._paths)}

    @cached_property
    def _labels(self) -> np.ndarray:
        """The class of each row; -1: a class that the source does not have."""
        numbers = {name: number for number, name in enumerate(self.task.names)}
        labels = np.full(len(self._paths), -1, np.int64)
        for item in self._items:
            labels[self._row_of[item.path]] = numbers.get(item.label, -1)
        return labels

    def _rows(self, items: list[Item]) -> np.ndarray:
        """The rows of the images that can be used."""
        rows = np.array(sorted({self._row_of[item.path] for item in items}), np.int64)
        usable = (self._labels[rows] >= 0) & ~np.isin(rows, list(self._decoded.broken))
        return rows[usable]

    def _rows_of_source(self, split: str) -> np.ndarray:
        items = [item for item in self._items if item.domain == self.options.source]
        named = [item for item in items if item.split in ("train", "val")]
        items = named or [item for item in items if item.split != "test"] or items
        if any(item.split == "val" for item in items):
            return self._rows([item for item in items if item.split == split])
        below = self.options.holdout
        return self._rows([i for i in items if (_share(i.path) < below) == (split == "val")])

    def _domain(self, name: str, rows: np.ndarray) -> Domain:
        if not len(rows):
            raise BadData(f"{self.options.root}: {name} has no image of a class of the source.")
        labels = self._labels[rows].astype(label_type(self.task.classes))
        return Domain(name, lazy_rows(self._decoded.images, rows), labels)

    @cached_property
    def _decoded(self) -> image_cache.Decoded:
        """All images at the recipe's size, decoded now if they were not before."""
        folder, size, fit = self._cache_folder(), self.recipe_used.image_size, self.options.fit
        base, paths = Path(self.options.root), self._paths
        if not (folder / image_cache.ABOUT).exists():
            megabytes = image_cache.bytes_needed(len(paths), size) / 1e6
            self._reporter.note(
                f"decoding {len(paths):,} images to {size[0]}x{size[1]} once, {megabytes:,.0f} MB "
                f"in {folder.parent}"
            )
            _delete_outdated(folder)

        def read(row: int) -> np.ndarray:
            return read_fitted(base / paths[row], size, _fit(fit))

        decoded = image_cache.decode(folder, len(paths), size, read, self._reporter, "decode")
        if decoded.broken:
            names = _some([paths[row] for row in sorted(decoded.broken)])
            text = f"{len(decoded.broken)} of {len(paths):,} images in {base} are damaged: {names}"
            if self.options.broken == "refuse":
                reason = decoded.broken[min(decoded.broken)].rpartition(": ")[2]
                raise BadData(
                    f"{text} ({reason}). Repair or remove them, or leave them out: "
                    "--set broken=skip"
                )
            self._reporter.note(f"{text}; they are left out")
        return decoded

    def _cache_folder(self) -> Path:
        """Named by root and size, then by what is in the folder: a changed file makes another."""
        base = Path(self.options.root)
        digest = hashlib.sha256(repr((VERSION, self.options.fit)).encode())
        for path in self._paths:
            state = (base / path).stat()
            digest.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
        place = hashlib.sha256(f"{base}\0{self.options.fit}".encode()).hexdigest()[:8]
        height, width = self.recipe_used.image_size
        return self.root / "decoded" / f"{place}-{height}x{width}-{digest.hexdigest()[:12]}"

    def _classes_left_out(self) -> list[str]:
        """Classes of other domains of which the source has no image."""
        return sorted({item.label for item in self._items} - set(self.task.names))

    def _check_classes(self) -> None:
        """Refuse fewer than two classes; say which classes are missing where."""
        options, listing = self.options, self.listing(self.options)
        if self.task.classes < 2:
            raise UserError(
                f"{options.source} in {options.root} has images of {self.task.classes} class only "
                f"({_some(self.task.names)}). A classification needs two: see --set layout"
            )
        note = self._reporter.note
        if listing.empty:
            note(f"folders without images: {_some(listing.empty)}")
        if left_out := self._classes_left_out():
            note(
                f"classes without images of {options.source} are left out everywhere: "
                f"{_some(left_out)}"
            )
        for domain in self.target_tags(options):
            if missing := sorted(set(self.task.names) - set(listing.classes(domain))):
                note(f"{domain} has no images of: {_some(missing)}")


def _share(path: str) -> float:
    """A number in [0, 1) that depends on a path only."""
    digest = hashlib.blake2b(path.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def _fit(text: str) -> Fit:
    return "crop" if text == "crop" else "stretch"


def _some(names: "tuple[str, ...] | list[str]") -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _delete_outdated(folder: Path) -> None:
    """Keep one cache per root and size: delete what an earlier content of the folder left."""
    prefix = folder.name.rpartition("-")[0]
    for other in folder.parent.glob(f"{prefix}-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
