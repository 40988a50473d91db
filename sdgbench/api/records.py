"""Records of finished runs as one object: a sequence, a tidy frame, tables."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import msgspec

from sdgbench.api.arguments import Folder, Names, any_names
from sdgbench.api.tables import Tables, compare_tables
from sdgbench.errors import UserError
from sdgbench.leaderboard import selection
from sdgbench.leaderboard.protocol import KnownProtocols
from sdgbench.leaderboard.runs import Run, as_run
from sdgbench.records.folders import record_files_below
from sdgbench.records.reading import read
from sdgbench.records.schema import Record
from sdgbench.registry import BASELINE, FIRST_RUN

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class StoredRecord:
    """A record and the folder of its run."""

    record: Record
    folder: Path


class Records(Sequence[Record]):
    """Records of finished runs, in order.

    ``remarks`` says in sentences what is not among them and why: files that could not be read,
    runs that make no sense.

    >>> records[0].metric
    'accuracy'
    """

    def __init__(self, stored: Iterable[StoredRecord], remarks: Sequence[str] = ()) -> None:
        self.stored = tuple(stored)
        self.remarks = tuple(remarks)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> "Records": ...
    def __getitem__(self, index: int | slice) -> "Record | Records":
        if isinstance(index, slice):
            return Records(self.stored[index])
        return self.stored[index].record

    def __len__(self) -> int:
        return len(self.stored)

    def __iter__(self) -> Iterator[Record]:
        return (entry.record for entry in self.stored)

    def __repr__(self) -> str:
        datasets = sorted({record.spec.dataset for record in self})
        methods = sorted({record.spec.method for record in self})
        about = f": {', '.join(methods)} on {', '.join(datasets)}" if self.stored else ""
        missing = f"; {len(self.remarks)} remarks" if self.remarks else ""
        return f"<Records of {len(self)} runs{about}{missing}>"

    def _repr_html_(self) -> str:
        return self.compare()._repr_html_() if self.stored else "<p>No records.</p>"

    @property
    def folders(self) -> list[Path]:
        """The folder of each run."""
        return [entry.folder for entry in self.stored]

    def filter(self, keep: Callable[[Record], object]) -> "Records":
        """Those records for which ``keep`` returns something true.

        >>> len(records.filter(lambda record: record.spec.seed == 0))
        1
        """
        return Records(entry for entry in self.stored if keep(entry.record))

    def to_frame(self) -> "pd.DataFrame":
        """A tidy frame: one row per run, choice of weights and unseen domain.

        ``value`` is a fraction between 0 and 1. Rows with the same ``protocol`` may be compared.
        ``params`` is JSON, ``changed`` names parameters that are not the method's defaults, and
        ``flags`` what a reader must know (such as reduced_scale). Tags of domains, such as the
        severity of a corruption, are columns ``tag_...``.

        >>> frame = records.to_frame()
        >>> sorted(frame.domain.unique())
        ['print', 'scan', 'street', 'texture']
        """
        import pandas as pd

        known: KnownProtocols = {}
        rows = [
            row
            for entry in self.stored
            for row in _rows(entry.record, as_run(entry.record, str(entry.folder), known))
        ]
        return pd.DataFrame(rows, columns=None if rows else list(COLUMNS))

    def compare(
        self,
        view: str = "domains",
        *,
        methods: Names = (),
        datasets: Names = (),
        preset: Names = (),
        sort: str = "",
        baseline: str = BASELINE,
        choice: str = "last",
        paper: bool = False,
        merge_versions: bool = False,
        strict: bool = False,
        without: Names = (),
    ) -> Tables:
        """The tables of ``sdgbench compare``, which a notebook shows as HTML.

        ``view`` says what the columns are: domains, severity, corruptions, classes, efficiency,
        cost, transport. ``paper=True`` adds published numbers in tables of their own.
        ``merge_versions``, ``strict`` and ``without`` are the options of the command.

        >>> records.compare("efficiency", sort="method")
        <Tables: digits-mini, smoke preset: accuracy in per cent, and what using the model costs>
        """
        if not self.stored:
            raise UserError(f"There are no records to compare. Make some: {FIRST_RUN}")
        known: KnownProtocols = {}
        runs = [as_run(entry.record, str(entry.folder), known) for entry in self.stored]
        boards = selection.select(
            selection.without_flags(runs, any_names(without, "without")),
            any_names(datasets, "datasets"),
            any_names(preset, "preset"),
            merge_versions,
            strict,
        )
        tables = compare_tables(
            boards,
            view=view,
            methods=any_names(methods, "methods"),
            sort=sort,
            baseline=baseline,
            choice=choice,
            paper=paper,
        )
        return Tables(tables)


COLUMNS = (
    "run",
    "dataset",
    "preset",
    "protocol",
    "method",
    "changed",
    "params",
    "seed",
    "choice",
    "domain",
    "metric",
    "value",
    "flags",
    "reduced_scale",
    "tuned",
)


def _rows(record: Record, run: Run) -> Iterator[dict[str, Any]]:
    spec = record.spec
    changed = record.flags.params_changed or ()
    same: dict[str, Any] = {
        "run": record.id,
        "dataset": spec.dataset,
        "preset": spec.preset,
        "protocol": run.protocol.id,
        "method": spec.method,
        "changed": ", ".join(f"{key}={spec.params.get(key)}" for key in changed),
        "params": run.params,
        "seed": spec.seed,
    }
    notes = {"flags": _flags(record, run), "reduced_scale": record.flags.reduced_scale or ""}
    notes["tuned"] = spec.tuned
    for choice, scores in run.scores.items():
        for number, domain in enumerate(run.protocol.domains):
            tags = {f"tag_{key}": value for key, value in run.protocol.tags[number].items()}
            score = {"metric": record.metric, "value": scores.values[number]}
            yield {**same, "choice": choice, "domain": domain, **score, **notes, **tags}


def _flags(record: Record, run: Run) -> str:
    """The names of the flags that are set."""
    own = [*record.flags.method, *record.flags.other, *(["unverified"] if run.unverified else [])]
    raised = msgspec.structs.asdict(record.flags)
    return ", ".join([name for name in raised if name not in _NOT_NAMED and raised[name]] + own)


_NOT_NAMED = ("params_changed", "method", "other")


def load_records(*folders: Folder) -> Records:
    """Read all records below some folders, ``runs`` if none is given.

    What cannot be read is skipped, and named in ``remarks``.

    >>> len(sdgbench.load_records("runs")) >= 2
    True
    """
    stored, remarks = [], []
    for folder in map(Path, folders or ("runs",)):
        if not folder.is_dir():
            raise UserError(f"There is no folder {folder}. Make runs: {FIRST_RUN}")
        for path in record_files_below(folder):
            try:
                record = read(path)
                as_run(record, str(path.parent))  # its parts must fit together
            except UserError as error:
                remarks.append(f"Skipped: {error}")
            else:
                stored.append(StoredRecord(record, path.parent))
    return Records(stored, remarks)
