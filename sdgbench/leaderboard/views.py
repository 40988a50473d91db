"""The views of a board: which columns there are, and where their numbers come from."""

import math
import re
from collections.abc import Callable, Iterator, Sequence

from sdgbench import registry
from sdgbench.errors import UserError, unknown
from sdgbench.leaderboard import corruption, formats, statistics, transport
from sdgbench.leaderboard.corruption import HIGHEST
from sdgbench.leaderboard.grouping import BASELINE, Board, Row, shorten
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.statistics import Measure, Samples
from sdgbench.leaderboard.table import Column, Line, Table

MOST_COLUMNS = 20  # domains that get a column each; with more, the averages must do
BESIDE = "robustness"  # RmCE falls with clean accuracy: they stay together in one block
RESERVED = {"source", "worst", *formats.FIELDS}
LEVEL_AVERAGE = re.compile(r"acc(\d+)_L\d$")
CHOSEN = {"last": "", "val": " (weights chosen on held-out source: not the ranked ones)"}
WEIGHTS = {"last": "weights of the last iterate", "val": "weights chosen on held-out source"}


def table(
    board: Board,
    view: str = "domains",
    choice: str = "last",
    baseline: str = BASELINE,
    sort: str = "",
    methods: Sequence[str] = (),
) -> Table:
    """Build a view of a board; ``methods`` limits the rows, empty: all."""
    if view not in VIEWS:
        raise unknown("view", view, VIEWS)
    if view not in available(board):
        raise UserError(
            f"{board.dataset} has no view {view}. It has: {', '.join(available(board))}."
        )
    rows = [row for row in board.rows if not methods or {row.method, row.name} & set(methods)]
    if not rows:
        raise UserError(f"No run on {board.dataset} is by {', '.join(methods)}.")
    reference = board.row(baseline)
    measures = list(VIEWS[view](board, choice, baseline, reference))
    compared = view not in ("efficiency", "cost", "transport")
    shown = statistics.assemble(
        rows, measures, ranked(board, choice), reference if compared else None, baseline
    )
    lines = sort_lines(shown.lines, shown.columns, sort, rows, ranked(board, choice))
    notes = [*board.data_notes(rows), *shown.notes, *_notes(board, rows, choice, baseline, view)]
    return Table(
        kind=view,
        title=board.title + TITLES[view].format(_class_score(board)) + CHOSEN[choice],
        columns=tuple(shown.columns),
        lines=tuple(lines),
        reduced=board.reduced,
        notes=tuple(notes),
        legend="; ".join(
            [WEIGHTS[choice], *_legend(board, view), *_definitions(shown.columns), *shown.legend]
        ),
        facts={
            "dataset": board.dataset, "preset": board.preset, "remark": board.remark,
            "metric": board.metric, "reduced_scale": board.reduced, "choice": choice, "view": view,
        },
    )  # fmt: skip


def available(board: Board) -> list[str]:
    """The views that make sense for a board."""
    fits = {
        "severity": corruption.is_corrupted(board.ground),
        "corruptions": corruption.is_corrupted(board.ground),
        "classes": bool(board.classes),
        "transport": any(run.transport for row in board.rows for run in row.runs.values()),
    }
    return [view for view in VIEWS if fits.get(view, True)]


def _score(choice: str, read: Callable[[Run], float | None]) -> Callable[[Run], float | None]:
    """Leave out runs that have no such choice of weights."""
    return lambda run: read(run) if choice in run.scores else None


def _average(
    board: Board, name: str, choice: str, definition: str = "", group: str = ""
) -> Measure:
    place = list(board.ground.averages).index(name)
    covered = board.ground.averages[name]
    text = definition or f"mean over {covered} domain{'s' * (covered != 1)}"
    return Measure(
        Column(name, text, "higher", group),
        _score(choice, lambda run: run.scores[choice].averages[place]),
    )


def ranked(board: Board, choice: str) -> Measure:
    """The average that methods are ranked by."""
    return _average(board, board.ranked, choice)


def _domain(board: Board, place: int, choice: str, name: str = "", group: str = "") -> Measure:
    return Measure(
        Column(_free(board, name or board.domains[place], "domain"), "", "higher", group),
        _score(choice, lambda run: run.scores[choice].values[place]),
    )


def _free(board: Board, name: str, kind: str) -> str:
    """A column's name that no other column and no field of a CSV file has."""
    return f"{name} ({kind})" if name in RESERVED or name in board.ground.averages else name


def _clean(board: Board, choice: str, group: str = "") -> Measure | None:
    if "clean" in board.ground.averages:
        return _average(board, "clean", choice, "accuracy on clean test images", group)
    return None


def _domains(board: Board, choice: str, baseline: str, reference: Row | None) -> Iterator[Measure]:
    yield Measure(
        Column("source", f"{board.metric} on held-out source", "higher"),
        _score(choice, lambda run: run.scores[choice].source),
    )
    if len(board.domains) <= MOST_COLUMNS:
        for place, name in enumerate(board.domains):
            if board.ground.averages.get(name) != 1:  # else its mean says the same
                yield _domain(board, place, choice)
    corrupted = corruption.is_corrupted(board.ground)
    for name in board.ground.averages:
        if not (corrupted and name == "clean"):
            yield _average(board, name, choice)
    yield Measure(
        Column("worst", f"worst of {len(board.domains)} unseen domains", "higher"),
        _score(choice, lambda run: run.scores[choice].worst),
    )
    yield from _relative(board, choice, baseline, reference)


def _relative(board: Board, choice: str, baseline: str, reference: Row | None) -> Iterator[Measure]:
    """Clean accuracy, and mCE and RmCE seed by seed; none where the baseline lacks a seed."""
    if not corruption.is_corrupted(board.ground):
        return
    if clean := _clean(board, choice, BESIDE):
        yield clean
    partners = reference.runs if reference else {}
    ready: dict[int, dict[str, float]] = {}

    def ratios(run: Run) -> dict[str, float]:
        partner = partners.get(run.seed)
        if partner is None or choice not in partner.scores or choice not in run.scores:
            return {}
        if id(run) not in ready:
            ready[id(run)] = corruption.relative_errors(run, partner, choice, baseline)
        return ready[id(run)]

    plain, relative = corruption.relative_names(board.ground, baseline)
    count = len(corruption.places(board.ground, HIGHEST))
    about = f"mean over {count} corruptions at level {HIGHEST}"
    for name, what in (
        (plain, f"{about} of error / error of {baseline}"),
        (relative, f"{about} of (error - clean error) / the same of {baseline}"),
    ):
        yield Measure(
            Column(name, what, "lower", BESIDE), lambda run, name=name: ratios(run).get(name),  # type: ignore[misc]
            scale=1, digits=3,
        )  # fmt: skip


def _severity(board: Board, choice: str, baseline: str, reference: Row | None) -> Iterator[Measure]:
    if clean := _clean(board, choice):
        yield clean
    for level in corruption.severities(board.ground):
        places = list(corruption.places(board.ground, level).values())
        yield _mean(f"acc{len(places)}_L{level}", places, choice, f"mean at level {level}")
    every = [place for place, tags in enumerate(board.ground.tags) if tags.get("severity")]
    levels = len(corruption.severities(board.ground))
    yield _mean(
        f"acc{len(every) // levels}_all", every, choice, f"mean over {len(every)} corrupted domains"
    )


def _mean(
    name: str, places: Sequence[int], choice: str, definition: str, group: str = ""
) -> Measure:
    def mean(run: Run) -> float:
        values = run.scores[choice].values
        return math.fsum(values[place] for place in places) / len(places)

    return Measure(Column(name, definition, "higher", group), _score(choice, mean))


def _corruptions(
    board: Board, choice: str, baseline: str, reference: Row | None
) -> Iterator[Measure]:
    for name, place in corruption.places(board.ground, HIGHEST).items():
        yield _domain(board, place, choice, name, corruption.category(name))
    for name in board.ground.averages:
        if name.endswith(f"_L{HIGHEST}"):
            yield _average(board, name, choice)
    yield from _relative(board, choice, baseline, reference)


def _classes(board: Board, choice: str, baseline: str, reference: Row | None) -> Iterator[Measure]:
    count = len(board.classes)

    def score(run: Run, number: int) -> float | None:
        known = [v for v in run.scores[choice].per_class[number::count] if not math.isnan(v)]
        return math.fsum(known) / len(known) if known else None

    for number, name in enumerate(board.classes):
        yield Measure(
            Column(_free(board, name, "class"), "", "higher"),
            _score(choice, lambda run, number=number: score(run, number)),  # type: ignore[misc]
        )
    yield ranked(board, choice)


def number(source: str, *keys: str) -> Callable[[Run], float | None]:
    """Read a number of a run's efficiency or cost; None: the record does not tell it."""

    def read(run: Run) -> float | None:
        found = getattr(run, source)
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return float(found) if isinstance(found, (int, float)) else None

    return read


def _efficiency(
    board: Board, choice: str, baseline: str, reference: Row | None
) -> Iterator[Measure]:
    yield ranked(board, choice)
    for name, keys, scale, digits, definition in (
        ("params_M", ("parameters_inference",), 1e-6, 2, "million parameters at inference"),
        ("train_params_M", ("parameters_train",), 1e-6, 2, "the same in training"),
        ("GFLOPs", ("flops",), 1e-9, 3, "of one prediction; a multiply-add counts as two"),
        ("b1_p50_ms", ("latency", "batch_1", "p50_ms"), 1, 2, "median latency, batch of 1"),
        ("b1_p95_ms", ("latency", "batch_1", "p95_ms"), 1, 2, "95th percentile"),
        ("b64_p50_ms", ("latency", "batch_64", "p50_ms"), 1, 1, "median latency, batch of 64"),
        ("b64_p95_ms", ("latency", "batch_64", "p95_ms"), 1, 1, "95th percentile"),
        ("peak_MB", ("peak_memory_bytes",), 1e-6, 0, "peak memory (CPU: of the whole process)"),
    ):
        yield Measure(Column(name, definition), number("efficiency", *keys), scale, digits)


def _cost(board: Board, choice: str, baseline: str, reference: Row | None) -> Iterator[Measure]:
    yield ranked(board, choice)

    def others(run: Run) -> float | None:
        found = run.cost.get("other_seconds")
        known = found.values() if isinstance(found, dict) else ()
        return math.fsum(v for v in known if isinstance(v, (int, float))) if known else None

    yield Measure(Column("train_s", "seconds of training"), number("cost", "train_seconds"), 1)
    yield Measure(Column("other_s", "seconds of validation, evaluation, checkpoints"), others, 1)
    for name, definition in (
        ("images_forward", "images that went forward in training"),
        ("images_with_gradient", "those of them with gradient"),
        ("starts", "how often the run was started or resumed"),
    ):
        yield Measure(Column(name, definition), number("cost", name), 1, 0)


def _transport(
    board: Board, choice: str, baseline: str, reference: Row | None
) -> Iterator[Measure]:
    yield ranked(board, choice)
    yield from transport.measures()


View = Callable[[Board, str, str, Row | None], Iterator[Measure]]
VIEWS: dict[str, View] = {
    "domains": _domains, "severity": _severity, "corruptions": _corruptions, "classes": _classes,
    "efficiency": _efficiency, "cost": _cost, "transport": _transport,
}  # fmt: skip
TITLES = {
    "domains": "", "severity": ", by severity", "corruptions": f", corruptions at level {HIGHEST}",
    "classes": ", {} per class", "efficiency": ", and what using the model costs",
    "cost": ", and what training cost",
    "transport": ", and how far the augmented domains are from the source",
}  # fmt: skip


def _class_score(board: Board) -> str:
    return "IoU" if board.ground.task == "segmentation" else "accuracy"


def _legend(board: Board, view: str) -> Iterator[str]:
    if view == "classes" and board.ground.task == "segmentation":
        yield "a class: its IoU, mean over the domains where it has one"
    elif view == "classes":
        yield "a class: share of its images that are decided right, mean over the domains with any"
    elif view == "transport":
        yield from transport.LEGEND


def sort_lines(
    lines: Sequence[Line], columns: Sequence[Column], sort: str, rows: Sequence[Row],
    by: Measure,
) -> list[Line]:  # fmt: skip
    """Best first by a column, or by name; without one, by what methods are ranked by."""
    if sort == "method":
        return sorted(lines, key=lambda line: line.method)
    column = next((column for column in columns if column.name == sort), None)
    if sort and column is None:
        raise unknown("column", sort, ["method", *(column.name for column in columns)])
    if column is None:
        ranks: Samples = by.samples(rows)
        means = {name: statistics.mean(values) for name, values in ranks.items()}
        return sorted(lines, key=lambda line: _key(means[line.method], -1))
    sign = -1 if column.better == "higher" or column.name.startswith("gain") else 1
    return sorted(lines, key=lambda line: _key(line.cells[column.name].mean, sign))


def _key(mean: float | None, sign: int) -> tuple[bool, float]:
    return (mean is None, sign * mean if mean is not None else 0.0)


def _definitions(columns: Sequence[Column]) -> Iterator[str]:
    by_level = [column for column in columns if LEVEL_AVERAGE.match(column.name)]
    if by_level:
        yield "accN_Lk: mean over N corruptions at level k"
    for column in columns:
        if column.definition and column not in by_level:
            yield f"{column.name}: {column.definition}"


def _notes(
    board: Board, rows: Sequence[Row], choice: str, baseline: str, view: str
) -> Iterator[str]:
    for name, covered in board.ground.averages.items():
        promised = LEVEL_AVERAGE.match(name)
        if promised and int(promised[1]) != covered:
            yield f"{name} covers {covered} of {promised[1]} corruptions"
    without = [r.name for r in rows if any(choice not in run.scores for run in r.runs.values())]
    if without:
        yield f"no weights were chosen on held-out source for: {shorten(without)}"
    if view == "classes":
        untold = [row.name for row in rows if not all(run.classes for run in row.runs.values())]
        if untold:
            yield f"records of an earlier version tell no scores of classes: {shorten(untold)}"
    if view == "transport":
        yield from transport.notes(rows)
    elif view in ("efficiency", "cost"):
        machines = {run.machine for row in rows for run in row.runs.values() if run.machine}
        if len(machines) > 1:
            several = "; ".join(sorted(machines))
            yield f"times are from several machines and do not compare: {several}"
        elif machines:
            yield f"measured on {machines.pop()}"
    elif missing := missing_baseline(board, rows, baseline):
        yield missing
    yield from _skipped(board)


def missing_baseline(board: Board, rows: Sequence[Row], baseline: str) -> str | None:
    """What to run before gains, mCE and RmCE can be shown, if anything."""
    if reference := board.row(baseline):
        wanted = {seed for row in rows for seed in row.runs} - set(reference.runs)
    elif several := [row.name for row in board.rows if row.method == baseline]:
        return (
            f"{baseline} stands there in several variants; --baseline takes one of: "
            + "; ".join(several)
        )
    else:
        wanted = {seed for row in rows for seed in row.runs}
    if not wanted:
        return None
    seeds = ",".join(str(seed) for seed in sorted(wanted))
    what = "gain, mCE and RmCE need" if corruption.is_corrupted(board.ground) else "the gain needs"
    return (
        f"{what} {baseline} for the seeds {seeds}: sdgbench run --method {baseline} "
        f"--dataset {board.dataset} --preset {board.preset} --seeds {seeds}"
    )


def _skipped(board: Board) -> Iterator[str]:
    """Methods that make no sense for the task, with their reason."""
    try:
        entries = registry.entries("method")
    except UserError:  # a broken plugin is no reason to show no table
        return
    there = {row.method for row in board.rows}
    for name, entry in entries.items():
        skips = entry.details.get("skips") or {}
        if name not in there and board.ground.task in skips:
            yield f"{name} makes no sense for {board.ground.task}: {skips[board.ground.task]}"
