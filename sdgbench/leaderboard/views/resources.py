"""The views of what using and training a model costs."""

from collections.abc import Callable, Iterator

from sdgbench.leaderboard.cells import Measure
from sdgbench.leaderboard.costs import all_seconds, number, other_seconds, with_search
from sdgbench.leaderboard.grouping import shorten
from sdgbench.leaderboard.runs import Run
from sdgbench.leaderboard.table import Column
from sdgbench.leaderboard.views.view import Query, View, ranked

SPARE_LOAD = 0.7  # of the load average, above the run's own threads, that disturbs nothing


def _efficiency(query: Query) -> Iterator[Measure]:
    yield ranked(query.board, query.choice)
    for name, keys, scale, digits, definition in (
        ("params_M", ("parameters_inference",), 1e-6, 2, "million parameters at inference"),
        ("train_params_M", ("parameters_train",), 1e-6, 2, "the same in training"),
        ("GFLOPs", ("flops",), 1e-9, 3, "of one prediction; a multiply-add counts as two"),
        ("b1_p50_ms", ("latency", "batch_1", "p50_ms"), 1, 2, "median latency, batch of 1"),
        ("b1_p95_ms", ("latency", "batch_1", "p95_ms"), 1, 2, "95th percentile"),
        ("b64_p50_ms", ("latency", "batch_64", "p50_ms"), 1, 1, "median latency, batch of 64"),
        ("b64_p95_ms", ("latency", "batch_64", "p95_ms"), 1, 1, "95th percentile"),
        ("peak_MB", ("peak_memory_bytes",), 1e-6, 0, "peak memory (CPU: of the whole process)"),
    ):
        yield Measure(Column(name, definition), number("efficiency", *keys), scale, digits)


def _cost(query: Query) -> Iterator[Measure]:
    score = ranked(query.board, query.choice)
    yield score
    searched = any(row.tuned for row in query.rows)
    definition = "points of the average per million images that went forward in training"
    definition += ", the search's included" if searched else ""
    yield Measure(Column("score_per_M_images", definition, "higher"), _per_image(score), digits=1)
    yield Measure(Column("train_s", "seconds of training"), number("cost", "train_seconds"), 1)
    definition = "seconds of validation, evaluation, checkpoints"
    yield Measure(Column("other_s", definition), other_seconds, 1)
    for name, definition in (
        ("images_forward", "images that went forward in training"),
        ("images_with_gradient", "those of them with gradient"),
    ):
        yield Measure(Column(name, definition), number("cost", name), 1, 0)
    if searched:
        images = with_search(number("cost", "images_forward"), "images_forward")
        seconds = with_search(all_seconds, "seconds")
        definition = "images_forward and those of the search that chose the setting"
        yield Measure(Column("images_with_search", definition), images, 1, 0)
        definition = "train_s, other_s and the seconds of that search"
        yield Measure(Column("s_with_search", definition), seconds, 1)


def _per_image(score: Measure) -> Callable[[Run], float | None]:
    images = with_search(number("cost", "images_forward"), "images_forward")

    def read(run: Run) -> float | None:
        value, count = score.read(run), images(run)
        return value / (count * 1e-6) if value is not None and count else None

    return read


def _machines(query: Query) -> Iterator[str]:
    machines = {run.machine for row in query.rows for run in row.runs.values() if run.machine}
    if len(machines) > 1:
        several = "; ".join(sorted(machines))
        yield f"times do not compare, they were measured on: {several}"
    elif machines:
        yield f"measured on {machines.pop()}"


def _efficiency_notes(query: Query) -> Iterator[str]:
    yield from _machines(query)
    disturbed = [
        f"{row.name} seed {run.seed} (load average {run.efficiency.load_average:.1f})"
        for row in query.rows
        for run in row.runs.values()
        if is_disturbed(run)
    ]
    shared = [
        f"{row.name} seed {run.seed}"
        for row in query.rows
        for run in row.runs.values()
        if run.efficiency.alone is False
    ]
    if shared:
        yield f"latency measured while other runs used the same GPU: {shorten(shared)}"
    if disturbed:
        yield f"latency measured while other work ran on the machine: {shorten(disturbed)}"


def is_disturbed(run: Run) -> bool:
    """Whether the machine had more to do than the run itself when its latency was measured."""
    load = run.efficiency.load_average
    return load is not None and load > run.threads + SPARE_LOAD


def _cost_notes(query: Query) -> Iterator[str]:
    yield from _machines(query)
    resumed = [
        f"{row.name} seed {run.seed} ({run.cost.starts} starts)"
        for row in query.rows
        for run in row.runs.values()
        if (run.cost.starts or 1) > 1
    ]
    if resumed:
        yield f"stopped and resumed: {shorten(resumed)}"


EFFICIENCY = View(
    "efficiency",
    "Efficiency",
    _efficiency,
    title=", and what using the model costs",
    notes=_efficiency_notes,
    compares=False,
)
COST = View(
    "cost",
    "Training cost",
    _cost,
    title=", and what training cost",
    notes=_cost_notes,
    compares=False,
)
