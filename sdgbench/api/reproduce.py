"""Run a record's specification again and say how far the results agree."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sdgbench import registry
from sdgbench.api.arguments import Folder
from sdgbench.api.finished import FinishedRun, load_run
from sdgbench.errors import MissingData, UserError
from sdgbench.leaderboard.environment import KEYS, environment_of
from sdgbench.records import arrays, provenance
from sdgbench.records.curve import read_points
from sdgbench.records.schema import Record

if TYPE_CHECKING:
    import numpy as np

    from sdgbench.training.device import Execution

Verdict = Literal["bit-equal", "equal up to roundings", "differs"]
ROUNDINGS = 0.99  # share of equal predictions on every domain that roundings alone may leave
EXIT_CODES: dict[Verdict, int] = {"bit-equal": 0, "equal up to roundings": 0, "differs": 1}


@dataclass(frozen=True)
class Agreement:
    """One domain: the score then and now, and the share of predictions that are equal."""

    domain: str
    original: float
    again: float
    equal: float | None  # None: the original's predictions are not there


@dataclass(frozen=True)
class Reproduction:
    """What came out when a run was made again.

    ``verdict`` is "bit-equal" (all predictions and all points of the training curve are equal),
    "equal up to roundings" (at least 99% of the predictions on every domain) or "differs".

    >>> again = sdgbench.reproduce(records.folders[0], progress=False)
    >>> again.domains[0].equal
    1.0
    """

    original: FinishedRun
    again: FinishedRun
    domains: tuple[Agreement, ...]
    same_curve: bool | None  # whether all losses are equal; None: there is no curve to compare
    differences: tuple[str, ...]  # in environment, code and data, in sentences

    @property
    def verdict(self) -> Verdict:
        """The one word."""
        shares = [domain.equal for domain in self.domains]
        if not shares or None in shares:  # only scores can be compared
            same = all(domain.original == domain.again for domain in self.domains)
            return "equal up to roundings" if same and shares else "differs"
        if all(share == 1.0 for share in shares) and self.same_curve is not False:
            return "bit-equal"
        lowest = min(share for share in shares if share is not None)
        return "equal up to roundings" if lowest >= ROUNDINGS else "differs"

    def __str__(self) -> str:
        width = max(len(domain.domain) for domain in self.domains)
        lines = [f"{'domain':{width}}  original   again  equal predictions"]
        for domain in self.domains:
            share = "not kept" if domain.equal is None else f"{100 * domain.equal:.2f}%"
            lines.append(
                f"{domain.domain:{width}}  {100 * domain.original:8.2f}  {100 * domain.again:6.2f}"
                f"  {share:>17}"
            )
        curve = {True: "equal at every point", False: "differs", None: "not kept"}[self.same_curve]
        lines.append(f"training curve: {curve}")
        lines += self.differences or ("No difference in environment, code or data is known.",)
        return "\n".join([*lines, f"Verdict: {self.verdict}."])


def reproduce(
    which: Folder,
    runs: Folder = "runs",
    *,
    to: Folder = "reproductions",
    threads: int | None = None,
    device: str = "",
    data: Folder = "data",
    progress: bool = True,
    tell: Callable[[str], object] = lambda text: None,
) -> Reproduction:
    """Run a record's specification again in another folder, and compare.

    ``which`` is a record, the folder of a run, or the start of its id in ``runs``. Threads,
    precision and other settings are the record's, unless they are given. What differs in code or
    data is reported before anything starts. An earlier reproduction of the run is replaced.

    >>> sdgbench.reproduce(records.folders[0], progress=False).verdict
    'bit-equal'
    """
    original = load_run(which, runs)
    record = original.record
    if record.elsewhere:
        raise UserError(
            "This model was trained elsewhere. Only runs that were trained here can be."
        )
    spec = record.spec
    provenance.check_known(record)
    spec.check_dataset_version()

    from rich.console import Console

    from sdgbench.api.run import as_records, execute
    from sdgbench.launch.attempt import RunOptions

    before = tuple(_code_differences(record)) + tuple(_data_differences(record, Path(data)))
    for text in before:
        tell(text)
    options = RunOptions(
        Path(to),
        Path(data),
        device or _device(record),
        redo=True,
        execution=_execution(record, threads),
        tuned=record.tuned,
    )
    target = Path(to) / spec.dataset / spec.method / spec.id
    if target.resolve() == original.folder.resolve():
        raise UserError(f"{original.folder} is the run itself. Choose another folder with --to.")
    console = Console(highlight=False, quiet=not progress)
    (folder,) = as_records(execute([spec], options, 1, console), options).folders
    return compare_runs(original, load_run(folder), before)


def compare_runs(
    original: FinishedRun, again: FinishedRun, differences: tuple[str, ...] = ()
) -> Reproduction:
    """How far two runs of one specification agree; ``differences`` are those known already."""
    return Reproduction(
        original,
        again,
        tuple(_agreements(original, again)),
        _same_curve(original.folder, again.folder),
        differences + tuple(_environment_differences(original.record, again.record)),
    )


def _device(record: Record) -> str:
    """The record's kind of device, where this machine has it."""
    kind = record.machine.device.partition(":")[0]
    return kind if kind == "cpu" else "auto"


def _execution(record: Record, threads: int | None) -> "Execution":
    import torch

    from sdgbench.training.device import Execution

    machine = record.machine
    return Execution(
        record.spec.precision,
        machine.channels_last,
        machine.compile,
        bool(machine.deterministic),
        bool(machine.fast),
        threads or machine.threads or None,
        machine.cuda_graphs is not None and torch.cuda.is_available(),
    )


def _code_differences(record: Record) -> Iterator[str]:
    kinds: tuple[tuple[registry.Kind, str, str | None], ...] = (
        ("method", record.spec.method, record.code.method_file_sha256),
        ("dataset", record.spec.dataset, record.code.dataset_file_sha256),
    )
    for kind, name, sha256 in kinds:
        now = registry.get(kind, name).source_sha256
        if sha256 and sha256 != now:
            yield f"The file of the {kind} {name} changed: {sha256[:12]} then, {now[:12]} now."


def _data_differences(record: Record, data: Path) -> Iterator[str]:
    """Domains whose content is not the one of the record, by its hash."""
    spec = record.spec
    recipe = spec.build_recipe()
    dataset = spec.dataset_class(data, spec.build_options(), recipe)
    dataset.prepare()
    splits = {
        "train": (dataset.source("train"), record.source.train.sha256),
        "val": (dataset.source("val"), record.source.val.sha256),
    }
    for split, (domain, sha256) in splits.items():
        if sha256 and domain.sha256() != sha256:
            yield f"The data of the source ({split}) differ from the record's."
    for name, content in record.domains.items():
        try:
            if dataset.target(name).subsample(recipe.test_images).sha256() != content.sha256:
                yield f"The data of {name} differ from the record's."
        except MissingData:
            yield f"There is no data of {name} here."


def _environment_differences(original: Record, again: Record) -> Iterator[str]:
    pairs = zip(KEYS, environment_of(original), environment_of(again), strict=True)
    for key, then, now in pairs:
        if then != now:
            yield f"{key}: {then or 'unknown'} then, {now or 'unknown'} now."


def _agreements(original: FinishedRun, again: FinishedRun) -> Iterator[Agreement]:
    stored = arrays.read_arrays(original.folder / arrays.PREDICTIONS)
    new = again.predictions()
    metric = original.record.metric
    for name, score in original.record.last.per_domain.items():
        if name not in again.record.last.per_domain:
            continue  # reported before: there is no data
        then, now = stored.get(f"last/{name}"), new[name]
        yield Agreement(
            name,
            score.score(metric),
            again.record.last.per_domain[name].score(metric),
            _share(then, now) if then is not None and then.shape == now.shape else None,
        )


def _share(then: "np.ndarray", now: "np.ndarray") -> float:
    """The share of elements that are equal."""
    import numpy as np

    return float(np.mean(np.equal(then, now)))


def _same_curve(original: Path, again: Path) -> bool | None:
    """Whether all points are equal but for the seconds they took."""
    then, now = (
        [{k: v for k, v in point.items() if k != "seconds"} for point in read_points(folder)]
        for folder in (original, again)
    )
    return then == now if then else None
