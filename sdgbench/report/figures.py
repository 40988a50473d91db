"""The figures for a paper, by matplotlib. To add one: a function of ``Canvas`` in FIGURES."""

import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from sdgbench import storage
from sdgbench.leaderboard import Board, Row
from sdgbench.report import curves as training
from sdgbench.report import palette, series

FORMATS = ("svg", "pdf", "png")
MARKERS = ("o", "s", "D", "^", "X", "P", "v", "*")  # as in palette.MARKERS
LINES = ("-", (0, (6, 3)), (0, (2, 2)), (0, (8, 3, 2, 3)))
STYLE: dict[Any, Any] = {
    "font.size": 8, "figure.titlesize": 8, "figure.labelsize": 8, "axes.titlesize": 8,
    "axes.labelsize": 8, "xtick.labelsize": 7,
    "ytick.labelsize": 7, "legend.fontsize": 7, "font.family": "sans-serif",
    "pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "sdgbench",
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "lines.linewidth": 1.2,
    "legend.frameon": False, "text.parse_math": False,  # names are names, whatever they hold
}  # fmt: skip
METADATA: dict[str, dict[str, str | None]] = {
    "svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": "sdgbench"},
}  # fmt: skip
DOTS_PER_INCH = 300  # of a PNG


@dataclass(frozen=True)
class Canvas:
    """What a figure is drawn from, and how wide it may be."""

    board: Board
    looks: dict[str, palette.Look]
    width: float  # inches
    data: Path | None = None  # the data folder, for figures that show images
    domains: tuple[str, ...] = ()  # which domains to show; empty: the figure's own choice

    @property
    def rows(self) -> list[Row]:
        """Best first."""
        return series.ordered(self.board)

    def colour(self, row: Row) -> str:
        """The row's colour."""
        return palette.COLOURS[self.looks[row.name].colour]

    def stroke(self, row: Row) -> dict[str, Any]:
        """Colour, marker and line of the row."""
        look = self.looks[row.name]
        return {
            "color": self.colour(row), "marker": MARKERS[look.marker], "linestyle": LINES[look.dash]
        }  # fmt: skip

    def start(self, height: float) -> Figure:
        """A figure that says what it is about."""
        figure = Figure(figsize=(self.width, height + 0.35), layout="constrained")
        remark = f" [{self.board.remark}]" if self.board.remark else ""
        said = [f"{self.board.dataset}, {self.board.preset} preset{remark}"]
        if self.board.reduced:
            said.append(f"Reduced scale: {self.board.reduced}")
        most = max(30, int(self.width * 17))  # letters that fit on a line
        figure.suptitle("\n".join(part for text in said for part in textwrap.wrap(text, most)))
        return figure

    @property
    def score(self) -> str:
        """What the numbers are."""
        return f"{self.board.metric} (%)"


def legend(figure: Figure, axes: Axes, count: int, width: float) -> None:
    """Name all lines below the panels."""
    handles, labels = axes.get_legend_handles_labels()
    shown = [label if len(label) < 40 else label[:39] + "…" for label in labels]
    longest = max(map(len, shown), default=1)
    columns = max(1, min(count, int(width / (0.4 + 0.058 * longest))))
    figure.legend(handles, shown, loc="outside lower center", ncols=columns)


def within(low: float, high: float) -> tuple[float, float]:
    """Limits with some room; a score is nowhere below 0 or above 100."""
    room = 0.06 * (high - low) or 1.0
    return max(0.0, low - room), min(100.0, high + room)


def ends(found: Iterable[series.Estimate]) -> tuple[float, float]:
    """The lowest and the highest end of some intervals."""
    every = [(one.mean, one.half or 0.0) for one in found]
    return min(mean - half for mean, half in every), max(mean + half for mean, half in every)


def plain_ticks(axis: Axis) -> None:
    """Numbers as they are: powers are formulas, and formulas are not set here."""
    if axis.get_scale() != "linear":
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())


def bars(canvas: Canvas) -> Figure | None:
    """The ranked average of each row, with its interval."""
    rows = canvas.rows
    figure = canvas.start(0.45 + 0.22 * len(rows))
    axes = figure.subplots()
    found = [series.ranked_estimate(row) for row in rows]
    places = range(len(rows))
    axes.barh(
        places, [one.mean for one in found], color=[canvas.colour(r) for r in rows], alpha=0.8
    )
    for place, one in enumerate(found):
        half = one.half or 0.0
        if one.half is not None:
            axes.errorbar(one.mean, place, xerr=[[min(half, one.mean)], [half]], color="black",
                          capsize=2, linewidth=0.8)  # fmt: skip
        shown = f"{one.mean:.1f}" + (f" ±{half:.1f}" if one.half is not None else " (n=1)")
        axes.annotate(shown, (one.mean + half, place), (3, 0), textcoords="offset points",
                      va="center", fontsize=7)  # fmt: skip
    axes.set_yticks(places, [row.name for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.25 * max(one.mean + (one.half or 0) for one in found) or 1)
    axes.set_xlabel(f"{canvas.board.ranked}, {canvas.score}, with 95% intervals")
    return figure


def heatmap(canvas: Canvas) -> Figure | None:
    """Methods x domains; of corruptions, those at the highest severity."""
    rows, names, places = canvas.rows, list(canvas.board.domains), None
    if panels := series.severity_panels(canvas.board)[1:]:
        clean = [("clean", panels[0].places[0][0])] if panels[0].levels[0] == 0 else []
        chosen = [*clean, *((panel.name, panel.places[-1][0]) for panel in panels)]
        names, places = [name for name, _ in chosen], [place for _, place in chosen]
    scores = [[one.mean for one in series.domain_estimates(row)] for row in rows]
    values = [[line[p] for p in places] if places else line for line in scores]
    figure = canvas.start(0.9 + 0.2 * len(rows))
    axes = figure.subplots()
    image = axes.imshow(values, cmap="cividis", aspect="auto")
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if len(names) * 0.28 < canvas.width - 1:  # else the numbers would run into each other
        shades = image.to_rgba(np.asarray(values)).tolist()
        for line, row in enumerate(values):
            for column, value in enumerate(row):
                axes.text(column, line, f"{value:.1f}", ha="center", va="center", fontsize=6,
                          color=palette.text_on(shades[line][column]))  # fmt: skip
    figure.colorbar(image, ax=axes, label=canvas.score, pad=0.02)
    if places:
        axes.set_title(f"severity {panels[0].levels[-1]}")
    return figure


def severity(canvas: Canvas) -> Figure | None:
    """Score by severity, one panel per corruption."""
    panels = series.severity_panels(canvas.board)
    if not panels:
        return None
    columns = max(3, round(canvas.width / 1.35))
    lines = math.ceil(len(panels) / columns)
    figure = canvas.start(0.5 + 0.95 * lines)
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, axes in zip(panels, grid, strict=False):
        for row in canvas.rows:
            found = panel.estimates(row)
            means = [one.mean for one in found]
            axes.plot(panel.levels, means, label=row.name, markersize=2.2, **canvas.stroke(row))
            if all(one.half is not None for one in found):
                axes.fill_between(panel.levels, [o.mean - (o.half or 0) for o in found],
                                  [o.mean + (o.half or 0) for o in found],
                                  color=canvas.colour(row), alpha=0.15, linewidth=0)  # fmt: skip
        axes.set_title(panel.name.replace("_", " "), fontsize=7)
        axes.set_xticks(panels[0].levels)
    means = [one.mean for p in panels for row in canvas.rows for one in p.estimates(row)]
    grid[0].set_ylim(*within(min(means), max(means)))
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.supylabel(f"{canvas.score} by severity (0: clean), 95% bands", fontsize=8)
    legend(figure, grid[0], len(canvas.rows), canvas.width)
    return figure


def scatter(canvas: Canvas) -> Figure | None:
    """Score against costs, with the Pareto front."""
    clouds = series.clouds(canvas.board)
    if not clouds:
        return None
    side_by_side = canvas.width >= 5
    shape = (1, len(clouds)) if side_by_side else (len(clouds), 1)
    figure = canvas.start(0.5 + 1.9 * shape[0])
    grid = figure.subplots(*shape, squeeze=False).ravel()
    for cloud, axes in zip(clouds, grid, strict=True):
        front = [(cloud.costs[name], cloud.scores[name].mean) for name in cloud.front]
        axes.step(*zip(*front, strict=True), where="post", color="0.55", linestyle=":", zorder=0,
                  label="Pareto front")  # fmt: skip
        for row in canvas.rows:
            if row.name in cloud.costs:
                one = cloud.scores[row.name]
                style = {**canvas.stroke(row), "linestyle": "none"}
                axes.errorbar(cloud.costs[row.name], one.mean, yerr=one.half, label=row.name,
                              markersize=4.5, capsize=2, elinewidth=0.7, **style)  # fmt: skip
        axes.set_xlabel(cloud.label, fontsize=7)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.margins(x=0.15)
        axes.set_ylim(*within(*ends(cloud.scores.values())))
    for axes in grid if not side_by_side else grid[:1]:
        axes.set_ylabel(f"{canvas.board.ranked}, {canvas.score}")
    legend(figure, grid[0], len(canvas.rows) + 1, canvas.width)
    return figure


def curves(canvas: Canvas) -> Figure | None:
    """Loss and source validation, one line per run."""
    found = [(row, training.read(run.folder)) for row in canvas.rows for run in row.runs.values()]
    if not any(curve.loss or curve.validation for _, curve in found):
        return None
    wide = canvas.width >= 5
    figure = canvas.start(0.5 + (1.8 if wide else 3.4))
    left, right = figure.subplots(1, 2) if wide else figure.subplots(2, 1)
    named = set()
    for row, curve in found:
        style = {**canvas.stroke(row), "linewidth": 0.9, "alpha": 0.75}
        name = row.name if row.name not in named else "_again"  # a name's line is not in the legend
        named.add(row.name)
        if curve.loss:
            left.plot(*zip(*curve.loss, strict=True), **{**style, "marker": ""})
        many = len(curve.validation) > 12
        points = list(zip(*curve.validation, strict=True)) or [(), ()]
        right.plot(*points, label=name, markersize=0 if many else 3, **style)
    values = [value for _, curve in found for _, value in curve.loss]
    if values and min(values) > 0 and max(values) > 10 * min(values):
        left.set_yscale("log")
        plain_ticks(left.yaxis)
    left.set(xlabel="step of training", ylabel="loss in training")
    right.set(xlabel="step of training", ylabel=f"held-out source, {canvas.score}")
    for axes in (left, right):
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    legend(figure, right, len(canvas.rows), canvas.width)
    return figure


Draw = Callable[[Canvas], Figure | None]  # None: the records do not allow it
FIGURES: dict[str, Draw] = {
    "bars": bars, "heatmap": heatmap, "severity": severity, "scatter": scatter, "curves": curves,
}  # fmt: skip


@contextmanager
def _style() -> Iterator[None]:
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # A name may hold letters that no font here has: a box stands for them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def write(
    boards: Sequence[Board], wanted: Sequence[str], folder: Path, formats: Sequence[str],
    width: float, data: Path | None = None, domains: Sequence[str] = (),
    known: Mapping[str, Draw] = FIGURES,
) -> tuple[list[Path], list[str]]:  # fmt: skip
    """Draw figures of all boards; returns the files and what the records do not allow."""
    looks = palette.looks(boards)
    written, impossible = [], []
    stems: set[str] = set()
    for board in boards:
        stem = _stem(board, stems)
        canvas = Canvas(board, looks, width, data, tuple(domains))
        for name in wanted:
            with _style():
                figure = known[name](canvas)
                if figure is None:
                    impossible.append(f"{name} of {board.dataset}, {board.preset} preset")
                    continue
                figure.draw_without_rendering()  # lays it out, which need not be done per format
                figure.set_layout_engine("none")
                for kind in formats:
                    path = folder / f"{stem}-{name}.{kind}"
                    storage.write_atomic(path, partial(_save, figure, kind))
                    written.append(path)
    return written, impossible


def _save(figure: Figure, kind: str, file: IO[bytes]) -> None:
    figure.savefig(file, format=kind, dpi=DOTS_PER_INCH, metadata=METADATA[kind])


def _stem(board: Board, taken: set[str]) -> str:
    """A file's name for a board; what sets boards apart is too long for one, so they count."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{board.dataset}-{board.preset}").lstrip(".")
    stem, number = plain, 1
    while stem in taken:
        number += 1
        stem = f"{plain}-{number}"
    taken.add(stem)
    return stem
