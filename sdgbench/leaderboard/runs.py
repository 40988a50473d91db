"""Records cut down to what tables need: thousands of them fit into memory."""

import gc
import json
import marshal
import math
import os
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from sdgbench import record as records
from sdgbench.errors import UserError
from sdgbench.leaderboard.reading import Reader
from sdgbench.record import Record

CHOICES = ("last", "val")
MACHINE = {
    "hardware": "{}", "device": "{}", "threads": "threads: {}", "precision": "{}",
    "runs_beside": "while other runs went on: {}",
}  # fmt: skip
ABSENT = math.nan  # a class that does not occur has no score
PER_CLASS = {"accuracy": "class_accuracy", "mIoU": "iou"}  # what a metric is called for each class


@dataclass(frozen=True, eq=False)  # shared by its runs: one object is one ground
class Ground:
    """What must be equal for two runs to be compared."""

    key: str = field(repr=False)
    dataset: str
    version: int
    options: Mapping[str, Any]
    option_changes: tuple[str, ...]
    preset: str
    recipe: Mapping[str, Any]
    recipe_changes: tuple[str, ...]
    source: Mapping[str, Any]
    metric: str
    domains: tuple[str, ...]
    tags: tuple[Mapping[str, Any], ...]  # one per domain
    hashes: tuple[str, ...]  # one per domain
    averages: Mapping[str, int]  # name: how many domains it covers; the first is ranked
    missing: tuple[str, ...]  # domains that were asked for, but without data
    precision: str  # of the computation

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

    def place(self, corruption: str | None, severity: int) -> int | None:
        """Where a corruption at a severity stands among the domains; None: not there."""
        return next(
            (
                position
                for position, tags in enumerate(self.tags)
                if tags.get("severity") == severity
                and (severity == 0 or tags.get("corruption") == corruption)
            ),
            None,
        )


@dataclass(frozen=True, slots=True)
class Scores:
    """What one choice of weights reached, as fractions."""

    step: int
    source: float | None  # on held-out source
    values: Sequence[float]  # one per domain of the ground
    averages: Sequence[float]  # one per average of the ground
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
    ground: Ground
    scores: Mapping[str, Scores]  # by choice of weights: "last", and "val" where there was one
    efficiency: Mapping[str, Any]
    cost: Mapping[str, Any]
    flags: Mapping[str, Any]
    machine: str
    method_file: str  # hash of the method's source file
    classes: tuple[str, ...] = ()  # their names, where the record tells a score for each
    place: str = ""  # the folder where the run lives; a Path would take a tenth of its time
    transport: Mapping[str, Any] = field(default_factory=dict)  # how far augmented domains are
    embedding: Mapping[str, Any] = field(default_factory=dict)  # what area they cover

    @property
    def folder(self) -> Path | None:
        """Where the run lives."""
        return Path(self.place) if self.place else None

    def score(self, domain: str, choice: str = "last") -> float:
        """The score on a domain."""
        return self.scores[choice].values[self.ground.domains.index(domain)]


Known = dict[bytes | str, Ground]  # by canonical and by hasty key


def as_run(
    record: Record,
    place: str = "",
    known: Known | None = None,
    choices: Collection[str] = CHOICES,
    classes: bool = True,
) -> Run:
    """Cut a record down; UserError: it does not hold what a record holds.

    Runs of one ground share it, if the same ``known`` is given for all of them. Without
    ``classes`` their scores are left out, and only their names are kept.
    """
    try:
        return _as_run(record, place, known if known is not None else {}, choices, classes)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration) as error:
        where = f"{place}/record.json" if place else f"The record {record.get('id', '?')!r}"
        reason = f"{type(error).__name__}: {error}"
        raise UserError(
            f"{where} does not hold what a record of this sdgbench holds ({reason}). "
            "Move it out of the runs folder."
        ) from error


def _as_run(
    record: Record, place: str, known: Known, choices: Collection[str], with_classes: bool
) -> Run:
    spec, results = record["spec"], record["results"]
    ground = _ground(record, known)
    classes = _classes(record, ground.metric)
    wanted = classes if with_classes else ()
    flags = record.get("flags") or {}
    efficiency, cost = record.get("efficiency") or {}, record.get("cost") or {}
    transport, embedding = record.get("transport") or {}, record.get("embedding") or {}
    for part in (flags, efficiency, cost, transport, embedding):
        if not isinstance(part, dict):
            raise TypeError(f"{part!r} is not an object")
    machine = record.get("machine") or {}
    return Run(
        id=str(record["id"]),
        method=_text(spec["method"]),
        params=json.dumps(spec["params"], sort_keys=True),
        seed=int(spec["seed"]),
        ground=ground,
        scores={
            name: _scores(results[name], ground, wanted) for name in choices if results.get(name)
        },
        efficiency=efficiency,
        cost=cost,
        flags=flags,
        machine=", ".join(
            text.format(machine[key]) for key, text in MACHINE.items() if machine.get(key)
        ),
        method_file=str((record.get("code") or {}).get("method_file_sha256", "")),
        classes=classes,
        place=place,
        transport=transport,
        embedding=embedding,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a name")
    return value


def _numbers(values: list[Any], gaps: bool = False) -> "array[float]":
    """Scores, all of them numbers; ``gaps``: None stands for one that does not exist."""
    found = array("d", [0.0 if value is None else value for value in values] if gaps else values)
    if found and not (min(found) >= 0 and max(found) <= 1 and sum(found) >= 0):  # or it is NaN
        raise ValueError("a score is no fraction between 0 and 1")
    if gaps:
        for place, value in enumerate(values):
            if value is None:
                found[place] = ABSENT
    return found


def _ground(record: Record, known: Known) -> Ground:
    spec, domains = record["spec"], record["domains"]
    averages = record["results"]["last"]["averages"]
    covered = {name: int(group["domains"]) for name, group in averages.items()}
    hashes = {name: domain["sha256"] for name, domain in domains.items()}
    precision = _text(spec.get("precision", "float32"))
    parts = [
        spec["dataset"], spec["dataset_version"], spec["options"], spec["preset"], spec["recipe"],
        record["source"], hashes, record["metric"], covered, precision,
    ]  # fmt: skip
    # The canonical key takes a third of a record's time; most records are written like another.
    hasty = marshal.dumps(parts, 2)
    if hasty in known:
        return known[hasty]
    key = json.dumps(parts, sort_keys=True)
    if key not in known:
        next(iter(covered))  # there must be a ranked average
        known[key] = Ground(
            key, _text(spec["dataset"]), spec["dataset_version"], dict(spec["options"]),
            tuple(map(str, spec["option_changes"])), _text(spec["preset"]), dict(spec["recipe"]),
            tuple(map(str, spec["recipe_changes"])), dict(record["source"]),
            _text(record["metric"]), tuple(domains),
            tuple(_tags(domain["tags"]) for domain in domains.values()),
            tuple(hashes.values()), covered,
            tuple(map(str, record.get("missing_domains") or ())), precision,
        )  # fmt: skip
    known[hasty] = known[key]
    return known[key]


def _tags(tags: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(tags)
    if not isinstance(found.get("severity", 0), int):
        raise TypeError(f"{found['severity']!r} is not a severity")
    return found


def _classes(record: Record, metric: str) -> tuple[str, ...]:
    """The names of the classes; numbers where a record has scores but no names."""
    per_domain: dict[str, Any] = record["results"]["last"]["per_domain"]
    first: dict[str, Any] = next(iter(per_domain.values()), {})
    found = first.get(PER_CLASS.get(metric, ""))
    if found is None:
        return ()
    names = tuple(record.get("classes") or ())
    count = len(found) or len(names)
    return _named(names if len(names) == count else (None,) * count)


@lru_cache  # thousands of runs have the same
def _named(names: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(
        f"class {number}" if name is None else str(name) for number, name in enumerate(names)
    )


def _scores(result: Mapping[str, Any], ground: Ground, classes: Sequence[str]) -> Scores:
    per_domain, averages = result["per_domain"], result["averages"]
    per_class = array("d")
    if classes:
        for name in ground.domains:
            row = per_domain[name][PER_CLASS[ground.metric]]
            if len(row) != len(classes):
                raise ValueError(f"{name} has {len(row)} classes")
            per_class.extend(_numbers(row, gaps=True))
    metric, source = ground.metric, result["source_val"]
    return Scores(
        step=result.get("step", 0),
        source=None if source is None else _numbers([source])[0],
        values=_numbers([per_domain[name][metric] for name in ground.domains]),
        averages=_numbers([averages[name]["mean"] for name in ground.averages]),
        worst=_numbers([result["worst"]])[0],
        worst_domain=str(result.get("worst_domain", "")),
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
    known: Known = {}
    read = Reader(choices, classes)
    with _no_collection():
        for root in dict.fromkeys(folders):
            records.Store(root).check()
            before = len(loaded.runs) + len(loaded.problems)
            for place in _run_folders(root):
                path = f"{place}/record.json"
                try:
                    loaded.runs.append(as_run(read(path), place, known, choices, classes))
                except UserError as error:
                    loaded.problems.append(error)
                except RecursionError:
                    loaded.problems.append(UserError(f"{path} is nested too deeply: no record."))
            if len(loaded.runs) + len(loaded.problems) == before:
                loaded.empty.append(root)
    return loaded


def _run_folders(root: Path) -> list[str]:
    """Where ``root.glob("*/*/*/record.json")`` finds a file, in order, in a fifth of the time."""
    folders = [str(root)]
    for _ in range(3):
        folders = [entry for folder in folders for entry in _subfolders(folder)]
    return [folder for folder in folders if os.path.lexists(f"{folder}/record.json")]


def _subfolders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir())
    except OSError:  # gone, or not ours to read
        return []


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
