"""Protocols: what two runs must share to stand in one table."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sdgbench.records.schema import Record, Source


@dataclass(frozen=True, eq=False)  # shared by its runs: one object is one protocol
class Protocol:
    """What must be equal for two runs to be compared."""

    key: bytes = field(repr=False)
    dataset: str
    version: int
    options: Mapping[str, Any]
    option_changes: tuple[str, ...]
    preset: str
    recipe: Mapping[str, Any]
    recipe_changes: tuple[str, ...]
    source: Source
    metric: str
    domains: tuple[str, ...]
    tags: tuple[Mapping[str, Any], ...]  # one per domain
    hashes: tuple[str, ...]  # one per domain
    averages: Mapping[str, int]  # name: how many domains it covers; the first is ranked
    missing: tuple[str, ...]  # domains that were asked for, but without data
    precision: str  # of the computation
    elsewhere: bool = False  # models that were trained elsewhere: scored, never ranked

    @property
    def id(self) -> str:
        """A short hash: runs of one protocol have the same."""
        return hashlib.sha256(self.key).hexdigest()[:8]

    @property
    def reduced(self) -> str:
        """What is smaller than in the paper; empty: nothing."""
        return str(self.recipe.get("reduced") or "")

    @property
    def ranked(self) -> str:
        """The average that methods are ranked by."""
        return next(iter(self.averages))

    @property
    def task(self) -> str:
        """The kind of task."""
        return "segmentation" if self.metric == "mIoU" else "classification"

    def index_of(self, corruption: str | None, severity: int) -> int | None:
        """The index of the domain with this corruption and severity; None: there is none."""
        return next(
            (
                position
                for position, tags in enumerate(self.tags)
                if tags.get("severity") == severity
                and (severity == 0 or tags.get("corruption") == corruption)
            ),
            None,
        )


KnownProtocols = dict[bytes, Protocol]  # by their keys


def protocol_of(record: Record, known: KnownProtocols) -> Protocol:
    """The protocol of a record; one that is known already is shared."""
    spec, domains = record.spec, record.domains
    # What a search chose belongs to the method: its rows compare with those of the preset's recipe.
    searched = record.tuned.recipe if record.tuned else {}
    recipe = {**spec.recipe, **searched}
    averages = {name: average.domains for name, average in record.last.averages.items()}
    hashes = {name: domain.sha256 for name, domain in domains.items()}
    identity = [
        spec.dataset,
        spec.dataset_version,
        spec.options,
        spec.preset,
        {key: value for key, value in recipe.items() if key != "weights"},  # but their hash
        record.source,
        hashes,
        record.metric,
        averages,
        spec.precision,
    ]
    elsewhere = record.elsewhere is not None
    if elsewhere:
        identity.append("trained elsewhere")
    key = msgspec.json.encode(identity, order="sorted")
    if key not in known:
        known[key] = Protocol(
            key,
            spec.dataset,
            spec.dataset_version,
            spec.options,
            spec.option_changes,
            spec.preset,
            recipe,
            tuple(key for key in spec.recipe_changes if key not in searched),
            record.source,
            record.metric,
            tuple(domains),
            tuple(_tags(domain.tags) for domain in domains.values()),
            tuple(hashes.values()),
            averages,
            tuple(record.missing_domains),
            spec.precision,
            elsewhere,
        )
    return known[key]


def _tags(tags: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(tags.get("severity", 0), int):
        raise TypeError(f"{tags['severity']!r} is not a severity")
    return tags
