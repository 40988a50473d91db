"""Records cut down to what tables need: thousands of them fit into memory."""

import gc
import json
import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from sdgbench.errors import UserError
from sdgbench.leaderboard.environment import Environment, environment_of
from sdgbench.leaderboard.protocol import KnownProtocols, Protocol, protocol_of
from sdgbench.records.badges import Badge, badge_of
from sdgbench.records.consistency import why_unverified
from sdgbench.records.folders import run_folders
from sdgbench.records.reading import read
from sdgbench.records.schema import (
    Choice,
    ChoiceResult,
    Cost,
    Efficiency,
    Embedding,
    Flags,
    Machine,
    Record,
    Transport,
    Tuned,
)
from sdgbench.records.store import Store

CHOICES: tuple[Choice, ...] = ("last", "val")
ABSENT = math.nan  # a class that does not occur has no score


@dataclass(frozen=True, slots=True)
class Scores:
    """What one choice of weights reached, as fractions."""

    step: int
    source: float | None  # on held-out source
    values: Sequence[float]  # one per domain of the protocol
    averages: Sequence[float]  # one per average of the protocol
    worst: float
    worst_domain: str
    per_class: Sequence[float] = ()  # domains x classes, row by row; NaN: the class is absent


@dataclass(frozen=True, slots=True)
class Run:
    """One finished run: a method with its parameters, and a seed."""

    id: str
    method: str
    params: str  # as JSON, keys sorted
    seed: int
    protocol: Protocol
    scores: Mapping[str, Scores]  # by choice of weights: "last", and "val" where there was one
    efficiency: Efficiency
    cost: Cost
    flags: Flags
    machine: str
    threads: int
    environment: Environment  # how it was computed
    method_file: str  # hash of the method's source file
    classes: tuple[str, ...] = ()  # their names, where the record has a score for each
    path: str = ""  # the run's folder; a Path object would take a tenth of the reading time
    transport: Transport | None = None  # how far augmented domains are; None: there are none
    embedding: Embedding | None = None  # what area they cover
    tuned: Tuned | None = None  # how a search chose the setting; None: none did
    badge: Badge | None = None  # how far it is confirmed; None: it was not submitted
    unverified: str = ""  # why its record cannot be verified; empty: nothing speaks against it

    @property
    def folder(self) -> Path | None:
        """The run's folder."""
        return Path(self.path) if self.path else None

    def score(self, domain: str, choice: str = "last") -> float:
        """The score on a domain."""
        return self.scores[choice].values[self.protocol.domains.index(domain)]


def as_run(
    record: Record,
    path: str = "",
    known: KnownProtocols | None = None,
    choices: Collection[str] = CHOICES,
    classes: bool = True,
) -> Run:
    """Cut a record down; UserError: its parts do not fit together.

    Runs of one protocol share it, if the same ``known`` is given for all of them. Without
    ``classes`` the scores of classes are left out, and only their names are kept.
    """
    try:
        return _as_run(record, path, known if known is not None else {}, choices, classes)
    except (KeyError, TypeError, ValueError) as error:
        where = f"{path}/record.json" if path else f"The record {record.id!r}"
        reason = f"{type(error).__name__}: {error}"
        raise UserError(
            f"{where} does not hold what a record of this sdgbench holds ({reason}). "
            "Move it out of the runs folder."
        ) from error


def _as_run(
    record: Record, path: str, known: KnownProtocols, choices: Collection[str], with_classes: bool
) -> Run:
    spec = record.spec
    protocol = protocol_of(record, known)
    classes = _classes(record)
    scored = classes if with_classes else ()
    return Run(
        id=record.id,
        method=spec.method,
        params=json.dumps(spec.params, sort_keys=True),
        seed=spec.seed,
        protocol=protocol,
        scores={
            name: _scores(result, protocol, scored)
            for name, result in record.results.items()
            if name in choices
        },
        efficiency=record.efficiency,
        cost=record.cost,
        flags=record.flags,
        machine=_machine(record.machine),
        threads=record.machine.threads,
        environment=environment_of(record),
        method_file=record.code.method_file_sha256 or "",
        classes=classes,
        path=path,
        transport=record.transport,
        embedding=record.embedding,
        tuned=record.tuned,
        badge=badge_of(path) if path else None,
        unverified=why_unverified(record, path),
    )


def _machine(machine: Machine) -> str:
    """The machine in words."""
    return _machine_text(
        machine.hardware, machine.device, machine.threads, machine.precision, machine.runs_beside
    )


@lru_cache  # thousands of runs have the same
def _machine_text(hardware: str, device: str, threads: int, precision: str, others: int) -> str:
    parts = [
        hardware,
        device,
        f"threads: {threads}" if threads else "",
        precision,
        f"beside {others} other run{'s' * (others > 1)}" if others else "",
    ]
    return ", ".join(filter(None, parts))


def _classes(record: Record) -> tuple[str, ...]:
    """The names of the classes; numbers where a record has scores but no names."""
    first = next(iter(record.last.per_domain.values()), None)
    count = len(first.per_class) if first else 0
    names = tuple(record.classes)
    return _named(names if len(names) == count else (None,) * count)


@lru_cache  # thousands of runs have the same
def _named(names: tuple[str | None, ...]) -> tuple[str, ...]:
    return tuple(f"class {number}" if name is None else name for number, name in enumerate(names))


def _scores(result: ChoiceResult, protocol: Protocol, classes: Sequence[str]) -> Scores:
    per_domain = [result.per_domain[name] for name in protocol.domains]
    per_class = array("d")
    if classes:
        for name, domain in zip(protocol.domains, per_domain, strict=True):
            if len(domain.per_class) != len(classes):
                raise ValueError(f"{name} has {len(domain.per_class)} classes")
            per_class.extend(ABSENT if value is None else value for value in domain.per_class)
    return Scores(
        step=result.step,
        source=result.source_val,
        values=array("d", [domain.score(protocol.metric) for domain in per_domain]),
        averages=array("d", [result.averages[name].mean for name in protocol.averages]),
        worst=result.worst,
        worst_domain=result.worst_domain,
        per_class=per_class,
    )


@dataclass
class Loaded:
    """What folders of runs hold."""

    runs: list[Run] = field(default_factory=list)
    problems: list[UserError] = field(default_factory=list)  # records that were skipped, and why
    empty: list[Path] = field(default_factory=list)  # folders without a record


def load(
    folders: Iterable[Path], choices: Collection[str] = CHOICES, classes: bool = True
) -> Loaded:
    """Read all records of some runs folders; what cannot be read is named and skipped."""
    loaded = Loaded()
    known: KnownProtocols = {}
    with _no_collection():
        for root in dict.fromkeys(folders):
            Store(root).check()
            before = len(loaded.runs) + len(loaded.problems)
            for path in run_folders(root, "record.json", loaded.problems):
                try:
                    record = read(f"{path}/record.json")
                    loaded.runs.append(as_run(record, path, known, choices, classes))
                except UserError as error:
                    loaded.problems.append(error)
            if len(loaded.runs) + len(loaded.problems) == before:
                loaded.empty.append(root)
    return loaded


@contextmanager
def _no_collection() -> Iterator[None]:
    """Records hold no cycles, and looking for them takes a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
