"""What can be run: methods and datasets by name, and the images of a dataset."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgbench import registry
from sdgbench.api.arguments import Folder
from sdgbench.errors import unknown

if TYPE_CHECKING:
    from sdgbench.dataset import Dataset


def list_methods() -> dict[str, str]:
    """All methods: their names, each with a sentence on what it does.

    >>> "erm" in sdgbench.list_methods()
    True
    """
    return _list("method")


def list_datasets() -> dict[str, str]:
    """All datasets: their names, each with a sentence on what it is.

    >>> "digits-mini" in sdgbench.list_datasets()
    True
    """
    return _list("dataset")


def _list(kind: registry.Kind) -> dict[str, str]:
    return {
        name: " ".join(entry.doc.split("\n\n")[0].split()) or entry.error
        for name, entry in registry.entries(kind).items()
    }


def load_dataset(
    name: str,
    *,
    preset: str = "paper",
    options: Mapping[str, Any] | None = None,
    data: Folder = "data",
) -> "Dataset":
    """Open a dataset to look at its images; embedded ones are generated on the first call.

    ``options`` are the dataset's own (``sdgbench info NAME`` lists them).

    >>> train = sdgbench.load_dataset("digits-mini").source("train")
    >>> train.images.shape[1:], train.images.dtype
    ((3, 32, 32), dtype('uint8'))
    """
    dataset = new_dataset(name, preset, options or {}, Path(data))
    dataset.prepare()
    return dataset


def new_dataset(name: str, preset: str, options: Mapping[str, Any], data: Path) -> "Dataset":
    """A dataset that is not prepared: none of its images is read yet."""
    from sdgbench.dataset import Dataset
    from sdgbench.spec import parameters

    cls: type[Dataset] = registry.get("dataset", name).load()
    fields = parameters.fields(cls.Options)
    for key in options:
        if key not in fields:
            raise unknown(f"option of {name} called", key, fields)
    values = {
        key: parameters.parse_field(name, fields[key], parameters.as_text(value))
        for key, value in options.items()
    }
    return cls(data, parameters.build(cls.Options, values), cls.recipe(preset))
