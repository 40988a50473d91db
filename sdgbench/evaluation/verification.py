"""Recomputes a record's numbers from its stored predictions and the data."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sdgbench import registry, storage
from sdgbench.data.domain import Domain
from sdgbench.dataset import Dataset
from sdgbench.errors import MissingData
from sdgbench.evaluation import hulls, metrics
from sdgbench.evaluation.claims import contradictions, missing_hashes
from sdgbench.evaluation.evaluator import summarise
from sdgbench.records import badges
from sdgbench.records.arrays import PREDICTIONS, read_arrays
from sdgbench.records.schema import ChoiceResult, Record
from sdgbench.records.scores import DomainScore
from sdgbench.version import version

NOT_RECOMPUTED = (
    "source validation, efficiency, cost, transport and areas in the embedding (nothing is stored "
    "to recompute them from)"
)
DISPENSABLE = (
    hulls.FILE,
    "checkpoint.pt",
)  # files that no score depends on: published records leave them out


@dataclass(frozen=True)
class Verdict:
    """What came out for one record."""

    numbers: int  # that were recomputed
    differences: tuple[str, ...]  # in full sentences
    unchecked: tuple[str, ...] = ()  # domains whose data are not here
    unhashed: tuple[str, ...] = ()  # files without a hash in the record

    @property
    def ok(self) -> bool:
        """Everything that could be recomputed came out the same."""
        return not self.differences

    @property
    def is_complete(self) -> bool:
        """Every score was recomputed, and came out the same."""
        return self.ok and not self.unchecked

    def as_file(self, record: Record, folder: Path) -> badges.Verification:
        """What ``verification.json`` says of a complete verification of this folder."""
        return badges.Verification(
            id=record.id, numbers=self.numbers, files=badges.hashes(folder), sdgbench=version()
        )


def verify(record: Record, folder: Path, data_root: Path) -> Verdict:
    """Recompute all scores of a record, domain by domain, and all means over them."""
    spec = record.spec
    spec.check_dataset_version()
    dataset = spec.dataset_class(data_root, spec.build_options(), spec.build_recipe())
    recipe = spec.build_recipe()
    differences = [*contradictions(record, folder), *_file_differences(record, folder)]
    predictions = read_arrays(folder / PREDICTIONS)
    unchecked: list[str] = []
    numbers = 0
    truths: dict[str, Domain] = {}
    for name, content in record.domains.items():
        try:
            domain = _target(dataset, name, recipe.test_images)
        except MissingData:
            unchecked.append(name)
            continue
        numbers += 2
        actual = {"count": len(domain), "sha256": domain.sha256()}
        differences += _differences(f"domain {name}", msgspec.to_builtins(content), actual)
        truths[name] = domain
    for choice, claimed in record.results.items():
        scores: dict[str, DomainScore] = {}
        for name, domain in truths.items():
            shared = claimed.step == record.last.step  # one set of weights, stored once
            fallback = predictions.get(f"last/{name}") if shared else None
            predicted = predictions.get(f"{choice}/{name}", fallback)
            if predicted is None or predicted.shape != domain.labels.shape:
                differences.append(
                    f"{choice}: there are no predictions for the {len(domain)} images of {name}."
                )
                continue
            scores[name] = dataset.task.score(
                metrics.confusion_matrix(np.asarray(domain.labels), predicted, dataset.task.classes)
            )
            stored = msgspec.to_builtins(claimed.per_domain.get(name, DomainScore()))
            recomputed = {
                key: value
                for key, value in msgspec.to_builtins(scores[name]).items()
                if key in stored or key == dataset.task.metric  # early records hold fewer
            }
            numbers += len(recomputed)
            differences += _differences(f"{choice}, {name}", stored, recomputed)
        if len(scores) == len(record.domains):  # means need every domain
            actual_means = _means(
                summarise(scores, dataset.task.metric, dataset.averages(list(scores)))
            )
            numbers += len(actual_means)
            differences += _differences(choice, _means(claimed), actual_means)
    for split, stated in (("train", record.source.train), ("val", record.source.val)):
        if not stated.sha256:
            continue
        try:
            actual_source = _source(dataset, split).sha256()
        except MissingData:
            unchecked.append(f"the source ({split})")
            continue
        numbers += 1
        if actual_source != stated.sha256:
            differences.append(f"source, {split}: its sha256 is {actual_source}, not the record's.")
    return Verdict(numbers, tuple(differences), tuple(unchecked), tuple(missing_hashes(record)))


def _means(result: ChoiceResult) -> dict[str, Any]:
    """The numbers of a result that follow from its domains."""
    values: dict[str, Any] = msgspec.to_builtins(result)
    return {key: values[key] for key in ("average", "domains", "averages", "worst", "worst_domain")}


def _target(dataset: Dataset, name: str, most: int | None) -> Domain:
    """Open a target; records of one dataset share the work."""
    return _cached_target(
        dataset.name, dataset.root, dataset.options, dataset.recipe_used, name, most
    )


def _source(dataset: Dataset, split: Any) -> Domain:
    """Open a split of the source; records of one dataset share the work."""
    return _cached_source(dataset.name, dataset.root, dataset.options, dataset.recipe_used, split)


@lru_cache(maxsize=8)
def _cached_source(kind: str, root: Path, options: Any, recipe: Any, split: Any) -> Domain:
    dataset: Dataset = registry.get("dataset", kind).load()(root.parent, options, recipe)
    dataset.prepare()
    return dataset.source(split)


@lru_cache(maxsize=128)
def _cached_target(
    kind: str, root: Path, options: Any, recipe: Any, name: str, most: int | None
) -> Domain:
    dataset: Dataset = registry.get("dataset", kind).load()(root.parent, options, recipe)
    dataset.prepare()
    return dataset.target(name).subsample(most)


def _file_differences(record: Record, folder: Path) -> Iterator[str]:
    for name, claimed in record.files.items():
        path = folder / name
        if not path.exists():
            if name not in DISPENSABLE:
                yield f"{name} is gone."
        elif storage.sha256(path) != claimed:
            yield f"{name} is not the file that the run wrote: its sha256 differs."


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
