"""Datasets that make their own images on first use and keep them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from sdgbench import storage
from sdgbench.dataset import Dataset, Domain, Split
from sdgbench.errors import UserError, explain_os_errors
from sdgbench.progress import Reporter, Silent

Images = tuple[np.ndarray, np.ndarray]


class EmbeddedDataset(Dataset):
    """Keeps each rendered set as two .npy files under its version, written once and locked."""

    rendered = 0  # sets made by this object, not found

    def prepare(self, reporter: Reporter | None = None) -> None:
        """Render what is missing."""
        reporter = reporter or Silent()
        splits: tuple[Split, ...] = ("train", "val")
        jobs: list[Callable[[], Domain]] = [partial(self.source, split) for split in splits]
        jobs += [partial(self.target, name) for name in self.target_tags(self.options)]
        begun = False
        for position, job in enumerate(jobs):
            before = self.rendered
            job()
            if self.rendered > before and not begun:
                reporter.begin("render", len(jobs), position)
                begun = True
            if begun:
                reporter.update(position + 1, None, 0.0)
        if begun:
            reporter.end()

    def cached(self, name: str, make: Callable[[], Images], key: str = "") -> Domain:
        """The domain from the cache, or rendered now. ``key`` names the file if not ``name``."""
        stem = (key or name).replace("/", "-")
        folder = self.root / f"v{self.version}"
        paths = (folder / f"{stem}-images.npy", folder / f"{stem}-labels.npy")
        if not all(path.exists() for path in paths):
            with storage.owned(folder, wait=600):
                if not all(path.exists() for path in paths):  # nobody made them meanwhile
                    self.rendered += 1
                    for path, array in zip(paths, make(), strict=True):
                        storage.write_atomic(path, lambda file, a=array: np.save(file, a))  # type: ignore[misc]
        images, labels = (_load(path) for path in paths)
        return Domain(name, images, labels)


def _load(path: Path) -> np.ndarray:
    with explain_os_errors("read", path):
        try:
            array: np.ndarray = np.load(path)
        except (ValueError, EOFError):
            raise UserError(f"{path} is damaged. Delete it: it will be made again.") from None
    return array
