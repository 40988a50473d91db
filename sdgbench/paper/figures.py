"""The figures of the M-ADA paper beyond its tables, for any method and dataset."""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch, Polygon

from sdgbench.errors import UserError, unknown
from sdgbench.evaluation import hulls
from sdgbench.leaderboard import Row
from sdgbench.paper import sweeps
from sdgbench.paper.style import SHOWN_FIRST
from sdgbench.report import figures, palette, samples, series
from sdgbench.report.canvas import Canvas, ends, legend, plain_ticks, within
from sdgbench.report.figures import Draw

MOST_PANELS = 6  # methods of a t-SNE figure
MOST_SCENES = 4  # domains of a gallery without --domains
KINDS = {
    hulls.SOURCE: palette.COLOURS[0],
    hulls.AUGMENTED: palette.COLOURS[6],
    hulls.TARGET: palette.COLOURS[3],
}


def _row(canvas: Canvas, method: str) -> Row:
    """The first row of a method, whose look the method has."""
    return next(row for row in canvas.board.rows if row.method == method)


def sweep(canvas: Canvas) -> Figure | None:
    """The ranked average against each parameter that runs differ in alone."""
    by_parameter: dict[str, list[sweeps.Sweep]] = defaultdict(list)
    for swept in sweeps.sweeps(canvas.board):
        by_parameter[swept.parameter].append(swept)
    if not by_parameter:
        return None
    columns = min(len(by_parameter), max(1, int(canvas.width / 2)))
    lines = math.ceil(len(by_parameter) / columns)
    figure = canvas.start(0.7 + 1.8 * lines)
    grid = figure.subplots(lines, columns, sharey=True, squeeze=False).ravel()
    for (name, of_parameter), axes in zip(sorted(by_parameter.items()), grid, strict=False):
        for swept in of_parameter:
            _draw_sweep(canvas, axes, swept)
        values = sorted({value for swept in of_parameter for value in swept.values})
        kind = sweeps.scale(values)
        options = {"linthresh": min(abs(v) for v in values if v)} if kind == "symlog" else {}
        axes.set_xscale(kind, **options)
        if len(values) < 8:
            axes.set_xticks(values, [f"{value:g}" for value in values])
        plain_ticks(axes.xaxis)
        axes.set_xlabel(name if kind == "linear" else f"{name} ({kind} axis)")
    every = [swept for of_parameter in by_parameter.values() for swept in of_parameter]
    grid[0].set_ylim(*within(*ends(score for swept in every for score in swept.scores)))
    for axes in grid[len(by_parameter) :]:
        axes.set_visible(False)
    grid[0].set_ylabel(f"{canvas.board.ranked}, {canvas.score}")
    legend(figure, grid[0], len({swept.method for swept in every}), canvas.width)
    _explain(figure, "others at their defaults; ring: default; bars: 95% intervals over seeds")
    return figure


def _explain(figure: Figure, text: str) -> None:
    """Write above the legend how to read a figure."""
    figure.legends[0].set_title(text, FontProperties(size=6))


def _draw_sweep(canvas: Canvas, axes: Axes, swept: sweeps.Sweep) -> None:
    stroke = canvas.stroke(_row(canvas, swept.method))
    means = [score.mean for score in swept.scores]
    axes.errorbar(
        swept.values,
        means,
        yerr=[score.half or 0.0 for score in swept.scores],
        label=swept.method,
        markersize=4,
        capsize=2,
        elinewidth=0.7,
        **stroke,
    )
    if swept.default in swept.values:
        axes.plot(
            swept.default,
            means[swept.values.index(swept.default)],
            "o",
            markersize=9,
            fillstyle="none",
            color=stroke["color"],
            label="_default",
        )


def meta(canvas: Canvas) -> Figure | None:
    """What meta-learning is worth: paired gains over the same method without it."""
    components = sweeps.component_gains(canvas.board)
    if not components:
        return None
    names = list(components[0].gains)
    figure = canvas.start(1.1 + 0.16 * len(names) * len(components))
    axes = figure.subplots()
    for number, component in enumerate(components):
        shift = 0.2 * (number - (len(components) - 1) / 2)
        gains = [component.gains[name] for name in names]
        stroke = {**canvas.stroke(_row(canvas, component.whole.method)), "linestyle": "none"}
        axes.errorbar(
            [gain.mean for gain in gains],
            [position + shift for position in range(len(names))],
            xerr=[gain.half or 0.0 for gain in gains],
            capsize=2,
            elinewidth=0.8,
            label=f"{component.whole.name} - {component.without.name} (n={gains[0].n})",
            **stroke,
        )
    axes.axvline(0, color="0.5", linewidth=0.6)
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axes.invert_yaxis()
    single = any(gain.half is None for component in components for gain in component.gains.values())
    how = "one seed: no interval" if single else "95% intervals of the paired difference"
    axes.set_xlabel(f"gain by meta-learning in points of {canvas.board.metric}; {how}")
    if panels := series.severity_panels(canvas.board):
        axes.set_title(f"severity {panels[0].levels[-1]}")
    legend(figure, axes, len(components), canvas.width)
    return figure


def tsne(canvas: Canvas) -> Figure | None:
    """Source, augmented and target samples in the embedding, by t-SNE, with their hulls."""
    stored = [(row, hulls.read(row.runs[min(row.runs)].folder)) for row in canvas.rows]
    shown = [(row, embedded) for row, embedded in stored if embedded][:MOST_PANELS]
    if not shown:
        return None
    columns = min(len(shown), max(1, round(canvas.width / 2.25)))
    lines = math.ceil(len(shown) / columns)
    figure = canvas.start(0.9 + 2.4 * lines)
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for (row, embedded), axes in zip(shown, grid, strict=False):
        _draw_plane(axes, row, hulls.flat(embedded), hulls.areas(embedded))
    for axes in grid[len(shown) :]:
        axes.set_visible(False)
    figure.legend(
        handles=[Patch(color=colour, label=kind) for kind, colour in KINDS.items()],
        loc="outside lower center",
        ncols=3,
    )
    _explain(
        figure,
        "t-SNE of each row's lowest seed for itself: its areas compare within a panel only.\n"
        "growth: hull of source and augmented over hull of source, in t-SNE and in the first two "
        "principal components",
    )
    return figure


def _draw_plane(axes: Axes, row: Row, plane: hulls.Samples, pca: dict[str, float]) -> None:
    for kind, colour in reversed(KINDS.items()):
        points = hulls.joined(plane, kind)
        if len(points):
            axes.plot(*points.T, ".", color=colour, markersize=1.6, alpha=0.6, label=kind)
    areas = hulls.areas(plane)
    for kinds, colour in (
        ((hulls.TARGET,), KINDS[hulls.TARGET]),
        ((hulls.SOURCE, hulls.AUGMENTED), KINDS[hulls.AUGMENTED]),
        ((hulls.SOURCE,), KINDS[hulls.SOURCE]),
    ):
        border = hulls.border(hulls.joined(plane, *kinds))
        if len(border):
            axes.add_patch(Polygon(border, fill=False, edgecolor=colour, linewidth=0.8))
    axes.set_xticks([])
    axes.set_yticks([])
    is_augmented = any(name.startswith(hulls.AUGMENTED) for name in plane)
    texts = [f"area of source {areas['source']:,.0f}, target {areas['target']:,.0f}"]
    growths = (hulls.growth(areas), hulls.growth(pca))
    if is_augmented and None not in growths:
        texts.append("growth {:.2f} (t-SNE), {:.2f} (PCA)".format(*growths))
    axes.set_title("\n".join([row.name, *texts]), fontsize=6)


def gallery(canvas: Canvas) -> Figure | None:
    """Image, truth and the predictions of ERM, GUD and M-ADA side by side."""
    board = canvas.board
    if board.protocol.task != "segmentation" or canvas.data is None:
        return None
    for name in canvas.domains:
        if name not in board.domains:
            raise unknown(f"domain of {board.dataset}", name, board.domains)
    rows = _gallery_rows(canvas)
    scenes, palette = samples.scenes(
        board,
        canvas.data,
        canvas.domains or board.domains[:MOST_SCENES],
        [row.name for row in rows],
    )
    titles = ["image", "truth", *(canvas.name(row) for row in rows)]
    height, width = scenes[0].truth.shape
    side = canvas.width / len(titles)
    figure = canvas.start(0.75 + 0.95 * len(scenes) * side * height / width)
    grid = figure.subplots(len(scenes), len(titles), squeeze=False)
    colours = np.array(palette, dtype=np.uint8)
    for scene, line in zip(scenes, grid, strict=True):
        maps = [
            scene.image.transpose(1, 2, 0),
            colours[scene.truth],
            *(
                colours[scene.predictions[row.name]] if row.name in scene.predictions else None
                for row in rows
            ),
        ]
        for picture, axes in zip(maps, line, strict=True):
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(False)
            if picture is not None:
                axes.imshow(picture)
        line[0].set_ylabel(scene.name, fontsize=6)
    for title, axes in zip(titles, grid[0], strict=True):
        axes.set_title(title, fontsize=7)
    _class_legend(figure, board.classes, colours, canvas.width)
    return figure


def _gallery_rows(canvas: Canvas) -> list[Row]:
    """ERM, GUD and M-ADA as far as they have runs; else the best rows."""
    usual = [row for name in SHOWN_FIRST for row in canvas.rows if row.name == name]
    return usual or canvas.rows[: len(SHOWN_FIRST)]


def _class_legend(figure: Figure, names: Sequence[str], colours: np.ndarray, width: float) -> None:
    patches = [
        Patch(facecolor=colours[number] / 255, edgecolor="0.5", linewidth=0.3, label=name)
        for number, name in enumerate(names)
    ]
    figure.legend(
        handles=patches, loc="outside lower center", fontsize=6, ncols=max(2, int(width / 0.95))
    )


LONGER: dict[str, Draw] = {"tsne": tsne, "gallery": gallery}  # they take seconds, or need data
FIGURES: dict[str, Draw] = {**figures.FIGURES, "sweep": sweep, "meta": meta, **LONGER}
USUAL = [name for name in FIGURES if name not in LONGER]


NEEDS = {  # what the records lack where a figure cannot be drawn
    "severity": "targets with severities, as of the corruption benchmarks",
    "scatter": "runs with measured costs",
    "curves": "train.jsonl in the folders of the runs",
    "sweep": "runs of one method that differ in one parameter (sdgbench run --grid KEY=A,B)",
    "meta": "runs of one method with and without its meta-learning",
    "tsne": "embeddings.npz in the folders of the runs",
    "gallery": "a segmentation dataset and its data",
}


def check_domains(domains: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse domains where no figure shows any."""
    if domains and "gallery" not in wanted:
        raise UserError("--domains chooses the scenes of the gallery: sdgbench plot gallery.")
