"""The views of a leaderboard with what the M-ADA paper printed in them."""

from collections.abc import Iterator
from dataclasses import replace

from sdgbench.leaderboard.cells import Measure
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import Column
from sdgbench.leaderboard.views import VIEWS as WITHOUT_PAPER
from sdgbench.leaderboard.views import Views
from sdgbench.leaderboard.views.transport import TRANSPORT, missing_notes, sample_notes
from sdgbench.leaderboard.views.view import Query
from sdgbench.paper import published


def _printed(run: Run) -> float | None:
    """The paper's distance of a method with its default parameters."""
    row = published.table("transport").row(run.method)
    usual = not run.flags.params_changed and not run.tuned
    return row.cells["distance"] if row and usual else None


def _measures(query: Query) -> Iterator[Measure]:
    yield from TRANSPORT.measures(query)
    yield Measure(Column("paper", "as printed"), _printed, 1, 3)


def _notes(query: Query) -> Iterator[str]:
    yield from sample_notes(query)
    if any(_printed(run) is not None for row in query.rows for run in row.runs.values()):
        table = published.table("transport")
        yield f"paper: {next(iter(table.references.values()))}; {table.protocol}"
    yield from missing_notes(query)


VIEWS: Views = {
    **WITHOUT_PAPER,
    TRANSPORT.name: replace(TRANSPORT, measures=_measures, notes=_notes),
}
