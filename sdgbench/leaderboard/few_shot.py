"""Few-shot adaptation as tables: methods as rows, shots as columns, one table per pair."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sdgbench.adapt.results import PROTOCOL, Result, read_all
from sdgbench.errors import UserError
from sdgbench.leaderboard import statistics
from sdgbench.leaderboard.grouping import BASELINE, DATA_FLAGS, Board, Row, shorten
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.statistics import Measure
from sdgbench.leaderboard.table import Cell, Column, Line, Table
from sdgbench.leaderboard.verdicts import sources_of
from sdgbench.leaderboard.views import WEIGHTS, sort_lines
from sdgbench.published import TAGS, PublishedTable, tables

Key = tuple[str, str, int, int, float, int, str]
Draws = dict[int, float]  # by number of the draw


@dataclass
class Pair:
    """Adaptations of a board's runs to one target, all with the same settings."""

    target: str
    drawn_from: str
    held_out: int
    iterations: int
    lr: float
    batch: int
    scores: dict[str, dict[int, Draws]] = field(default_factory=dict)  # run: shots: draws
    results: list[Result] = field(default_factory=list)

    @property
    def shots(self) -> list[int]:
        """What there is, fewest first."""
        return sorted({shots for found in self.scores.values() for shots in found})

    def mean(self, run: Run, shots: int) -> float | None:
        """The mean over draws of one seed, which is one unit."""
        draws = self.scores[run.id].get(shots)
        return math.fsum(draws.values()) / len(draws) if draws else None

    def gain(self, run: Run, shots: int) -> float | None:
        """The mean over draws of what so many shots gain over none, on the same images."""
        before, after = (self.scores[run.id].get(number) for number in (0, shots))
        if not before or not after:
            return None
        # From a training split nothing is held out: all draws are tested on the same images.
        none = before if self.held_out else dict.fromkeys(after, before[0])
        both = [after[draw] - none[draw] for draw in after if draw in none]
        return math.fsum(both) / len(both) if both else None

    def spread(self, run: Run, shots: int) -> float | None:
        """The standard deviation between the draws of one seed."""
        draws = list(self.scores[run.id].get(shots, {}).values())
        if len(draws) < 2:
            return None
        mean = math.fsum(draws) / len(draws)
        return math.sqrt(math.fsum((d - mean) ** 2 for d in draws) / (len(draws) - 1))


def few_shot_tables(
    shown: Sequence[Board],
    baseline: str = BASELINE,
    sort: str = "",
    methods: Sequence[str] = (),
) -> tuple[list[Table], list[UserError]]:
    """Each pair's table and what is published for it; and what could not be read."""
    found: list[Table] = []
    problems: list[UserError] = []
    for board in shown:
        for pair in _pairs(board, problems):
            rows = [
                replace(row, runs={s: run for s, run in row.runs.items() if run.id in pair.scores})
                for row in board.rows
                if not methods or {row.method, row.name} & set(methods)
            ]
            rows = [row for row in rows if row.runs]
            if rows:
                found.append(_table(board, pair, rows, baseline, sort))
                found += [table for table in _published(board, pair) if table not in found]
    return found, problems


def _pairs(board: Board, problems: list[UserError]) -> list[Pair]:
    """Group a board's adaptations; without any shots they belong to every setting."""
    groups: dict[Key, list[Result]] = defaultdict(list)
    for run in (run for row in board.rows for run in row.runs.values()):
        for result in read_all(run.folder) if run.folder else ():
            if isinstance(result, UserError):
                problems.append(result)
            elif result["asked"]["run"] == run.id:
                groups[_key(result)].append(result)
    tuned = [key for key in groups if key[3]]
    found = []
    for key in sorted(tuned or groups):
        untouched = next((k for k in groups if not k[3] and _same_images(k, key)), key)
        pair = Pair(*key[:-1], results=[r for k in {untouched, key} for r in groups[k]])
        for result in pair.results:
            asked = result["asked"]
            draws = pair.scores.setdefault(asked["run"], {}).setdefault(asked["shots"], {})
            draws[asked["draw"]] = result["results"]["accuracy"]
        found.append(pair)
    order = {name: place for place, name in enumerate(board.domains)}
    return sorted(found, key=lambda pair: order.get(pair.target, len(order)))


def _key(result: Result) -> Key:
    asked = result["asked"]
    settings = ("target", "drawn_from", "held_out", "iterations", "lr", "batch")
    return (*(asked[name] for name in settings), result["evaluation"]["whole"]["sha256"])


def _same_images(first: Key, second: Key) -> bool:
    return (*first[:3], first[-1]) == (*second[:3], second[-1])


def _table(board: Board, pair: Pair, rows: Sequence[Row], baseline: str, sort: str) -> Table:
    measures = list(_measures(pair))
    ranked = [measure for measure in measures if measure.column.better][-1]
    reference = next((row for row in rows if baseline in (row.name, row.method)), None)
    made = statistics.assemble(rows, measures, ranked, reference, baseline)
    source = str(board.ground.source.get("name", ""))
    return Table(
        kind="few-shot",
        title=f"{board.title}, few-shot {source} → {pair.target}",
        columns=tuple(made.columns),
        lines=tuple(sort_lines(made.lines, made.columns, sort, rows, ranked)),
        reduced=board.reduced,
        notes=tuple(dict.fromkeys(
            [*board.data_notes(rows), *_notes(board, pair, rows), *made.notes]
        )),
        legend="; ".join([
            f"starts from the {WEIGHTS['last']}",
            *(f"{column.name}: {column.definition}" for column in made.columns),
            *made.legend, "the draws of a seed are averaged first",
        ]),
        facts={
            "dataset": board.dataset, "preset": board.preset, "remark": board.remark,
            "metric": board.metric, "reduced_scale": board.reduced, "choice": "last",
            "view": "few-shot", "source": source, "target": pair.target,
            "iterations": pair.iterations, "drawn_from": pair.drawn_from,
        },
    )  # fmt: skip


def _measures(pair: Pair) -> Iterator[Measure]:
    some = [shots for shots in pair.shots if shots]
    if 0 in pair.shots:
        yield Measure(Column("0", "the untouched network", "higher"), lambda run: pair.mean(run, 0))
    for shots in some:
        yield Measure(
            Column(str(shots), f"after {shots} images per class", "higher"),
            lambda run, shots=shots: pair.mean(run, shots),  # type: ignore[misc]
        )
    for shots in some if 0 in pair.shots else ():
        yield Measure(
            Column(f"gain_{shots}", f"points of {shots} above 0, paired by draw"),
            lambda run, shots=shots: pair.gain(run, shots),  # type: ignore[misc]
        )
    if some:
        yield Measure(
            Column(f"sd_{some[-1]}", f"standard deviation between draws at {some[-1]}"),
            lambda run: pair.spread(run, some[-1]),
        )


def _notes(board: Board, pair: Pair, rows: Sequence[Row]) -> Iterator[str]:
    if pair.iterations:
        yield f"{pair.iterations} iterations, lr {pair.lr:g}, batch {pair.batch}; {PROTOCOL}"
    whole = pair.results[0]["evaluation"]["whole"]["count"]
    if pair.drawn_from == "train":
        of = pair.results[0]["drawn"]["of"]
        yield f"drawn from {of:,} training images of {pair.target}, tested on {whole:,} test images"
    else:
        least = min(result["evaluation"]["count"] for result in pair.results)
        yield (
            f"{pair.target} has no training split here: of each draw, {pair.held_out} images per "
            f"class are held out of its {whole:,} test images, at all shots alike (at least "
            f"{least:,} are left)"
        )
    trained = board.ground.source.get("train", {}).get("count")
    yield f"trained on {trained:,} images of {board.ground.source.get('name')}"
    for flag, text in DATA_FLAGS.items():
        names = {name for result in pair.results for name in result["flags"].get(flag, ())}
        if names:
            yield f"{text}: {shorten(sorted(names))}"
    shown = [run for row in rows for run in row.runs.values()]
    counts = {len(draws) for run in shown for s, draws in pair.scores[run.id].items() if s}
    if counts:
        several = "-".join(str(count) for count in sorted({min(counts), max(counts)}))
        yield f"draws per seed: {several}"
    lacking = [
        f"{run.method}, seed {run.seed}" for run in shown
        if any(shots not in pair.scores[run.id] for shots in pair.shots)
    ]  # fmt: skip
    if lacking:
        yield f"not adapted with all shots yet, so without a mean: {shorten(lacking)}"


def _published(board: Board, pair: Pair) -> Iterator[Table]:
    """What is published for a pair: a block of its own, never ranked."""
    column = f"{board.ground.source.get('name')}_to_{pair.target}"
    for table in tables():
        if table.dataset == board.dataset and column in table.columns:
            yield _published_table(table, column)


def _published_table(table: PublishedTable, column: str) -> Table:
    rows = [row for row in table.rows if column in row.cells]
    known = dict.fromkeys(row.shots for row in rows)
    shots = sorted(known, key=lambda text: (not text.isdigit(), int(text) if text.isdigit() else 0))
    by_method: dict[str, dict[str, float]] = {}
    for row in rows:
        by_method.setdefault(row.method, {})[row.shots] = row.cells[column]
    tags, reference = {row.method: row.tag for row in rows}, next(iter(table.references))
    lines = [
        Line(method, None, {
            **{name: Cell(found.get(name), digits=table.digits) for name in shots},
            "from": Cell(None, text=f"{tags[method]} {reference}"),
        })
        for method, found in by_method.items()
    ]  # fmt: skip
    source, _, target = column.partition("_to_")
    facts: dict[str, object] = {
        "dataset": table.dataset, "preset": "", "remark": table.protocol, "metric": table.metric,
        "reduced_scale": "", "choice": "", "view": "published", "source": source, "target": target,
    }  # fmt: skip
    return Table(
        "published", f"{table.name}, published: {source} → {target}, not ranked",
        (*(Column(name, f"{name} images per class of the target") for name in shots),
         Column("from", "tag and source", is_text=True)),
        tuple(lines), "", (f"metric: {table.metric}", *sources_of([table])),
        "; ".join(f"{tag}: {TAGS[tag]}" for tag in dict.fromkeys(row.tag for row in rows)),
        facts,
    )  # fmt: skip
