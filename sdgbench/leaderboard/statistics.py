"""Cells of a table from the samples of its rows: intervals, gains, ranks and ties."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sdgbench import stats
from sdgbench.leaderboard.grouping import Row
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import TIE, Cell, Column, Line

Samples = dict[str, dict[int, float | None]]  # row: seed: value


@dataclass(frozen=True)
class Measure:
    """A column and how to read it from a run."""

    column: Column
    read: Callable[[Run], float | None]
    scale: float = 100
    digits: int = 1

    def samples(self, rows: Sequence[Row]) -> Samples:
        """Read all runs of some rows."""
        return {
            row.name: {seed: self._value(run) for seed, run in row.runs.items()} for row in rows
        }

    def _value(self, run: Run) -> float | None:
        value = self.read(run)
        return self.scale * value if value is not None and math.isfinite(value) else None


@dataclass
class Assembled:
    """Columns with their lines, and what to say about them."""

    columns: list[Column]
    lines: list[Line]
    notes: list[str] = field(default_factory=list)
    legend: list[str] = field(default_factory=list)


def mean(values: Mapping[int, float | None]) -> float | None:
    """The mean over seeds; None where one of them is not known."""
    known = [value for value in values.values() if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def assemble(
    rows: Sequence[Row],
    measures: Sequence[Measure],
    ranked: Measure,
    reference: Row | None,
    baseline: str,
) -> Assembled:
    """Make the lines of a table; ``reference`` is the baseline's row, None: no gains."""
    cells: dict[str, dict[str, Cell]] = {row.name: {} for row in rows}
    for measure in measures:
        samples = measure.samples(rows)
        single = measure.column.name == ranked.column.name
        for name, cell in _column(samples, measure, single).items():
            cells[name][measure.column.name] = cell
    made = Assembled([measure.column for measure in measures], [])
    if any(measure.column.better for measure in measures):
        made.legend.append("±: half-width of the 95% t-interval over n seeds")
        if len(rows) > 1:
            made.legend.append(
                f"bold: best, underlined: second; {TIE}: a tie with the best (the 95% interval of "
                "the paired difference covers 0)"
            )
    if reference is not None:
        _add_gains(made, cells, rows, ranked, reference, baseline)
    if any(len(row.runs) == 1 for row in rows):
        made.notes.append("n = 1: one seed has no interval")
    made.lines = [Line(row.name, len(row.runs), cells[row.name], tuple(row.runs)) for row in rows]
    return made


def _column(samples: Samples, measure: Measure, says_single: bool) -> dict[str, Cell]:
    cells = {name: _cell(values, measure, says_single) for name, values in samples.items()}
    if not measure.column.better or len(cells) < 2:
        return cells
    sign = 1 if measure.column.better == "higher" else -1
    means = {name: sign * cell.mean for name, cell in cells.items() if cell.mean is not None}
    places = sorted(set(means.values()), reverse=True)[:2]
    best = sorted(name for name, value in means.items() if value == places[0])
    for name, value in means.items():
        rank = places.index(value) + 1 if value in places else 0
        ties = len(best) > 1 if name in best else _ties(samples, name, best[0])
        cells[name] = cells[name].marked(rank, ties)
    return cells


def _cell(values: Mapping[int, float | None], measure: Measure, says_single: bool) -> Cell:
    known = [value for value in values.values() if value is not None]
    if not known or len(known) < len(values):
        return Cell(None, None, measure.digits)
    found, half = stats.mean_interval(known)
    if not measure.column.better and len(set(known)) == 1:
        half = None  # a count that is the same for all seeds has no spread to tell of
    text = "(n=1)" if says_single and len(known) == 1 else ""
    return Cell(found, half, measure.digits, text)


def _known(values: Mapping[int, float | None]) -> dict[int, float]:
    return {seed: value for seed, value in values.items() if value is not None}


def _ties(samples: Samples, name: str, best: str) -> bool:
    gain = stats.paired_gain(_known(samples[name]), _known(samples[best]), with_p=False)
    return gain is not None and gain.is_tie


def _add_gains(
    made: Assembled,
    cells: dict[str, dict[str, Cell]],
    rows: Sequence[Row],
    ranked: Measure,
    reference: Row,
    baseline: str,
) -> None:
    samples = ranked.samples([*rows, reference])
    theirs = _known(samples[reference.name])
    gains = {
        row.name: stats.paired_gain(_known(samples[row.name]), theirs)
        for row in rows
        if row.name != reference.name
    }
    if not gains:
        return
    gain_name, p_name = f"gain_vs_{baseline}", f"p_vs_{baseline}"
    made.columns.append(
        Column(gain_name, f"points of {ranked.column.name} above {baseline}, paired by seed, "
               "tie: its interval covers 0")
    )  # fmt: skip
    cells_of_p = _p_cells(gains)
    if any(cell.mean is not None for cell in cells_of_p.values()):
        how = "exact sign-flip test, two-sided, Holm's correction"
        if any(gain and gain.p is not None and not gain.exact for gain in gains.values()):
            how += f"; above {stats.MOST_EXACT} seeds by {stats.DRAWS:,} random sign patterns"
        made.columns.append(Column(p_name, how))
    for row in rows:
        gain = gains.get(row.name)
        if row.name == reference.name:
            cells[row.name] |= {gain_name: Cell(None, text="baseline"), p_name: Cell(None)}
        else:
            cells[row.name] |= {gain_name: _gain_cell(gain), p_name: cells_of_p[row.name]}
        if gain and gain.n < len(row.runs):
            made.notes.append(
                f"{row.name}: the gain is over {gain.n} seeds that {baseline} has too"
            )
    made.notes += _notes_on_p(gains)


def _gain_cell(gain: stats.Gain | None) -> Cell:
    if gain is None:
        return Cell(None)
    text = "tie" if gain.is_tie else "(n=1)" if gain.n == 1 else ""
    return Cell(gain.mean, gain.half, 1, text, signed=True)


def _p_cells(gains: Mapping[str, stats.Gain | None]) -> dict[str, Cell]:
    found = {name: gain.p for name, gain in gains.items() if gain and gain.p is not None}
    adjusted = stats.holm(found)
    return {
        name: Cell(adjusted[name], digits=3)
        if name in adjusted
        else Cell(None, text=f"n<{stats.FEWEST_SEEDS}" if gain else "")
        for name, gain in gains.items()
    }


def _notes_on_p(gains: Mapping[str, stats.Gain | None]) -> list[str]:
    counts = [gain.n for gain in gains.values() if gain]
    notes = []
    if any(count < stats.FEWEST_SEEDS for count in counts):
        notes.append(f"needs n >= {stats.FEWEST_SEEDS} seeds for p < {stats.SIGNIFICANCE}")
    tested = sum(count >= stats.FEWEST_SEEDS for count in counts)
    if tested and tested * stats.smallest_p(max(counts)) >= stats.SIGNIFICANCE:
        enough = next(n for n in range(99) if tested * stats.smallest_p(n) < stats.SIGNIFICANCE)
        notes.append(
            f"with Holm's correction for {tested} methods, the smallest p needs n >= {enough} "
            f"seeds to be below {stats.SIGNIFICANCE}"
        )
    return notes
