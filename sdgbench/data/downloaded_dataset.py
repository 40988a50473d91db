"""Datasets whose content is downloaded or imported, and stored split by split."""

from pathlib import Path
from typing import Any, ClassVar

from sdgbench.data.domain import Arrays
from sdgbench.data.splits import DataSplit, SplitStore, StoredSplit
from sdgbench.dataset import Dataset
from sdgbench.errors import MissingData
from sdgbench.recipe import Recipe
from sdgbench.reporter import Reporter


class DownloadedDataset(Dataset):
    """Reads decoded splits from the data folder; ``sdgbench data`` puts them there."""

    splits: ClassVar[tuple[DataSplit, ...]]
    twin: ClassVar[str]  # the embedded dataset to run when there is no data

    def __init__(self, root: Path, options: Any, recipe: Recipe) -> None:
        super().__init__(root, options, recipe)
        self.store = SplitStore(root)
        self._loaded: dict[str, StoredSplit] = {}

    @classmethod
    def source_splits(cls, options: Any) -> list[str]:
        """The splits that training needs."""
        raise NotImplementedError

    @classmethod
    def target_splits(cls, options: Any) -> dict[str, str]:
        """The split that each target is read from."""
        raise NotImplementedError

    @classmethod
    def wanted_splits(cls, options: Any) -> list[str]:
        """All splits that a run with these options can use, in their order."""
        wanted = {*cls.source_splits(options), *cls.target_splits(options).values()}
        return [split.name for split in cls.splits if split.name in wanted]

    @classmethod
    def import_extras(cls, folder: Path, root: Path) -> list[str]:
        """Import from a folder what is not a split; returns lines that report what was imported."""
        return []

    def prepare(self, reporter: Reporter | None = None) -> None:
        """Raise MissingData before anything is trained if the source or all targets are missing."""
        missing = [name for name in self.source_splits(self.options) if not self.store.get(name)]
        targets = sorted(set(self.target_splits(self.options).values()))
        if missing or not any(self.store.get(name) for name in targets):
            raise self._missing(missing or targets)

    def load_split(self, name: str) -> Arrays:
        """The images and labels of a split, memory-mapped."""
        stored = self.store.get(name)
        if stored is None:
            raise self._missing([name])
        self._loaded[name] = stored
        return stored.load()

    def data_flags(self) -> dict[str, Any]:
        """Which of the splits that were loaded are not what was published."""
        flags: dict[str, Any] = {}
        for flag, state in (("unverified_data", "unverified"), ("regenerated", "regenerated")):
            names = sorted(name for name, stored in self._loaded.items() if stored.state == state)
            if names:
                flags[flag] = names
        frost = {stored.metadata.get("frost") for stored in self._loaded.values()} - {None}
        return {**flags, **({"frost_overlays": sorted(frost)} if frost else {})}

    def _missing(self, names: list[str]) -> MissingData:
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        return MissingData(
            f"{self.name} needs data that is not in the folder '{self.store.root.parent}': "
            f"{shown}. Download it: sdgbench data prepare {self.name}. Or import "
            f"files that you have: sdgbench data import {self.name} DIR. Or run without any: "
            f"--dataset {self.twin}"
        )
