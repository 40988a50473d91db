"""Which runs may be compared, and what must be said when others may not."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sdgbench.leaderboard.runs import Ground, Known, Run, as_run
from sdgbench.record import Record
from sdgbench.settings import show

if TYPE_CHECKING:
    from sdgbench.leaderboard.table import Line, Table

BASELINE = "erm"
MOST_NAMES = 5  # in a note; the rest is counted
DATA_FLAGS = {"unverified_data": "unverified data", "regenerated": "regenerated"}
KNOWN_FLAGS = {
    *DATA_FLAGS, "reduced_scale", "recipe_changed", "pretrained", "incomplete_source",
    "frost_overlays", "reduced_parameters", "params_changed",
}  # fmt: skip


@dataclass
class Row:
    """A method with one set of parameters: its runs on the same ground, one per seed."""

    method: str
    variant: str  # parameters that were changed, or differ between rows, as key=value
    runs: dict[int, Run] = field(default_factory=dict)  # by seed, in order
    changed: Mapping[str, Any] | None = None  # parameters that were set by hand; None: not told

    @property
    def name(self) -> str:
        """What stands in the first column."""
        return f"{self.method} ({self.variant})" if self.variant else self.method

    @property
    def reductions(self) -> dict[str, tuple[object, object]]:
        """Parameters that the preset reduces: the value used and the published one."""
        found = {}
        for run in self.runs.values():
            reduced = run.flags.get("reduced_parameters")
            for name, pair in reduced.items() if isinstance(reduced, dict) else ():
                used, published = pair if isinstance(pair, list) and len(pair) == 2 else (pair, "?")
                found[str(name)] = (used, published)
        return found


@dataclass
class Board:
    """Runs that may be compared: same dataset, version, options, preset, recipe and domains."""

    ground: Ground
    rows: list[Row]
    remark: str = ""  # what sets it apart from the other boards of its dataset and preset
    duplicates: tuple[str, ...] = ()  # records that say the same run again

    @property
    def dataset(self) -> str:
        """The dataset's name."""
        return self.ground.dataset

    @property
    def preset(self) -> str:
        """The preset's name."""
        return self.ground.preset

    @property
    def metric(self) -> str:
        """The name of the score."""
        return self.ground.metric

    @property
    def domains(self) -> tuple[str, ...]:
        """The unseen domains, in order."""
        return self.ground.domains

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; empty: no record tells their scores."""
        runs = (run for row in self.rows for run in row.runs.values())
        return next((run.classes for run in runs if run.classes), ())

    @property
    def reduced(self) -> str:
        """What is smaller than in the paper; empty: nothing."""
        return self.ground.reduced

    @property
    def ranked(self) -> str:
        """The average that methods are ranked by."""
        return self.ground.ranked

    @property
    def title(self) -> str:
        """What the board is about."""
        remark = f" [{self.remark}]" if self.remark else ""
        return f"{self.dataset}, {self.preset} preset{remark}: {self.metric} in per cent"

    def row(self, name: str) -> Row | None:
        """Find a row by its name, or by its method if that has only one row."""
        of_method = [row for row in self.rows if row.method == name]
        by_name = next((row for row in self.rows if row.name == name), None)
        return by_name or (of_method[0] if len(of_method) == 1 else None)

    def views(self) -> list[str]:
        """The views that make sense for this dataset."""
        from sdgbench.leaderboard import views

        return views.available(self)

    def table(
        self,
        view: str = "domains",
        choice: str = "last",
        baseline: str = BASELINE,
        sort: str = "",
        methods: Sequence[str] = (),
    ) -> "Table":
        """A view of the board; ``methods`` limits the rows, empty: all."""
        from sdgbench.leaderboard import views

        return views.table(self, view, choice, baseline, sort, methods)

    def lines(self, choice: str = "last") -> "Sequence[Line]":
        """The rows over domains, best average first."""
        return self.table(choice=choice).lines

    def data_notes(self, rows: "Sequence[Row] | None" = None) -> list[str]:
        """What must be said of the data, the runs and the parameters below a table of rows."""
        shown = self.rows if rows is None else rows
        return [*_notes_on_data(self, shown), *_notes_on_rows(self, shown)]


def boards(found: Iterable[Record | Run]) -> list[Board]:
    """Group records into boards, and the runs of a board into rows."""
    known: Known = {}
    groups: dict[str, list[Run]] = defaultdict(list)
    for one in found:
        run = one if isinstance(one, Run) else as_run(one, known=known)
        groups[run.ground.key].append(run)
    made = [_board(runs) for runs in groups.values()]
    similar: dict[tuple[str, str], list[Board]] = defaultdict(list)
    for board in made:
        similar[board.dataset, board.preset].append(board)
    for alike in similar.values():
        _set_remarks(alike)
    return sorted(made, key=lambda board: (board.dataset, board.preset, board.remark))


def _board(runs: Sequence[Run]) -> Board:
    variants: dict[tuple[str, str], dict[int, Run]] = defaultdict(dict)
    duplicates = []
    for run in runs:
        same = variants[run.method, run.params]
        if run.seed in same:
            first = same[run.seed]
            equal = first.scores["last"].values == run.scores["last"].values
            how = "with equal scores" if equal else "with other scores"
            which = f"the one in {first.folder}" if first.folder else "the first"
            duplicates.append(
                f"{run.method}, seed {run.seed}: another record {how}; {which} is used"
            )
        else:
            same[run.seed] = run
    rows, used = [], set()
    changed = {key: _changed(key[1], same.values()) for key, same in variants.items()}
    differences = _differences(changed)
    for (method, params), same in variants.items():
        row = Row(
            method, differences[method, params], dict(sorted(same.items())), changed[method, params]
        )
        while row.name in used:  # 1 and "1" look alike, but are other parameters
            row.variant += "'"
        used.add(row.name)
        rows.append(row)
    return Board(runs[0].ground, rows, duplicates=tuple(duplicates))


def _changed(params: str, runs: Iterable[Run]) -> dict[str, Any] | None:
    """Parameters that were set away from the method's own; None: a record does not tell."""
    told = [run.flags.get("params_changed") for run in runs]
    if not all(isinstance(names, list) for names in told):
        return None
    names = dict.fromkeys(str(name) for names in told for name in names or ())
    values = json.loads(params) if names else {}
    return {name: values.get(name) for name in names}


def _differences(
    variants: Mapping[tuple[str, str], Mapping[str, Any] | None],
) -> dict[tuple[str, str], str]:
    """For each variant of a method, what was changed, and in what else it differs from another."""
    parsed: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for method, params in variants:
        parsed[method][params] = json.loads(params)
    found = {}
    for method, every in parsed.items():
        told = [variants[method, params] for params in every]
        varying = _varying(every.values())
        # What somebody changed is said where it was changed, not where it was left alone.
        otherwise = varying - {name for names in told for name in names or ()}
        for (params, own), changed in zip(every.items(), told, strict=True):
            shown = varying if changed is None else {*changed, *otherwise}
            texts = [f"{key}={value}" for key, value in own.items() if key in shown]
            found[method, params] = ", ".join(texts)
    return found


def _varying(every: Iterable[Mapping[str, Any]]) -> set[str]:
    """The keys that do not have the same value everywhere."""
    values: dict[str, set[str]] = defaultdict(set)
    total = 0
    counts: dict[str, int] = defaultdict(int)
    for one in every:
        total += 1
        for key, value in one.items():
            values[key].add(json.dumps(value, sort_keys=True))
            counts[key] += 1
    return {key for key, known in values.items() if len(known) > 1 or counts[key] < total}


def _set_remarks(alike: Sequence[Board]) -> None:
    """Say what was changed by hand, and why these boards stand apart from each other."""
    grounds = [board.ground for board in alike]
    # What somebody changed is said where it was changed, not where it was left alone.
    options = _varying(_without(g.options, g.option_changes) for g in grounds)
    recipe = _varying(_without(g.recipe, (*g.recipe_changes, "reduced")) for g in grounds)
    options -= {key for ground in grounds for key in ground.option_changes}
    recipe -= {key for ground in grounds for key in ground.recipe_changes}
    versions = {str(ground.version) for ground in grounds}
    asked: dict[str, list[Ground]] = defaultdict(list)
    for ground in grounds:
        asked[_question(ground)].append(ground)
    content = {key: _Content(same) for key, same in asked.items()}
    for board in alike:
        ground = board.ground
        found = [f"{key}={ground.options.get(key)}" for key in ground.option_changes]
        found += [f"recipe.{key}={ground.recipe.get(key)}" for key in ground.recipe_changes]
        found += [ground.precision] if ground.precision != "float32" else []
        found += [f"dataset version {ground.version}"] if len(versions) > 1 else []
        found += [f"{key}={ground.options[key]}" for key in ground.options if key in options]
        found += [f"recipe.{key}={ground.recipe[key]}" for key in ground.recipe if key in recipe]
        board.remark = ", ".join([*found, *content[_question(ground)].remarks(ground)])


def _without(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in set(keys)}


def _question(ground: Ground) -> str:
    """What was asked; where that is the same, domains and content should be the same, too."""
    asked = [ground.version, ground.options, ground.recipe.get("test_images")]
    return json.dumps(asked, sort_keys=True)


class _Content:
    """What boards of the same question found: domains and the hashes of their content."""

    def __init__(self, grounds: Sequence[Ground]) -> None:
        self.domains = {frozenset(ground.domains) for ground in grounds}
        self.every = dict.fromkeys(name for ground in grounds for name in ground.domains)
        self.sources = {tuple(_source_hashes(ground)) for ground in grounds}
        self.hashes: dict[str, set[str]] = defaultdict(set)
        for ground in grounds:
            for name, sha256 in zip(ground.domains, ground.hashes, strict=True):
                self.hashes[name].add(str(sha256))

    def remarks(self, ground: Ground) -> list[str]:
        """In what a board differs although nothing that was asked does."""
        found = []
        if len(self.domains) > 1:
            lacking = [name for name in self.every if name not in ground.domains]
            without = f", without {shorten(lacking)}" if lacking else ""
            found.append(f"{len(ground.domains)} domains{without}")
        own = dict(zip(ground.domains, ground.hashes, strict=True))
        changed = [name for name in own if len(self.hashes[name]) > 1]
        if changed:
            found.append(f"content of {shorten(changed)}: {str(own[changed[0]])[:8]}")
        if len(self.sources) > 1:
            found.append(f"source content: {', '.join(_source_hashes(ground))}")
        return found


def _source_hashes(ground: Ground) -> list[str]:
    return [
        f"{split} {str(part.get('sha256', ''))[:8]}"
        for split, part in ground.source.items()
        if isinstance(part, dict)
    ]


def shorten(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def _notes_on_data(board: Board, rows: Sequence[Row]) -> list[str]:
    found: dict[str, None] = {}
    for run in (run for row in rows for run in row.runs.values()):
        for flag, text in DATA_FLAGS.items():
            names = run.flags.get(flag)
            if isinstance(names, list) and names:
                found[f"{text}: {shorten(names)}"] = None
        if short := run.flags.get("incomplete_source"):
            found[f"incomplete source: {short}"] = None
        overlays = run.flags.get("frost_overlays")
        if isinstance(overlays, list) and overlays:
            found[f"frost overlays: {shorten(overlays)}"] = None
    if board.ground.missing:
        found[f"no data for: {shorten(board.ground.missing)}"] = None
    return list(found)


def _notes_on_rows(board: Board, rows: Sequence[Row]) -> list[str]:
    found = []
    for row in rows:
        reduced = [
            f"{name}={show(used)} (published: {show(published)})"
            for name, (used, published) in row.reductions.items()
        ]
        if reduced:
            found.append(f"{row.name} at this preset: {', '.join(reduced)}")
        flags = {
            flag for run in row.runs.values() for flag, value in run.flags.items() if value is True
        }
        for flag in sorted(flags - KNOWN_FLAGS):
            found.append(f"{row.name}: {flag}")
        if any(run.flags.get("pretrained") for run in row.runs.values()):
            found.append(f"{row.name}: starts from pretrained weights")
        files = {run.method_file for run in row.runs.values()}
        if len(files) > 1:
            found.append(f"{row.name}: its file changed between runs ({len(files)} versions)")
    return [*found, *_some(board.duplicates)]


def _some(notes: Sequence[str]) -> list[str]:
    more = len(notes) - MOST_NAMES
    return [*notes[:MOST_NAMES], *([f"{more} more duplicates"] if more > 0 else [])]
