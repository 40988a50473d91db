"""The view of how far augmented domains are from the source; what is measured is in analysis."""

import math
from collections.abc import Callable, Iterator, Sequence

from sdgbench import published
from sdgbench.leaderboard.grouping import Row, shorten
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.statistics import Measure
from sdgbench.leaderboard.table import Column

LEGEND = (
    "W2 between an augmented domain and the source images that it was made of, mean over the "
    "augmented domains",
)


def measures() -> Iterator[Measure]:
    """The columns: how many domains, distances in both spaces, the area they cover, the paper."""
    yield Measure(Column("domains", "augmented domains that were made"), _count, 1, 0)
    for name, space, which, definition in (
        ("pixel_W2", "pixel", "exact", "per pixel value in [0, 1] (divided by sqrt(dimensions))"),
        ("pixel_SW2", "pixel", "sliced", "the same by random projections of a larger sample"),
        ("emb_W2", "embedding", "exact_relative",
         "in the task network's features, in units of the source's standard deviation there"),
        ("emb_SW2", "embedding", "sliced_relative", "the same by random projections"),
    ):  # fmt: skip
        yield Measure(Column(name, definition), _distance(space, which), 1, 5)
    yield Measure(
        Column("hull", "area of the convex hull of source and augmented samples in the first two "
               "principal components of the features, over that of the source's sample"),
        _hull, 1, 3,
    )  # fmt: skip
    yield Measure(Column("paper", "as printed"), _printed, 1, 3)


def notes(rows: Sequence[Row]) -> Iterator[str]:
    """What a reader must know of the samples and of the paper's numbers."""
    sizes: dict[str, dict[str, None]] = {}  # rows by what their samples are
    for row in rows:
        for run in row.runs.values():
            sample = run.transport.get("sample")
            if isinstance(sample, dict):
                text = f"{sample.get('exact')} (W2), {sample.get('sliced')} (SW2)"
                sizes.setdefault(text, {})[row.name] = None
    for text, names in sizes.items():
        yield f"images per sample: {text}" + (f" for {shorten([*names])}" if len(sizes) > 1 else "")
    if any(_printed(run) is not None for row in rows for run in row.runs.values()):
        table = published.table("transport")
        yield f"paper: {next(iter(table.references.values()))}; {table.protocol}"
    without = [row.name for row in rows if not any(run.transport for run in row.runs.values())]
    if without:
        yield f"no augmented domain was made, or its record does not tell: {shorten(without)}"


def _count(run: Run) -> float | None:
    domains = run.transport.get("domains")
    return float(len(domains)) if isinstance(domains, list) else None


def _distance(space: str, which: str) -> Callable[[Run], float | None]:
    def mean(run: Run) -> float | None:
        try:
            values = [float(domain[space][which]) for domain in run.transport["domains"]]
            return math.fsum(values) / len(values)
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            return None

    return mean


def _hull(run: Run) -> float | None:
    found = run.embedding.get("hull_growth_pca") if run.transport else None
    return float(found) if isinstance(found, (int, float)) else None


def _printed(run: Run) -> float | None:
    row = published.table("transport").row(run.method)
    return row.cells["distance"] if row and not run.flags.get("params_changed") else None
