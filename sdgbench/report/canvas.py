"""What a figure is drawn on: its rows with their looks, its title and legend, its axes."""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from sdgbench.leaderboard import Leaderboard, Row
from sdgbench.leaderboard.names import display_name
from sdgbench.report import palette, series

MARKERS = ("o", "s", "D", "^", "X", "P", "v", "*")  # as in palette.MARKERS
LINES = ("-", (0, (6, 3)), (0, (2, 2)), (0, (8, 3, 2, 3)))


@dataclass(frozen=True)
class Canvas:
    """What a figure is drawn from, and how wide it may be."""

    board: Leaderboard
    looks: dict[str, palette.Look]
    width: float  # inches
    data: Path | None = None  # the data folder, for figures that show images
    domains: tuple[str, ...] = ()  # which domains to show; empty: the figure's own choice
    titled: bool = True  # with dataset, preset and scale above it

    @property
    def rows(self) -> list[Row]:
        """The rows, best first."""
        return series.ordered(self.board)

    def colour(self, row: Row) -> str:
        """The row's colour."""
        return palette.COLOURS[self.looks[row.name].colour]

    def name(self, row: Row) -> str:
        """The row's display name."""
        return display_name(row.name)

    def axis_names(self) -> tuple[list[str], float, float]:
        """The display names of all rows, in lines that leave room for the axes beside them.

        Also the height that a row needs for its name, and the width of the axes, in inches.
        """
        most = max(12, int(self.width * 5.5))  # characters
        split = [
            textwrap.wrap(self.name(row), most, break_long_words=False, break_on_hyphens=False)
            for row in self.rows
        ]
        height = 0.13 * max(map(len, split), default=1) + 0.06
        longest = max((len(line) for lines in split for line in lines), default=0)
        return ["\n".join(lines) for lines in split], height, self.width - 0.25 - 0.062 * longest

    def stroke(self, row: Row) -> dict[str, Any]:
        """Colour, marker and line of the row."""
        look = self.looks[row.name]
        return {
            "color": self.colour(row),
            "marker": MARKERS[look.marker],
            "linestyle": LINES[look.dash],
        }

    def start(self, height: float) -> Figure:
        """A figure with dataset, preset and scale as its title, if it is to have one."""
        if not self.titled:
            return Figure(figsize=(self.width, height), layout="constrained")
        figure = Figure(figsize=(self.width, height + 0.35), layout="constrained")
        remark = f" [{self.board.remark}]" if self.board.remark else ""
        titles = [f"{self.board.dataset}, {self.board.preset} preset{remark}"]
        if self.board.reduced:
            titles.append(f"Reduced scale: {self.board.reduced}")
        most = max(30, int(self.width * 17))  # characters that fit on a line
        figure.suptitle("\n".join(part for text in titles for part in textwrap.wrap(text, most)))
        return figure

    @property
    def score(self) -> str:
        """The metric and its unit, for axis labels."""
        return f"{self.board.metric} (%)"


def legend(figure: Figure, axes: Axes, count: int, width: float) -> None:
    """Name all lines below the panels."""
    handles, labels = axes.get_legend_handles_labels()
    shown = [label if len(label) < 40 else label[:39] + "…" for label in labels]
    longest = max(map(len, shown), default=1)
    columns = max(1, min(count, int(width / (0.4 + 0.058 * longest))))
    figure.legend(handles, shown, loc="outside lower center", ncols=columns)


def within(low: float, high: float) -> tuple[float, float]:
    """Limits with a margin; a score is never below 0 or above 100."""
    room = 0.06 * (high - low) or 1.0
    return max(0.0, low - room), min(100.0, high + room)


def ends(estimates: Iterable[series.Estimate]) -> tuple[float, float]:
    """The lowest and the highest end of these intervals."""
    pairs = [(estimate.mean, estimate.half or 0.0) for estimate in estimates]
    return min(mean - half for mean, half in pairs), max(mean + half for mean, half in pairs)


def plain_ticks(axis: Axis) -> None:
    """Numbers as they are: powers are formulas, and formulas are not set here."""
    if axis.get_scale() != "linear":
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
