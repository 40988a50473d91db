"""Which datasets a method is checked on, if none is named."""

from typing import Any

from sdgbench import registry
from sdgbench.data.generated_dataset import GeneratedDataset
from sdgbench.dataset import Dataset


def embedded_datasets() -> dict[str, type[Dataset]]:
    """The datasets that generate their data, so that no check has to download any."""
    entries = [entry for entry in registry.entries("dataset").values() if not entry.error]
    classes = {entry.name: entry.load() for entry in entries}
    return {name: cls for name, cls in classes.items() if issubclass(cls, GeneratedDataset)}


def representative_datasets() -> dict[str, bool]:
    """One embedded dataset of each task, network and image size.

    The value says whether the dataset itself is opened and a real run is made on it, which is so
    for the first one of each task. Of the others only the synthetic twins are used.
    """
    shapes: set[Any] = set()
    tasks: set[str] = set()
    chosen = {}
    for name, cls in embedded_datasets().items():
        recipe = cls.recipe("smoke")
        shape = (cls.task.kind, recipe.network, recipe.image_size)
        if shape not in shapes:
            chosen[name] = cls.task.kind not in tasks
            shapes.add(shape)
            tasks.add(cls.task.kind)
    return chosen


def skipped_datasets(method: str, datasets: list[str]) -> dict[str, str]:
    """The datasets whose task a method says that it skips, with its reason."""
    skips = registry.get("method", method).details.get("skips", {})
    classes: dict[str, Any] = {name: registry.get("dataset", name).load() for name in datasets}
    kinds = {name: cls.task.kind for name, cls in classes.items()}
    return {name: skips[kind] for name, kind in kinds.items() if kind in skips}
