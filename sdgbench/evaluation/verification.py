"""Recomputes a record's numbers from its stored predictions and the data."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from sdgbench import registry, storage
from sdgbench.data.domain import Domain
from sdgbench.dataset import Dataset
from sdgbench.errors import MissingData
from sdgbench.evaluation import claims, hulls, metrics
from sdgbench.evaluation.evaluator import summarise
from sdgbench.records import badges, provenance
from sdgbench.records.arrays import PREDICTIONS, read_arrays
from sdgbench.records.schema import ChoiceResult, Record
from sdgbench.records.scores import DomainScore
from sdgbench.version import version

NOT_RECOMPUTED = (
    "source validation, efficiency, cost, transport, areas in the embedding, times, machine and "
    "versions (nothing is stored to recompute them from)"
)
# Files that no score depends on: published records leave them out.
DISPENSABLE = (hulls.FILE, claims.CHECKPOINT)
State = Literal["verified", "unverified", "differs"]


@dataclass(frozen=True)
class Verdict:
    """What came out for one record."""

    numbers: int  # that were recomputed
    differences: tuple[str, ...]  # in full sentences
    unchecked: tuple[str, ...] = ()  # domains whose data are not here
    unconfirmed: tuple[str, ...] = ()  # what else nothing here confirms, in full sentences

    @property
    def state(self) -> State:
        """Unverified: nothing differs, but not everything could be checked."""
        if self.differences:
            return "differs"
        return "unverified" if self.unchecked or self.unconfirmed else "verified"

    @property
    def is_complete(self) -> bool:
        """Every score was recomputed and came out the same, and nothing else is open."""
        return self.state == "verified"

    def as_file(self, record: Record, folder: Path) -> badges.Verification:
        """What ``verification.json`` says of a complete verification of this folder."""
        return badges.Verification(
            id=record.id, numbers=self.numbers, files=badges.hashes(folder), sdgbench=version()
        )


def verify(record: Record, folder: Path, data_root: Path) -> Verdict:
    """Recompute all scores of a record, domain by domain, and all means over them."""
    spec = record.spec
    if not record.elsewhere:
        provenance.check_known(record)
    spec.check_dataset_version()
    dataset = spec.dataset_class(data_root, spec.build_options(), spec.build_recipe())
    recipe = spec.build_recipe()
    predictions = read_arrays(folder / PREDICTIONS)
    differences = [
        *claims.contradictions(record, folder),
        *claims.domains_of_predictions(record, predictions),
        *_file_differences(record, folder),
    ]
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
            source = _source(dataset, split)
        except MissingData:
            unchecked.append(f"the source ({split})")
            continue
        numbers += 2
        actual = {"count": len(source), "sha256": source.sha256()}
        differences += _differences(f"source, {split}", msgspec.to_builtins(stated), actual)
    unconfirmed = [*claims.unconfirmed(record), *_hidden_flags(record, dataset, truths, unchecked)]
    return Verdict(numbers, tuple(differences), tuple(unchecked), tuple(unconfirmed))


def _hidden_flags(
    record: Record, dataset: Dataset, domains: Iterable[str], unchecked: Sequence[str]
) -> Iterator[str]:
    """What the data are marked with here; the marks of a dataset are those of what it opened."""
    if unchecked or type(dataset).data_flags is Dataset.data_flags:
        return
    dataset.prepare()
    for name in domains:
        dataset.target(name)
    if record.elsewhere is None:
        dataset.source("train")
    yield from claims.hidden_flags(record.flags, dataset.data_flags())


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
