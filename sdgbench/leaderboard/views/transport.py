"""The view of how far augmented domains are from the source (see evaluation/transport)."""

import math
from collections.abc import Callable, Iterator

from sdgbench.leaderboard.cells import Measure
from sdgbench.leaderboard.grouping import Leaderboard, shorten
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import Column
from sdgbench.leaderboard.views.view import Query, View, ranked


def _measures(query: Query) -> Iterator[Measure]:
    """How many domains, their distances in both spaces, and the area that they cover."""
    yield ranked(query.board, query.choice)
    yield Measure(Column("domains", "augmented domains that were made"), _count, 1, 0)
    for name, space, which, definition in (
        ("pixel_W2", "pixel", "exact", "per pixel value in [0, 1] (divided by sqrt(dimensions))"),
        ("pixel_SW2", "pixel", "sliced", "the same by random projections of a larger sample"),
        (
            "emb_W2",
            "embedding",
            "exact_relative",
            "in the task network's features, in units of the source's standard deviation there",
        ),
        ("emb_SW2", "embedding", "sliced_relative", "the same by random projections"),
    ):
        yield Measure(Column(name, definition), _distance(space, which), 1, 5)
    yield Measure(
        Column(
            "hull",
            "area of the convex hull of source and augmented samples in the first two "
            "principal components of the features, over that of the source's sample",
        ),
        _hull,
        1,
        3,
    )


def _legend(_: Query) -> Iterator[str]:
    yield (
        "W2 between an augmented domain and the source images that it was made of, mean over the "
        "augmented domains"
    )


def sample_notes(query: Query) -> Iterator[str]:
    """How many images the distances were measured on."""
    sizes: dict[str, dict[str, None]] = {}  # rows by the size of their samples
    for row in query.rows:
        for run in row.runs.values():
            sample = run.transport.sample if run.transport else {}
            if sample:
                text = f"{sample.get('exact')} (W2), {sample.get('sliced')} (SW2)"
                sizes.setdefault(text, {})[row.name] = None
    for text, names in sizes.items():
        yield f"images per sample: {text}" + (f" for {shorten([*names])}" if len(sizes) > 1 else "")


def missing_notes(query: Query) -> Iterator[str]:
    """Which rows have no distances."""
    without = [r.name for r in query.rows if not any(run.transport for run in r.runs.values())]
    if without:
        yield f"no augmented domain was made, or its record does not tell: {shorten(without)}"


def _notes(query: Query) -> Iterator[str]:
    yield from sample_notes(query)
    yield from missing_notes(query)


def _count(run: Run) -> float | None:
    return float(len(run.transport.domains)) if run.transport else None


def _distance(space: str, which: str) -> Callable[[Run], float | None]:
    def mean(run: Run) -> float | None:
        domains = run.transport.domains if run.transport else []
        values = [getattr(getattr(domain, space), which) for domain in domains]
        if not values or None in values:
            return None
        return math.fsum(values) / len(values)

    return mean


def _hull(run: Run) -> float | None:
    return run.embedding.hull_growth_pca if run.transport and run.embedding else None


def _has_transport(board: Leaderboard) -> bool:
    return any(run.transport for row in board.rows for run in row.runs.values())


TRANSPORT = View(
    "transport",
    "Transport",
    _measures,
    title=", and how far the augmented domains are from the source",
    notes=_notes,
    legend=_legend,
    compares=False,
    is_available=_has_transport,
)
