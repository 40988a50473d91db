"""Which runs may be compared: leaderboards of one protocol each, and their rows."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sdgbench.leaderboard import environment
from sdgbench.leaderboard.protocol import KnownProtocols, Protocol
from sdgbench.leaderboard.runs import Run, as_run
from sdgbench.leaderboard.table import facts
from sdgbench.records.badges import Badge, weakest
from sdgbench.records.schema import Record, Tuned

MOST_NAMES = 5  # in a note; the rest is counted


@dataclass
class Row:
    """One version of a method with one set of parameters: its runs, one per seed."""

    method: str
    variant: str  # parameters that were changed, or differ between rows, as key=value
    runs: dict[int, Run] = field(default_factory=dict)  # by seed, in order
    changed: Mapping[str, Any] | None = None  # parameters set by hand; None: not recorded
    version: str = ""  # start of the hash of the method's file, where rows differ in it alone
    tuned: Tuned | None = None  # how a search chose the setting; None: none did

    @property
    def name(self) -> str:
        """The name in the first column: the method, its version, and what was changed."""
        name = f"{self.method} @{self.version}" if self.version else self.method
        return f"{name} ({self.variant})" if self.variant else name

    @property
    def params(self) -> Mapping[str, Any]:
        """All parameters."""
        params: Mapping[str, Any] = json.loads(next(iter(self.runs.values())).params)
        return params

    @property
    def badge(self) -> Badge | None:
        """The weakest badge of its runs; None: none has one."""
        return weakest(run.badge for run in self.runs.values())

    @property
    def reductions(self) -> dict[str, tuple[object, object]]:
        """Parameters that the preset reduces: the value used and the published one."""
        reductions: dict[str, tuple[object, object]] = {}
        for run in self.runs.values():
            reductions |= run.flags.reduced_parameters
        return reductions


class Duplicate(NamedTuple):
    """A note on a record of a run that another record has, too."""

    row: str
    text: str


@dataclass
class Leaderboard:
    """Runs that may be compared: same dataset, version, options, preset, recipe and domains."""

    protocol: Protocol
    rows: list[Row]
    remark: str = ""  # what sets it apart from the others of its dataset and preset
    duplicates: tuple[Duplicate, ...] = ()
    left_out: str = ""  # a note on runs of other environments

    @property
    def dataset(self) -> str:
        """The dataset's name."""
        return self.protocol.dataset

    @property
    def preset(self) -> str:
        """The preset's name."""
        return self.protocol.preset

    @property
    def metric(self) -> str:
        """The name of the score."""
        return self.protocol.metric

    @property
    def domains(self) -> tuple[str, ...]:
        """The unseen domains, in order."""
        return self.protocol.domains

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; empty: no record has their scores."""
        runs = (run for row in self.rows for run in row.runs.values())
        return next((run.classes for run in runs if run.classes), ())

    @property
    def reduced(self) -> str:
        """What is smaller than in the paper; empty: nothing."""
        return self.protocol.reduced

    @property
    def ranked(self) -> str:
        """The average that methods are ranked by."""
        return self.protocol.ranked

    @property
    def title(self) -> str:
        """Dataset, preset, what sets it apart, and the metric."""
        remark = f" [{self.remark}]" if self.remark else ""
        return f"{self.dataset}, {self.preset} preset{remark}: {self.metric} in per cent"

    def row(self, name: str) -> Row | None:
        """Find a row by its name, or by its method if that has only one row that is not tuned."""
        of_method = [row for row in self.rows if row.method == name and not row.tuned]
        by_name = next((row for row in self.rows if row.name == name), None)
        return by_name or (of_method[0] if len(of_method) == 1 else None)

    def only(self, methods: Sequence[str]) -> "Leaderboard":
        """The same with the rows of these methods only; empty: all."""
        return replace(self, rows=self.rows_of(methods))

    def rows_of(self, methods: Sequence[str]) -> list[Row]:
        """The rows of these methods, given by method or by the row's name; empty: all."""
        wanted = set(methods)
        return [row for row in self.rows if not wanted or {row.method, row.name} & wanted]

    def facts(self, view: str, choice: str, **more: object) -> dict[str, object]:
        """What every row of one of its tables has in common in CSV and JSON."""
        return facts(
            dataset=self.dataset,
            preset=self.preset,
            remark=self.remark,
            metric=self.metric,
            reduced_scale=self.reduced,
            choice=choice,
            view=view,
            **more,
        )


def leaderboards(
    records: Iterable[Record | Run], merge_versions: bool = False, strict: bool = False
) -> list[Leaderboard]:
    """Group runs into leaderboards of one protocol each, and the runs of each into rows.

    Versions of a method's file are rows of their own, unless ``merge_versions``. With ``strict``
    a leaderboard has only the runs of its most common environment.
    """
    known: KnownProtocols = {}
    by_protocol: dict[bytes, list[Run]] = defaultdict(list)
    for record in records:
        run = record if isinstance(record, Run) else as_run(record, known=known)
        by_protocol[run.protocol.key].append(run)
    boards = [_leaderboard(runs, merge_versions, strict) for runs in by_protocol.values()]
    similar: dict[tuple[str, str, bool], list[Leaderboard]] = defaultdict(list)
    for board in boards:
        similar[board.dataset, board.preset, board.protocol.elsewhere].append(board)
    for alike in similar.values():
        _set_remarks(alike)
    return sorted(
        boards,
        key=lambda board: (board.dataset, board.preset, board.protocol.elsewhere, board.remark),
    )


def _leaderboard(runs: Sequence[Run], merge_versions: bool, strict: bool) -> Leaderboard:
    left_out = ""
    if strict:
        runs, left_out = _of_one_environment(runs)
    variants: dict[tuple[Setting, str], dict[int, Run]] = defaultdict(dict)
    repeated: list[tuple[tuple[Setting, str], int, str]] = []
    for run in runs:
        setting = Setting(run.method, run.params, run.tuned.search if run.tuned else "")
        key = (setting, "" if merge_versions else run.method_file)
        same = variants[key]
        if run.seed in same:
            repeated.append((key, run.seed, _duplicate(run, same[run.seed])))
        else:
            same[run.seed] = run
    by_setting: dict[Setting, list[Run]] = defaultdict(list)
    files: dict[Setting, list[str]] = defaultdict(list)
    for (setting, file), same in variants.items():
        by_setting[setting] += same.values()
        files[setting].append(file)
    changed = {key: _changed(key.params, same) for key, same in by_setting.items()}
    by_hand = {(k.method, k.params): value for k, value in changed.items() if not k.search}
    differences = _differences(by_hand)
    rows: dict[tuple[Setting, str], Row] = {}
    used = set()
    for (setting, file), same in variants.items():
        tuned = next(iter(same.values())).tuned
        row = Row(
            setting.method,
            f"tuned {tuned.search[:4]}" if tuned else differences[setting.method, setting.params],
            dict(sorted(same.items())),
            {**tuned.values, "tuned": tuned.search} if tuned else changed[setting],
            _version(file, files[setting]),
            tuned,
        )
        while row.name in used:  # 1 and "1" look alike, but are other parameters
            row.variant += "'"
        used.add(row.name)
        rows[setting, file] = row
    # Runs come in the order of their folders, which are hashes.
    in_order = sorted(repeated, key=lambda item: (rows[item[0]].name, item[1]))
    duplicates = tuple(Duplicate(rows[key].name, text) for key, _, text in in_order)
    return Leaderboard(
        runs[0].protocol, list(rows.values()), duplicates=duplicates, left_out=left_out
    )


class Setting(NamedTuple):
    """What the runs of a row share, whatever the version of the method's file."""

    method: str
    params: str
    search: str  # that chose it; empty: none did


def _of_one_environment(runs: Sequence[Run]) -> tuple[Sequence[Run], str]:
    """The runs of the most common environment, and a note on the others."""
    every = [run.environment for run in runs]
    kept = environment.most_common(every)
    rest = sorted((run.method, run.seed) for run in runs if run.environment != kept)
    others = [f"{method} seed {seed}" for method, seed in rest]
    if not others:
        return runs, ""
    note = (
        f"--strict: only runs with {environment.describe(kept, every)}; left out: {shorten(others)}"
    )
    return [run for run in runs if run.environment == kept], note


def _duplicate(run: Run, used: Run) -> str:
    """What a reader must know of a second record of a run."""
    equal = used.scores["last"].values == run.scores["last"].values
    other = environment.differences(run.environment, used.environment)
    how = "equal scores" if equal else "other scores"
    how += f" ({other})" if other else "" if equal else " (no recorded difference)"
    which = f"the one in {used.folder}" if used.folder else "the first"
    return f"seed {run.seed}: another record with {how}; {which} is used"


def _version(file: str, files: Sequence[str]) -> str:
    """The start of a file's hash that sets it apart from the others; empty: there are none."""
    if len(files) < 2:
        return ""
    length = next(n for n in range(4, 65) if len({name[:n] for name in files}) == len(files))
    return file[:length] or "unknown"


def _changed(params: str, runs: Iterable[Run]) -> dict[str, Any] | None:
    """Parameters that were set away from the method's defaults; None: not recorded."""
    recorded = [run.flags.params_changed for run in runs]
    if None in recorded:
        return None
    names = dict.fromkeys(name for names in recorded for name in names or ())
    values = json.loads(params) if names else {}
    return {name: values.get(name) for name in names}


def _differences(
    variants: Mapping[tuple[str, str], Mapping[str, Any] | None],
) -> dict[tuple[str, str], str]:
    """For each variant of a method, what was changed, and in what else it differs from another."""
    parsed: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for method, params in variants:
        parsed[method][params] = json.loads(params)
    differences = {}
    for method, every in parsed.items():
        changes = [variants[method, params] for params in every]
        varying = _varying(every.values())
        # A changed parameter is named where it was changed, not where it has its default.
        otherwise = varying - {name for names in changes for name in names or ()}
        for (params, values), changed in zip(every.items(), changes, strict=True):
            shown = varying if changed is None else {*changed, *otherwise}
            texts = [f"{key}={value}" for key, value in values.items() if key in shown]
            differences[method, params] = ", ".join(texts)
    return differences


def _varying(every: Iterable[Mapping[str, Any]]) -> set[str]:
    """The keys that do not have the same value everywhere."""
    values: dict[str, set[str]] = defaultdict(set)
    total = 0
    counts: dict[str, int] = defaultdict(int)
    for mapping in every:
        total += 1
        for key, value in mapping.items():
            values[key].add(json.dumps(value, sort_keys=True))
            counts[key] += 1
    return {key for key, known in values.items() if len(known) > 1 or counts[key] < total}


def _set_remarks(alike: Sequence[Leaderboard]) -> None:
    """Name what was changed by hand, and why these leaderboards are not one."""
    protocols = [board.protocol for board in alike]
    # A changed value is named where it was changed, not where it has its default.
    options = _varying(_without(p.options, p.option_changes) for p in protocols)
    recipe = _varying(_without(p.recipe, (*p.recipe_changes, "reduced")) for p in protocols)
    options -= {key for protocol in protocols for key in protocol.option_changes}
    recipe -= {key for protocol in protocols for key in protocol.recipe_changes}
    versions = {str(protocol.version) for protocol in protocols}
    by_request: dict[str, list[Protocol]] = defaultdict(list)
    for protocol in protocols:
        by_request[_request(protocol)].append(protocol)
    content = {key: _Content(same) for key, same in by_request.items()}
    for board in alike:
        protocol = board.protocol
        remarks = ["trained elsewhere"] if protocol.elsewhere else []
        remarks += [f"{key}={protocol.options.get(key)}" for key in protocol.option_changes]
        remarks += [f"recipe.{key}={protocol.recipe.get(key)}" for key in protocol.recipe_changes]
        remarks += [protocol.precision] if protocol.precision != "float32" else []
        remarks += [f"dataset version {protocol.version}"] if len(versions) > 1 else []
        remarks += [f"{key}={protocol.options[key]}" for key in protocol.options if key in options]
        remarks += [
            f"recipe.{key}={protocol.recipe[key]}" for key in protocol.recipe if key in recipe
        ]
        board.remark = ", ".join([*remarks, *content[_request(protocol)].remarks(protocol)])


def _without(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in set(keys)}


def _request(protocol: Protocol) -> str:
    """What was requested; where that is equal, domains and content should be equal, too."""
    requested = [protocol.version, protocol.options, protocol.recipe.get("test_images")]
    return json.dumps(requested, sort_keys=True)


class _Content:
    """What leaderboards of the same request have: domains and the hashes of their content."""

    def __init__(self, protocols: Sequence[Protocol]) -> None:
        self.domains = {frozenset(protocol.domains) for protocol in protocols}
        self.every = dict.fromkeys(name for protocol in protocols for name in protocol.domains)
        self.sources = {tuple(_source_hashes(protocol)) for protocol in protocols}
        self.hashes: dict[str, set[str]] = defaultdict(set)
        for protocol in protocols:
            for name, sha256 in zip(protocol.domains, protocol.hashes, strict=True):
                self.hashes[name].add(str(sha256))

    def remarks(self, protocol: Protocol) -> list[str]:
        """In what a protocol differs from the others although the request is the same."""
        remarks = []
        if len(self.domains) > 1:
            lacking = [name for name in self.every if name not in protocol.domains]
            without = f", without {shorten(lacking)}" if lacking else ""
            remarks.append(f"{len(protocol.domains)} domains{without}")
        hashes = dict(zip(protocol.domains, protocol.hashes, strict=True))
        changed = [name for name in hashes if len(self.hashes[name]) > 1]
        if changed:
            remarks.append(f"content of {shorten(changed)}: {str(hashes[changed[0]])[:8]}")
        if len(self.sources) > 1:
            remarks.append(f"source content: {', '.join(_source_hashes(protocol))}")
        return remarks


def _source_hashes(protocol: Protocol) -> list[str]:
    source = protocol.source
    return [f"train {source.train.sha256[:8]}", f"val {source.val.sha256[:8]}"]


def shorten(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more
