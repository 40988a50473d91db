"""Few-shot adaptation as tables: methods as rows, shots as columns, one table per pair."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sdgbench.errors import UserError
from sdgbench.leaderboard import cells
from sdgbench.leaderboard.cells import Measure
from sdgbench.leaderboard.grouping import Leaderboard, Row, shorten
from sdgbench.leaderboard.notes import DATA_FLAGS, data_notes
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import Column, Table
from sdgbench.leaderboard.views import WEIGHTS, sort_lines
from sdgbench.records.adaptations import PROTOCOL, Adaptation, read_all
from sdgbench.registry import BASELINE

VIEW = "few-shot"  # its name among the views: not one table, but one per pair of domains
Key = tuple[str, str, int, int, float, int, str]
Draws = dict[int, float]  # by number of the draw


@dataclass
class Pair:
    """Adaptations of a leaderboard's runs to one target, all with the same settings."""

    target: str
    drawn_from: str
    held_out: int
    iterations: int
    lr: float
    batch: int
    scores: dict[str, dict[int, Draws]] = field(default_factory=dict)  # run: shots: draws
    results: list[Adaptation] = field(default_factory=list)

    @property
    def shots(self) -> list[int]:
        """All numbers of shots, fewest first."""
        return sorted({shots for by_shots in self.scores.values() for shots in by_shots})

    def mean(self, run: Run, shots: int) -> float | None:
        """The mean over draws of one seed, which is one unit."""
        draws = self.scores[run.id].get(shots)
        return math.fsum(draws.values()) / len(draws) if draws else None

    def gain(self, run: Run, shots: int) -> float | None:
        """The mean over draws of what this number of shots gains over none, on the same images."""
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
    shown: Sequence[Leaderboard],
    baseline: str = BASELINE,
    sort: str = "",
    methods: Sequence[str] = (),
) -> tuple[list[Table], list[UserError]]:
    """The table of each pair of domains; and what could not be read."""
    tables: list[Table] = []
    problems: list[UserError] = []
    for board in shown:
        for pair in _pairs(board, problems):
            rows = [
                replace(row, runs={s: run for s, run in row.runs.items() if run.id in pair.scores})
                for row in board.rows_of(methods)
            ]
            rows = [row for row in rows if row.runs]
            if rows:
                tables.append(_table(board, pair, rows, baseline, sort))
    return tables, problems


def _pairs(board: Leaderboard, problems: list[UserError]) -> list[Pair]:
    """Group a leaderboard's adaptations; those without any shots belong to every setting."""
    groups: dict[Key, list[Adaptation]] = defaultdict(list)
    for run in (run for row in board.rows for run in row.runs.values()):
        for result in read_all(run.folder) if run.folder else ():
            if isinstance(result, UserError):
                problems.append(result)
            elif result.asked.run == run.id:
                groups[_key(result)].append(result)
    tuned = [key for key in groups if key[3]]
    pairs = []
    for key in sorted(tuned or groups):
        untouched = next((k for k in groups if not k[3] and _same_images(k, key)), key)
        pair = Pair(*key[:-1], results=[r for k in {untouched, key} for r in groups[k]])
        for result in pair.results:
            asked = result.asked
            draws = pair.scores.setdefault(asked.run, {}).setdefault(asked.shots, {})
            draws[asked.draw] = result.accuracy
        pairs.append(pair)
    order = {name: index for index, name in enumerate(board.domains)}
    return sorted(pairs, key=lambda pair: order.get(pair.target, len(order)))


def _key(result: Adaptation) -> Key:
    asked = result.asked
    settings = ("target", "drawn_from", "held_out", "iterations", "lr", "batch")
    return (*(getattr(asked, name) for name in settings), result.evaluation.whole.sha256)


def _same_images(first: Key, second: Key) -> bool:
    return (*first[:3], first[-1]) == (*second[:3], second[-1])


def _table(board: Leaderboard, pair: Pair, rows: Sequence[Row], baseline: str, sort: str) -> Table:
    measures = list(_measures(pair))
    ranked = [measure for measure in measures if measure.column.better][-1]
    reference = next((row for row in rows if baseline in (row.name, row.method)), None)
    assembled = cells.assemble(rows, measures, ranked, reference, baseline)
    source = board.protocol.source.name
    return Table(
        kind=VIEW,
        title=f"{board.title}, few-shot {source} → {pair.target}",
        columns=tuple(assembled.columns),
        lines=tuple(sort_lines(assembled.lines, assembled.columns, sort, rows, ranked)),
        reduced=board.reduced,
        notes=tuple(
            dict.fromkeys([*data_notes(board, rows), *_notes(board, pair, rows), *assembled.notes])
        ),
        legend=(
            f"starts from the {WEIGHTS['last']}",
            *(f"{column.name}: {column.definition}" for column in assembled.columns),
            *assembled.legend,
            "the draws of a seed are averaged first",
        ),
        facts=board.facts(
            VIEW,
            "last",
            source=source,
            target=pair.target,
            iterations=pair.iterations,
            drawn_from=pair.drawn_from,
        ),
    )


def _measures(pair: Pair) -> Iterator[Measure]:
    several = [shots for shots in pair.shots if shots]
    if 0 in pair.shots:
        yield Measure(Column("0", "the untouched network", "higher"), lambda run: pair.mean(run, 0))
    for shots in several:
        yield Measure(
            Column(str(shots), f"after {shots} images per class", "higher"),
            lambda run, shots=shots: pair.mean(run, shots),  # type: ignore[misc]
        )
    for shots in several if 0 in pair.shots else ():
        yield Measure(
            Column(f"gain_{shots}", f"points of {shots} above 0, paired by draw"),
            lambda run, shots=shots: pair.gain(run, shots),  # type: ignore[misc]
        )
    if several:
        yield Measure(
            Column(f"sd_{several[-1]}", f"standard deviation between draws at {several[-1]}"),
            lambda run: pair.spread(run, several[-1]),
        )


def _notes(board: Leaderboard, pair: Pair, rows: Sequence[Row]) -> Iterator[str]:
    if pair.iterations:
        yield f"{pair.iterations} iterations, lr {pair.lr:g}, batch {pair.batch}; {PROTOCOL}"
    whole = pair.results[0].evaluation.whole.count
    if pair.drawn_from == "train":
        of = pair.results[0].drawn.of
        yield f"drawn from {of:,} training images of {pair.target}, tested on {whole:,} test images"
    else:
        least = min(result.evaluation.count for result in pair.results)
        yield (
            f"{pair.target} has no training split here: of each draw, {pair.held_out} images per "
            f"class are held out of its {whole:,} test images, at all shots alike (at least "
            f"{least:,} are left)"
        )
    trained = board.protocol.source.train.count
    yield f"trained on {trained:,} images of {board.protocol.source.name}"
    for flag, text in DATA_FLAGS.items():
        names = {name for result in pair.results for name in result.flags.get(flag, ())}
        if names:
            yield f"{text}: {shorten(sorted(names))}"
    shown = [run for row in rows for run in row.runs.values()]
    counts = {len(draws) for run in shown for s, draws in pair.scores[run.id].items() if s}
    if counts:
        several = "-".join(str(count) for count in sorted({min(counts), max(counts)}))
        yield f"draws per seed: {several}"
    lacking = [
        f"{run.method}, seed {run.seed}"
        for run in shown
        if any(shots not in pair.scores[run.id] for shots in pair.shots)
    ]
    if lacking:
        yield f"not adapted with all shots yet, so without a mean: {shorten(lacking)}"
