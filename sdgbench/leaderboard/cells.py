"""Cells of a table from the samples of its rows: intervals, gains, ranks and ties."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sdgbench.leaderboard import statistics
from sdgbench.leaderboard.grouping import Row, shorten
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import BADGE, TIE, Cell, Column, Line
from sdgbench.records.badges import MEANINGS

INTERVAL = "±: half-width of the 95% t-interval over n seeds"
Samples = dict[str, dict[int, float | None]]  # row: seed: value


@dataclass(frozen=True)
class Measure:
    """A column and how to read it from a run."""

    column: Column
    read: Callable[[Run], float | None]
    scale: float = 100
    digits: int = 1

    def samples(self, rows: Sequence[Row]) -> Samples:
        """Read the value of every run of these rows."""
        return {
            row.name: {seed: self._value(run) for seed, run in row.runs.items()} for row in rows
        }

    def _value(self, run: Run) -> float | None:
        value = self.read(run)
        return self.scale * value if value is not None and math.isfinite(value) else None


@dataclass
class Assembled:
    """Columns with their lines, and the notes and legend that belong to them."""

    columns: list[Column]
    lines: list[Line]
    notes: list[str] = field(default_factory=list)
    legend: list[str] = field(default_factory=list)


def mean(values: Mapping[int, float | None]) -> float | None:
    """The mean over seeds; None where one of them is not known."""
    known = [value for value in values.values() if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def missing_seeds(rows: Sequence[Row]) -> dict[str, tuple[int, ...]]:
    """For each row the seeds that it lacks to be ranked: rows are ranked on the same seeds.

    These are the largest set of seeds that any row has; of several, that of most rows.
    """
    sets = Counter(frozenset(row.runs) for row in rows)
    order = sorted(sets, key=lambda seeds: (-len(seeds), -sets[seeds], sorted(seeds)))
    seeds = order[0] if order else frozenset()
    return {row.name: tuple(sorted(seeds - row.runs.keys())) for row in rows}


def assemble(
    rows: Sequence[Row],
    measures: Sequence[Measure],
    ranked: Measure,
    reference: Row | None,
    baseline: str,
    ranks: bool = True,
) -> Assembled:
    """Make the lines of a table; ``reference`` is the baseline's row, None: no gains."""
    cells: dict[str, dict[str, Cell]] = {row.name: {} for row in rows}
    missing = missing_seeds(rows) if ranks else {row.name: () for row in rows}
    for measure in measures:
        samples = measure.samples(rows)
        single = measure.column.name == ranked.column.name
        for name, cell in _column(samples, measure, single, missing).items():
            cell = cell if ranks else cell.marked(0, False)
            cells[name][measure.column.name] = cell
    assembled = Assembled([measure.column for measure in measures], [])
    if any(measure.column.better for measure in measures):
        assembled.legend.append(INTERVAL)
        if len(rows) > 1 and ranks:
            assembled.legend.append(
                f"bold: best, underlined: second; {TIE}: a tie with the best (the 95% interval of "
                "the paired difference covers 0)"
            )
    if reference is not None:
        _add_gains(assembled, cells, rows, ranked, reference, baseline)
    if any(len(row.runs) == 1 for row in rows):
        assembled.notes.append("n = 1: one seed has no interval")
    assembled.notes += _notes_on_ranks(missing)
    assembled.lines = [
        Line(row.name, len(row.runs), cells[row.name], tuple(row.runs), missing[row.name])
        for row in rows
    ]
    return assembled


def _notes_on_ranks(missing: Mapping[str, Sequence[int]]) -> list[str]:
    names: dict[str, list[str]] = defaultdict(list)
    for name, seeds in missing.items():
        if seeds:
            names[", ".join(map(str, seeds))].append(name)
    return [
        f"not ranked, for lack of seed{'s' * (',' in seeds)} {seeds}: {shorten(rows)}"
        for seeds, rows in names.items()
    ]


def _column(
    samples: Samples, measure: Measure, marks_single: bool, missing: Mapping[str, Sequence[int]]
) -> dict[str, Cell]:
    cells = {name: _cell(values, measure, marks_single) for name, values in samples.items()}
    ranked = [name for name in cells if not missing[name]]
    if not measure.column.better or len(ranked) < 2:
        return cells
    sign = 1 if measure.column.better == "higher" else -1
    means = {n: sign * mean for n in ranked if (mean := cells[n].mean) is not None}
    if not means:
        return cells
    top = sorted(set(means.values()), reverse=True)[:2]
    best = sorted(name for name, value in means.items() if value == top[0])
    for name, value in means.items():
        rank = top.index(value) + 1 if value in top else 0
        ties = len(best) > 1 if name in best else _ties(samples, name, best[0])
        cells[name] = cells[name].marked(rank, ties)
    return cells


def _cell(values: Mapping[int, float | None], measure: Measure, marks_single: bool) -> Cell:
    known = [value for value in values.values() if value is not None]
    if not known or len(known) < len(values):
        return Cell(None, None, measure.digits, samples=values)
    mean, half = statistics.mean_interval(known)
    if not measure.column.better and len(set(known)) == 1:
        half = None  # a count that is the same for all seeds has no spread
    text = "(n=1)" if marks_single and len(known) == 1 else ""
    return Cell(mean, half, measure.digits, text, samples=values)


def _known(values: Mapping[int, float | None]) -> dict[int, float]:
    return {seed: value for seed, value in values.items() if value is not None}


def _ties(samples: Samples, name: str, best: str) -> bool:
    gain = statistics.paired_gain(_known(samples[name]), _known(samples[best]), with_p=False)
    return gain is not None and gain.is_tie


def _add_gains(
    assembled: Assembled,
    cells: dict[str, dict[str, Cell]],
    rows: Sequence[Row],
    ranked: Measure,
    reference: Row,
    baseline: str,
) -> None:
    samples = ranked.samples([*rows, reference])
    theirs = _known(samples[reference.name])
    gains = {
        row.name: statistics.paired_gain(_known(samples[row.name]), theirs)
        for row in rows
        if row.name != reference.name
    }
    if not gains:
        return
    gain_name, p_name = f"gain_vs_{baseline}", f"p_vs_{baseline}"
    assembled.columns.append(
        Column(
            gain_name,
            f"points of {ranked.column.name} above {baseline}, paired by seed, "
            "tie: its interval covers 0",
        )
    )
    cells_of_p = _p_cells(gains)
    if any(cell.mean is not None for cell in cells_of_p.values()):
        how = "exact sign-flip test, two-sided, Holm's correction"
        if any(gain and gain.p is not None and not gain.exact for gain in gains.values()):
            draws = f"{statistics.DRAWS:,} random sign patterns"
            how += f"; above {statistics.MOST_EXACT} seeds by {draws}"
        assembled.columns.append(Column(p_name, how))
    for row in rows:
        gain = gains.get(row.name)
        if row.name == reference.name:
            cells[row.name] |= {gain_name: Cell(None, text="baseline"), p_name: Cell(None)}
        else:
            differences = _differences(samples[row.name], theirs)
            cells[row.name] |= {
                gain_name: _gain_cell(gain, differences),
                p_name: cells_of_p[row.name],
            }
        if gain and gain.n < len(row.runs):
            assembled.notes.append(
                f"{row.name}: the gain is over {gain.n} seeds that {baseline} has too"
            )
    assembled.notes += _notes_on_p(gains)


def add_badges(assembled: Assembled, rows: Sequence[Row]) -> None:
    """Add a column with the badges, if any row has one; a row without is only claimed."""
    if not any(row.badge for row in rows):
        return
    shown = {row.name: row.badge or "claimed" for row in rows}
    for line in assembled.lines:
        line.cells[BADGE] = Cell(None, text=shown[line.method])
    meanings = [f"{badge} ({text})" for badge, text in MEANINGS.items() if badge in shown.values()]
    assembled.columns.append(Column(BADGE, ", ".join(meanings), is_text=True))


def _differences(
    ours: Mapping[int, float | None], theirs: Mapping[int, float]
) -> dict[int, float | None]:
    """The paired differences behind a gain; None: the seed has no partner."""
    return {
        seed: value - theirs[seed] if value is not None and seed in theirs else None
        for seed, value in ours.items()
    }


def _gain_cell(gain: statistics.Gain | None, differences: Mapping[int, float | None]) -> Cell:
    if gain is None:
        return Cell(None)
    text = "tie" if gain.is_tie else "(n=1)" if gain.n == 1 else ""
    return Cell(gain.mean, gain.half, 1, text, signed=True, samples=differences)


def _p_cells(gains: Mapping[str, statistics.Gain | None]) -> dict[str, Cell]:
    known = {name: gain.p for name, gain in gains.items() if gain and gain.p is not None}
    adjusted = statistics.holm(known)
    return {
        name: Cell(adjusted[name], digits=3)
        if name in adjusted
        else Cell(None, text=f"n<{statistics.FEWEST_SEEDS}" if gain else "")
        for name, gain in gains.items()
    }


def _notes_on_p(gains: Mapping[str, statistics.Gain | None]) -> list[str]:
    counts = [gain.n for gain in gains.values() if gain]
    notes = []
    if any(count < statistics.FEWEST_SEEDS for count in counts):
        notes.append(
            f"needs n >= {statistics.FEWEST_SEEDS} seeds for p < {statistics.SIGNIFICANCE}"
        )
    tested = sum(count >= statistics.FEWEST_SEEDS for count in counts)
    if tested and tested * statistics.smallest_p(max(counts)) >= statistics.SIGNIFICANCE:
        enough = next(
            n for n in range(99) if tested * statistics.smallest_p(n) < statistics.SIGNIFICANCE
        )
        notes.append(
            f"with Holm's correction for {tested} methods, the smallest p needs n >= {enough} "
            f"seeds to be below {statistics.SIGNIFICANCE}"
        )
    return notes
