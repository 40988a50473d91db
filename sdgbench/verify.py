"""Recomputes a record's numbers from its stored predictions and the data."""

import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from sdgbench import metrics, registry, storage
from sdgbench.analysis import hulls
from sdgbench.dataset import Dataset, Domain, MissingData
from sdgbench.errors import explain_os_errors
from sdgbench.evaluate import average
from sdgbench.record import Record
from sdgbench.spec import as_spec

NOT_RECOMPUTED = (
    "source validation, efficiency, cost, transport and areas in the embedding (nothing is stored "
    "to recompute them from)"
)
DISPENSABLE = (hulls.FILE,)  # files that no score depends on: published records leave them out


@dataclass(frozen=True)
class Verdict:
    """What came out for one record."""

    numbers: int  # that were recomputed
    differences: tuple[str, ...]  # in full sentences
    unchecked: tuple[str, ...] = ()  # domains whose data are not here

    @property
    def ok(self) -> bool:
        """Everything that could be recomputed came out the same."""
        return not self.differences


def verify(record: Record, folder: Path, data_root: Path) -> Verdict:
    """Recompute all scores of a record, domain by domain, and all means over them."""
    spec = as_spec(record)
    dataset = spec.dataset_class(data_root, spec.build_options(), spec.build_recipe())
    found = list(_file_differences(record, folder))
    decisions = _read_predictions(folder / "predictions.npz")
    unchecked: list[str] = []
    numbers = 0
    truths: dict[str, Domain] = {}
    for name, claimed in record["domains"].items():
        try:
            domain = _target(dataset, name, spec.build_recipe().test_images)
        except MissingData:
            unchecked.append(name)
            continue
        numbers += 2
        found += _differences(
            f"domain {name}", claimed, {"count": len(domain), "sha256": domain.sha256()}
        )
        truths[name] = domain
    for choice, claimed in record["results"].items():
        results = {}
        for name, domain in truths.items():
            predicted = decisions.get(f"{choice}/{name}", decisions.get(f"last/{name}"))
            if predicted is None or predicted.shape != domain.labels.shape:
                found.append(f"{choice}: there are no predictions for the {len(domain)} images "
                             f"of {name}.")  # fmt: skip
                continue
            confusion = metrics.confusion_matrix(
                np.asarray(domain.labels), predicted, dataset.task.classes
            )
            results[name] = dataset.task.score(confusion)
            told = claimed["per_domain"][name]  # a record of an earlier version tells fewer
            asked = {
                key: value
                for key, value in results[name].items()
                if key in told or key == dataset.task.metric
            }
            numbers += len(asked)
            found += _differences(f"{choice}, {name}", told, asked)
        if len(results) == len(record["domains"]):  # means need every domain
            means = average(results, dataset.task.metric, dataset.averages(list(results)))
            numbers += len(means)
            found += _differences(choice, claimed, means)
    return Verdict(numbers, tuple(found), tuple(unchecked))


def _target(dataset: Dataset, name: str, most: int | None) -> Domain:
    """Open a target; records of one dataset share the work."""
    return _cached_target(dataset.name, dataset.root, dataset.options, dataset.recipe_used,
                          name, most)  # fmt: skip


@lru_cache(maxsize=128)
def _cached_target(
    kind: str, root: Path, options: Any, recipe: Any, name: str, most: int | None
) -> Domain:
    dataset: Dataset = registry.get("dataset", kind).load()(root.parent, options, recipe)
    dataset.prepare()
    return dataset.target(name).take(most)


def _file_differences(record: Record, folder: Path) -> Iterator[str]:
    for name, claimed in record.get("files", {}).items():
        path = folder / name
        if not path.exists():
            if name not in DISPENSABLE:
                yield f"{name} is gone."
        elif storage.sha256(path) != claimed:
            yield f"{name} is not the file that the run wrote: its sha256 differs."


def _read_predictions(path: Path) -> dict[str, np.ndarray]:
    if not path.exists():
        return {}
    with explain_os_errors("read", path):
        try:
            with np.load(path, allow_pickle=False) as found:
                return {name: found[name] for name in found.files}
        except (ValueError, zipfile.BadZipFile, KeyError, EOFError):
            return {}  # its hash differs, which is said already


def _differences(where: str, claimed: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    return [
        f"{where}: {key} is {value!r}, and the record says {claimed.get(key)!r}."
        for key, value in actual.items()
        if not _same(claimed.get(key), value)
    ]


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, (float, int)):
        return math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(second, Mapping):
        return (
            isinstance(first, Mapping)
            and first.keys() == second.keys()
            and all(_same(first[key], second[key]) for key in second)
        )
    if isinstance(second, (list, tuple)):
        return (
            isinstance(first, (list, tuple))
            and len(first) == len(second)
            and all(_same(a, b) for a, b in zip(first, second, strict=True))
        )
    return bool(first == second)
