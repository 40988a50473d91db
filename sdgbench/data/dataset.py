"""Datasets whose content comes from outside and is kept in parts."""

from pathlib import Path
from typing import Any, ClassVar

from sdgbench.data.parts import Arrays, Kept, Part, PartStore
from sdgbench.dataset import Dataset, MissingData, Recipe
from sdgbench.progress import Reporter


class RealDataset(Dataset):
    """Reads decoded parts from the data folder; ``sdgbench data`` puts them there."""

    parts: ClassVar[tuple[Part, ...]]
    twin: ClassVar[str]  # the embedded dataset that runs without any data

    def __init__(self, root: Path, options: Any, recipe: Recipe) -> None:
        super().__init__(root, options, recipe)
        self.store = PartStore(root)
        self._used: dict[str, Kept] = {}

    @classmethod
    def source_parts(cls, options: Any) -> list[str]:
        """The parts without which nothing can be learned."""
        raise NotImplementedError

    @classmethod
    def target_parts(cls, options: Any) -> dict[str, str]:
        """The part that each target comes from."""
        raise NotImplementedError

    @classmethod
    def import_extras(cls, folder: Path, root: Path) -> list[str]:
        """Take from a folder what is not a part; says what was taken."""
        return []

    def prepare(self, reporter: Reporter | None = None) -> None:
        """Say at once what is missing, before anything is trained."""
        missing = [name for name in self.source_parts(self.options) if not self.store.get(name)]
        targets = set(self.target_parts(self.options).values())
        found = [name for name in sorted(targets) if self.store.get(name)]
        if missing or not found:
            raise self._missing(missing or sorted(targets))

    def part(self, name: str) -> Arrays:
        """The content of a part."""
        kept = self.store.get(name)
        if kept is None:
            raise self._missing([name])
        self._used[name] = kept
        return kept.load()

    def data_flags(self) -> dict[str, Any]:
        """Which of the parts that were used are not what was published."""
        found: dict[str, Any] = {}
        for flag, state in (("unverified_data", "unverified"), ("regenerated", "regenerated")):
            names = sorted(name for name, kept in self._used.items() if kept.state == state)
            if names:
                found[flag] = names
        frost = {kept.facts.get("frost") for kept in self._used.values()} - {None}
        return {**found, **({"frost_overlays": sorted(frost)} if frost else {})}

    def _missing(self, names: list[str]) -> MissingData:
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        return MissingData(
            f"{self.name} needs data that {self.store.root.parent} does not have: {shown}. "
            f"Fetch it: sdgbench data prepare {self.name}. Or take what you have: sdgbench data "
            f"import {self.name} DIR. To run right now without any: --dataset {self.twin}"
        )
