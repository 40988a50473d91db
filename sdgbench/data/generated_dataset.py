"""Datasets that generate their images on first use and cache them."""

from collections.abc import Callable
from functools import partial

import numpy as np

from sdgbench import storage
from sdgbench.data.domain import Arrays, Domain, Split, load_array
from sdgbench.dataset import Dataset
from sdgbench.reporter import Reporter, Silent


class GeneratedDataset(Dataset):
    """Caches each rendered domain as two .npy files under its version, written once and locked."""

    rendered = 0  # domains that this object rendered, rather than read from the cache

    def prepare(self, reporter: Reporter | None = None) -> None:
        """Render what is not cached yet."""
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

    def cached(self, name: str, render: Callable[[], Arrays], key: str = "") -> Domain:
        """A domain, cached or rendered now; ``key`` names its files, by default ``name``."""
        stem = (key or name).replace("/", "-")
        folder = self.root / f"v{self.version}"
        paths = (folder / f"{stem}-images.npy", folder / f"{stem}-labels.npy")
        if not all(path.exists() for path in paths):
            with storage.locked(folder, wait=600):
                if not all(path.exists() for path in paths):  # no other process did meanwhile
                    self.rendered += 1
                    for path, array in zip(paths, render(), strict=True):
                        storage.write_atomic(path, lambda file, a=array: np.save(file, a))  # type: ignore[misc]
        images, labels = (
            load_array(path, "Delete it: it will be generated again.") for path in paths
        )
        return Domain(name, images, labels)
