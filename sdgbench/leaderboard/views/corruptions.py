"""The views of datasets whose domains are corruptions at severities."""

import math
from collections.abc import Iterator, Sequence

from sdgbench.leaderboard import corruption_metrics
from sdgbench.leaderboard.cells import Measure
from sdgbench.leaderboard.corruption_metrics import HIGHEST
from sdgbench.leaderboard.grouping import Leaderboard
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import Column
from sdgbench.leaderboard.views.view import Query, View, average, domain, with_choice

ROBUSTNESS = "robustness"  # one group: RmCE falls with clean accuracy, so they stay together


def is_corrupted(board: Leaderboard) -> bool:
    """Whether the domains are clean images and corruptions up to the highest severity."""
    return corruption_metrics.is_corrupted(board.protocol)


def _clean(query: Query, group: str = "") -> Iterator[Measure]:
    if "clean" in query.board.protocol.averages:
        definition = "accuracy on clean test images"
        yield average(query.board, "clean", query.choice, definition, group)


def robustness(query: Query) -> Iterator[Measure]:
    """Clean accuracy, and mCE and RmCE seed by seed; none where the baseline lacks a seed."""
    board, choice, baseline = query.board, query.choice, query.baseline
    if not is_corrupted(board):
        return
    yield from _clean(query, ROBUSTNESS)
    partners = query.reference.runs if query.reference else {}
    computed: dict[int, dict[str, float]] = {}

    def ratios(run: Run) -> dict[str, float]:
        partner = partners.get(run.seed)
        if partner is None or choice not in partner.scores or choice not in run.scores:
            return {}
        if id(run) not in computed:
            computed[id(run)] = corruption_metrics.relative_errors(run, partner, choice, baseline)
        return computed[id(run)]

    plain, relative = corruption_metrics.relative_names(board.protocol, baseline)
    count = len(corruption_metrics.indices(board.protocol, HIGHEST))
    mean = f"mean over {count} corruptions at level {HIGHEST}"
    for name, definition in (
        (plain, f"{mean} of error / error of {baseline}"),
        (relative, f"{mean} of (error - clean error) / the same of {baseline}"),
    ):
        yield Measure(
            Column(name, definition, "lower", ROBUSTNESS),
            lambda run, name=name: ratios(run).get(name),  # type: ignore[misc]
            scale=1,
            digits=3,
        )


def _severities(query: Query) -> Iterator[Measure]:
    protocol = query.board.protocol
    yield from _clean(query)
    levels = corruption_metrics.severities(protocol)
    for level in levels:
        indices = list(corruption_metrics.indices(protocol, level).values())
        name = f"acc{len(indices)}_L{level}"
        yield _mean(name, indices, query.choice, f"mean at level {level}")
    every = [index for index, tags in enumerate(protocol.tags) if tags.get("severity")]
    definition = f"mean over {len(every)} corrupted domains"
    yield _mean(f"acc{len(every) // len(levels)}_all", every, query.choice, definition)


def _mean(name: str, indices: Sequence[int], choice: str, definition: str) -> Measure:
    def mean(run: Run) -> float:
        values = run.scores[choice].values
        return math.fsum(values[index] for index in indices) / len(indices)

    return Measure(Column(name, definition, "higher"), with_choice(choice, mean))


def _corruptions(query: Query) -> Iterator[Measure]:
    board, choice = query.board, query.choice
    for name, index in corruption_metrics.indices(board.protocol, HIGHEST).items():
        yield domain(board, index, choice, name, corruption_metrics.category(name))
    for name in board.protocol.averages:
        if name.endswith(f"_L{HIGHEST}"):
            yield average(board, name, choice)
    yield from robustness(query)


SEVERITY = View(
    "severity", "Severities", _severities, title=", by severity", is_available=is_corrupted
)
CORRUPTIONS = View(
    "corruptions",
    "Corruptions",
    _corruptions,
    title=f", corruptions at level {HIGHEST}",
    is_available=is_corrupted,
)
