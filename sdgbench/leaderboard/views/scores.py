"""The views of scores: by domain and by class."""

import math
from collections.abc import Iterator

from sdgbench.leaderboard import corruption_metrics
from sdgbench.leaderboard.cells import Measure
from sdgbench.leaderboard.grouping import shorten
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import Column
from sdgbench.leaderboard.views.corruptions import robustness
from sdgbench.leaderboard.views.view import (
    Query,
    View,
    average,
    domain,
    ranked,
    unreserved,
    with_choice,
)

MOST_COLUMNS = 20  # domains that get a column each; with more, only the averages are shown


def _domains(query: Query) -> Iterator[Measure]:
    board, choice = query.board, query.choice
    yield Measure(
        Column("source", f"{board.metric} on held-out source", "higher"),
        with_choice(choice, lambda run: run.scores[choice].source),
    )
    if len(board.domains) <= MOST_COLUMNS:
        for index, name in enumerate(board.domains):
            if board.protocol.averages.get(name) != 1:  # else its mean is the same
                yield domain(board, index, choice)
    corrupted = corruption_metrics.is_corrupted(board.protocol)
    for name in board.protocol.averages:
        if not (corrupted and name == "clean"):
            yield average(board, name, choice)
    yield Measure(
        Column("worst", f"worst of {len(board.domains)} unseen domains", "higher"),
        with_choice(choice, lambda run: run.scores[choice].worst),
    )
    yield from robustness(query)


def _classes(query: Query) -> Iterator[Measure]:
    board, choice = query.board, query.choice
    count = len(board.classes)

    def score(run: Run, index: int) -> float | None:
        known = [v for v in run.scores[choice].per_class[index::count] if not math.isnan(v)]
        return math.fsum(known) / len(known) if known else None

    for index, name in enumerate(board.classes):
        yield Measure(
            Column(unreserved(board, name, "class"), "", "higher"),
            with_choice(choice, lambda run, index=index: score(run, index)),  # type: ignore[misc]
        )
    yield ranked(board, choice)


def _class_legend(query: Query) -> Iterator[str]:
    if query.board.protocol.task == "segmentation":
        yield "a class: its IoU, mean over the domains where it has one"
    else:
        yield "a class: share of its images classified correctly, mean over the domains with any"


def _class_notes(query: Query) -> Iterator[str]:
    old = [row.name for row in query.rows if not all(run.classes for run in row.runs.values())]
    if old:
        yield f"records of an earlier version tell no scores of classes: {shorten(old)}"


DOMAINS = View("domains", "Domains", _domains)
CLASSES = View(
    "classes",
    "Classes",
    _classes,
    title=", {score} per class",
    notes=_class_notes,
    legend=_class_legend,
    is_available=lambda board: bool(board.classes),
)
