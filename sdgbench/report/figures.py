"""The figures for a paper, by matplotlib. To add one: a function of ``Canvas`` in FIGURES."""

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from sdgbench import storage
from sdgbench.leaderboard import Leaderboard
from sdgbench.report import curves as training
from sdgbench.report import palette, series
from sdgbench.report.canvas import Canvas, ends, legend, plain_ticks, within

FORMATS = ("svg", "pdf", "png")
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "figure.titlesize": 8,
    "figure.labelsize": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "font.family": "sans-serif",
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "sdgbench",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "text.parse_math": False,  # names are names, whatever they hold
}
HALO = withStroke(linewidth=2.4, foreground="white")
METADATA: dict[str, dict[str, str | None]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {"Software": "sdgbench"},
}
DOTS_PER_INCH = 300  # of a PNG
NUMBER_WIDTH = 0.7  # inches of a mean with its interval, behind its bar


def bars(canvas: Canvas) -> Figure | None:
    """The ranked average of each row, with its interval."""
    rows = canvas.rows
    names, height, room = canvas.axis_names()
    narrow = canvas.width < 5
    figure = canvas.start((0.6 if narrow else 0.45) + max(0.22, height) * len(rows))
    axes = figure.subplots()
    estimates = [series.ranked_estimate(row) for row in rows]
    positions = range(len(rows))
    means = [estimate.mean for estimate in estimates]
    axes.barh(positions, means, color=[canvas.colour(row) for row in rows])
    for position, estimate in enumerate(estimates):
        mean, half = estimate.mean, estimate.half or 0.0
        if estimate.half is not None:
            bar = axes.errorbar(
                mean,
                position,
                xerr=[[min(half, mean)], [half]],
                color="black",
                capsize=2,
                linewidth=0.8,
            )
            for part in (*bar.lines[1], *bar.lines[2]):  # caps and bar, also seen on a dark bar
                part.set_path_effects([HALO])
        interval = f" ±{half:.1f}" if estimate.half is not None else " (n=1)"
        axes.annotate(
            f"{mean:.1f}{interval}",
            (mean + half, position),
            (3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    axes.set_yticks(positions, names)
    axes.invert_yaxis()
    axes.set_xlim(0, ends(estimates)[1] * room / max(0.1, room - NUMBER_WIDTH) or 1)
    gap = "\n" if narrow else " "
    axes.set_xlabel(f"{canvas.board.ranked}, {canvas.score},{gap}with 95% intervals")
    return figure


def heatmap(canvas: Canvas) -> Figure | None:
    """Methods x domains; of corruptions, those at the highest severity."""
    rows, names, indices = canvas.rows, list(canvas.board.domains), None
    if panels := series.severity_panels(canvas.board)[1:]:
        clean = [("clean", panels[0].indices[0][0])] if panels[0].levels[0] == 0 else []
        chosen = [*clean, *((panel.name, panel.indices[-1][0]) for panel in panels)]
        names, indices = [name for name, _ in chosen], [index for _, index in chosen]
    scores = [[estimate.mean for estimate in series.domain_estimates(row)] for row in rows]
    values = [[line[i] for i in indices] if indices else line for line in scores]
    labels, height, room = canvas.axis_names()
    figure = canvas.start(0.9 + max(0.2, height) * len(rows))
    axes = figure.subplots()
    image = axes.imshow(values, cmap="cividis", aspect="auto")
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), labels)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if (
        len(names) * 0.28 < room - 0.5
    ):  # beside the colour bar; else the numbers would run into each other
        shades = image.to_rgba(np.asarray(values)).tolist()
        for line, row in enumerate(values):
            for column, value in enumerate(row):
                axes.text(
                    column,
                    line,
                    f"{value:.1f}",
                    ha="center",
                    va="center",
                    fontsize=6,
                    color=palette.text_on(shades[line][column]),
                )
    figure.colorbar(image, ax=axes, label=canvas.score, pad=0.02)
    if indices:
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
            estimates = panel.estimates(row)
            means = [estimate.mean for estimate in estimates]
            axes.plot(
                panel.levels, means, label=canvas.name(row), markersize=2.2, **canvas.stroke(row)
            )
            if all(estimate.half is not None for estimate in estimates):
                axes.fill_between(
                    panel.levels,
                    [e.mean - (e.half or 0) for e in estimates],
                    [e.mean + (e.half or 0) for e in estimates],
                    color=canvas.colour(row),
                    alpha=0.15,
                    linewidth=0,
                )
        axes.set_title(panel.name.replace("_", " "), fontsize=7)
        axes.set_xticks(panels[0].levels)
    means = [e.mean for panel in panels for row in canvas.rows for e in panel.estimates(row)]
    grid[0].set_ylim(*within(min(means), max(means)))
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.supylabel(f"{canvas.score} by severity (0: clean), 95% bands", fontsize=8)
    legend(figure, grid[0], len(canvas.rows), canvas.width)
    return figure


def scatter(canvas: Canvas) -> Figure | None:
    """Score against costs, with the front that the intervals support."""
    clouds = series.clouds(canvas.board)
    if not clouds:
        return None
    side_by_side = canvas.width >= 5
    shape = (1, len(clouds)) if side_by_side else (len(clouds), 1)
    figure = canvas.start(0.5 + 1.9 * shape[0])
    grid = figure.subplots(*shape, squeeze=False).ravel()
    for cloud, axes in zip(clouds, grid, strict=True):
        for row in canvas.rows:
            if row.name in cloud.costs:
                cost, score = cloud.costs[row.name], cloud.scores[row.name]
                style = {**canvas.stroke(row), "linestyle": "none"}
                axes.errorbar(
                    cost.mean,
                    score.mean,
                    xerr=cost.half,
                    yerr=score.half,
                    label=canvas.name(row),
                    markersize=4.5,
                    capsize=2,
                    elinewidth=0.7,
                    **style,
                )
        on_front = [(cloud.costs[name].mean, cloud.scores[name].mean) for name in cloud.front]
        axes.plot(
            *(zip(*on_front, strict=True) if on_front else ((), ())),
            linestyle="none",
            marker="o",
            markersize=10,
            markerfacecolor="none",
            markeredgecolor="0.35",
            label="Pareto front" if any(cloud.front for cloud in clouds) else None,
        )
        axes.set_xlabel(cloud.label, fontsize=7)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.margins(x=0.15)
        axes.set_xlim(left=max(0.0, axes.get_xlim()[0]))  # no cost is below 0
        axes.set_ylim(*within(*ends(cloud.scores.values())))
    for axes in grid if not side_by_side else grid[:1]:
        axes.set_ylabel(f"{canvas.board.ranked}, {canvas.score}")
    legend(figure, grid[0], len(canvas.rows) + 1, canvas.width)
    return figure


def curves(canvas: Canvas) -> Figure | None:
    """Loss and source validation: the mean over seeds with its band."""
    read = [
        (row, *training.means([training.read(run.folder) for run in row.runs.values()]))
        for row in canvas.rows
    ]
    if not any(loss or validation for _, loss, validation in read):
        return None
    wide = canvas.width >= 5
    figure = canvas.start(0.5 + (1.8 if wide else 4.2))
    left, right = figure.subplots(1, 2) if wide else figure.subplots(2, 1)
    for row, loss, validation in read:
        _band(left, loss, canvas.colour(row))
        _band(right, validation, canvas.colour(row))
        style = {**canvas.stroke(row), "linewidth": 1.1}
        left.plot(*_means(loss), **{**style, "marker": ""})
        many = len(validation) > 12
        label = canvas.name(row)
        right.plot(*_means(validation), label=label, markersize=0 if many else 3, **style)
    values = [point.mean for _, loss, _ in read for point in loss]
    if values and min(values) > 0 and max(values) > 10 * min(values):
        left.set_yscale("log")
        left.set_ylim(min(values) / 1.1, max(values) * 1.1)
        plain_ticks(left.yaxis)
    left.set(xlabel="step of training", ylabel="loss in training")
    right.set(xlabel="step of training", ylabel=f"held-out source,\n{canvas.score}")
    for axes in (left, right):
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    legend(figure, right, len(canvas.rows), canvas.width)
    return figure


def _means(points: training.MeanCurve) -> tuple[list[int], list[float]]:
    return [point.step for point in points], [point.mean for point in points]


def _band(axes: Axes, points: training.MeanCurve, colour: str) -> None:
    low = [point.low for point in points if point.low is not None]
    high = [point.high for point in points if point.high is not None]
    if points and len(low) == len(high) == len(points):
        steps = [point.step for point in points]
        axes.fill_between(steps, low, high, color=colour, alpha=0.16, linewidth=0)


Draw = Callable[[Canvas], Figure | None]  # None: the records do not allow it
FIGURES: dict[str, Draw] = {
    "bars": bars,
    "heatmap": heatmap,
    "severity": severity,
    "scatter": scatter,
    "curves": curves,
}


@contextmanager
def _style() -> Iterator[None]:
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # A name may hold letters that no font here has: a box stands for them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def write(
    boards: Sequence[Leaderboard],
    wanted: Sequence[str],
    folder: Path,
    formats: Sequence[str],
    width: float,
    data: Path | None = None,
    domains: Sequence[str] = (),
    known: Mapping[str, Draw] = FIGURES,
    usual: Sequence[str] = (),
    titled: bool = True,
) -> tuple[list[Path], list[str]]:
    """Draw figures of all leaderboards; returns the files and what the records do not allow.

    ``known`` are all figures by name; ``usual`` methods have the colours in this order.
    """
    looks = palette.looks(boards, usual)
    written, impossible = [], []
    stems: set[str] = set()
    for board in boards:
        stem = _stem(board, stems)
        canvas = Canvas(board, looks, width, data, tuple(domains), titled)
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


def _stem(board: Leaderboard, taken: set[str]) -> str:
    """A file's name for a leaderboard; others of the same dataset and preset are counted."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{board.dataset}-{board.preset}").lstrip(".")
    stem, number = plain, 1
    while stem in taken:
        number += 1
        stem = f"{plain}-{number}"
    taken.add(stem)
    return stem
