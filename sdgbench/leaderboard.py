"""Tables derived from records. Nothing here imports torch."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from sdgbench import metrics
from sdgbench.errors import UserError
from sdgbench.record import Record
from sdgbench.stats import mean_interval

BASELINE = "erm"
MOST_COLUMNS = 20
HIGHEST = 5  # the severity that mCE is taken at


@dataclass
class Row:
    """A method with one set of parameters: its runs on the same ground, one per seed."""

    method: str
    variant: str  # parameters that differ between rows of this method, as key=value
    records: dict[int, Record] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What stands in the first column."""
        return f"{self.method} ({self.variant})" if self.variant else self.method


@dataclass(frozen=True)
class Cell:
    """The mean over seeds and the half-width of its 95% interval."""

    mean: float | None
    half: float | None
    digits: int = 1  # per cent need one, ratios more

    def __str__(self) -> str:
        if self.mean is None:
            return "-"
        half = f" ±{self.half:.{self.digits}f}" if self.half is not None else ""
        return f"{self.mean:.{self.digits}f}{half}"


@dataclass(frozen=True)
class Line:
    """A row as it is shown."""

    method: str
    n: int
    cells: dict[str, Cell]


@dataclass
class Board:
    """Runs that may be compared: same dataset, version, options, preset, recipe and domains."""

    dataset: str
    preset: str
    metric: str
    domains: tuple[str, ...]
    reduced: str
    remark: str  # what sets it apart from the dataset's usual board
    rows: list[Row]
    warnings: tuple[str, ...] = ()  # of the data: unverified, regenerated, missing

    @property
    def title(self) -> str:
        """What the table is about."""
        remark = f" [{self.remark}]" if self.remark else ""
        return f"{self.dataset}, {self.preset} preset{remark}: {self.metric} in per cent"

    def lines(self, choice: str = "last") -> list[Line]:
        """The rows, best average first."""
        lines = []
        for row in self.rows:
            scores = [self._scores(record, choice) for record in row.records.values()]
            cells = {name: _cell([score[name] for score in scores]) for name in scores[0]}
            if self._is_corrupted():
                cells |= self._relative_cells(row, choice)
            lines.append(Line(row.name, len(scores), cells))
        return sorted(lines, key=lambda line: -(line.cells[self.ranked].mean or 0.0))

    def frame(self, choice: str = "last") -> pd.DataFrame:
        """The rows for a spreadsheet: each column's mean and half-width."""
        rows = []
        for line in self.lines(choice):
            row: dict[str, Any] = {
                "dataset": self.dataset, "preset": self.preset, "remark": self.remark,
                "metric": self.metric, "reduced_scale": bool(self.reduced), "choice": choice,
                "method": line.method, "n": line.n,
            }  # fmt: skip
            for name, cell in line.cells.items():
                row[name], row[f"{name} ±"] = cell.mean, cell.half
            rows.append(row)
        return pd.DataFrame(rows)

    @property
    def ranked(self) -> str:
        """The column that rows are sorted by: the dataset's first average."""
        record = next(iter(self.rows[0].records.values()))
        return next(iter(record["results"]["last"]["averages"]))

    def _shown(self) -> tuple[str, ...]:
        """Domains that get a column; with very many, the averages must do."""
        return self.domains if len(self.domains) <= MOST_COLUMNS else ()

    def _is_corrupted(self) -> bool:
        record = next(iter(self.rows[0].records.values()))
        found = {d["tags"].get("severity") for d in record["domains"].values()}
        return {0, HIGHEST} <= found

    def _relative_cells(self, row: Row, choice: str) -> dict[str, Cell]:
        """MCE and RmCE, seed by seed against ERM; empty where ERM lacks one of the seeds."""
        baseline = self._baseline()
        some = next(iter(row.records.values()))
        if any(seed not in baseline for seed in row.records):
            return {name: Cell(None, None) for name in relative_errors(some, some, HIGHEST, choice)}
        ratios = [
            relative_errors(record, baseline[seed], HIGHEST, choice)
            for seed, record in row.records.items()
        ]
        return {name: _cell([r[name] for r in ratios], scale=1, digits=3) for name in ratios[0]}

    def _baseline(self) -> dict[int, Record]:
        return next((r.records for r in self.rows if r.method == BASELINE and not r.variant), {})

    def all_warnings(self) -> list[str]:
        """What must stand below the table."""
        missing = self.missing_baseline()
        return [*self.warnings, *([missing] if missing else [])]

    def missing_baseline(self) -> str | None:
        """What to run before mCE can be shown, if anything."""
        seeds = {seed for row in self.rows for seed in row.records} - set(self._baseline())
        if not self._is_corrupted() or not seeds:
            return None
        wanted = ",".join(str(seed) for seed in sorted(seeds))
        return (
            f"mCE and RmCE need {BASELINE} for the seeds {wanted}: sdgbench run --method "
            f"{BASELINE} --dataset {self.dataset} --preset {self.preset} --seeds {wanted}"
        )

    def _scores(self, record: Record, choice: str) -> dict[str, float | None]:
        result = record["results"].get(choice) or record["results"]["last"]
        return {
            "source": result["source_val"],
            **{name: result["per_domain"][name][self.metric] for name in self._shown()},
            **{name: group["mean"] for name, group in result["averages"].items()},
            "worst": result["worst"],
        }


def _cell(scores: Sequence[float | None], scale: float = 100, digits: int = 1) -> Cell:
    known = [scale * score for score in scores if score is not None]
    return Cell(*mean_interval(known), digits) if len(known) == len(scores) else Cell(None, None)


def boards(records: Iterable[Record]) -> list[Board]:
    """Group records into boards, and the runs of a board into rows."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[_ground(record)].append(record)
    found = [_board(group) for group in groups.values()]
    return sorted(found, key=lambda board: (board.dataset, board.preset, board.remark))


def _ground(record: Record) -> str:
    """What must be equal for two runs to be compared."""
    spec = record["spec"]
    return json.dumps(
        [
            spec["dataset"], spec["dataset_version"], spec["options"], spec["preset"],
            spec["recipe"], record["source"],
            {name: domain["sha256"] for name, domain in record["domains"].items()},
        ],
        sort_keys=True,
    )  # fmt: skip


def _board(records: Sequence[Record]) -> Board:
    first = records[0]
    spec = first["spec"]
    variants: dict[tuple[str, str], dict[int, Record]] = defaultdict(dict)
    for record in records:
        key = (record["spec"]["method"], json.dumps(record["spec"]["params"], sort_keys=True))
        variants[key][record["spec"]["seed"]] = record
    rows = [
        Row(method, _difference(method, params, variants), dict(sorted(runs.items())))
        for (method, params), runs in variants.items()
    ]
    remarks = [f"{key}={spec['options'][key]}" for key in spec["option_changes"]]
    remarks += [f"recipe.{key}={spec['recipe'][key]}" for key in spec["recipe_changes"]]
    return Board(
        spec["dataset"], spec["preset"], first["metric"], tuple(first["domains"]),
        spec["recipe"]["reduced"], ", ".join(remarks), rows, _warnings(first),
    )  # fmt: skip


def _warnings(record: Record) -> tuple[str, ...]:
    """What must be said of the data below every table."""
    flags, found = record.get("flags", {}), []
    for flag, text in (("unverified_data", "unverified data"), ("regenerated", "regenerated")):
        if names := flags.get(flag):
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            found.append(f"{text}: {', '.join(names[:5])}{more}")
    if short := flags.get("incomplete_source"):
        found.append(f"incomplete source: {short}")
    if overlays := flags.get("frost_overlays"):
        found.append(f"frost overlays: {', '.join(overlays)}")
    if missing := record.get("missing_domains"):
        found.append(f"no data for: {', '.join(missing)}")
    return tuple(found)


def _difference(method: str, params: str, variants: Iterable[tuple[str, str]]) -> str:
    """The parameters in which this variant differs from another one of the same method."""
    own = json.loads(params)
    others = [json.loads(text) for name, text in variants if name == method and text != params]
    keys = [key for key in own if any(other.get(key) != own[key] for other in others)]
    return ", ".join(f"{key}={own[key]}" for key in keys)


def corruption_errors(record: Record, severity: int, choice: str = "last") -> dict[str, float]:
    """Error per corruption at a severity, for a record whose domains are corruptions."""
    results = record["results"][choice]["per_domain"]
    return {
        domain["tags"]["corruption"]: 1 - results[name]["accuracy"]
        for name, domain in record["domains"].items()
        if domain["tags"].get("severity") == severity
    }


def relative_errors(
    record: Record, baseline: Record | None, severity: int = 5, choice: str = "last"
) -> dict[str, float | None]:
    """MCE and RmCE against the ERM record of the same ground and seed; None: no ratio exists."""
    if baseline is None:
        spec = record["spec"]
        raise UserError(
            f"mCE needs the {BASELINE} run of {spec['dataset']} ({spec['preset']}) with seed "
            f"{spec['seed']}: sdgbench run --method {BASELINE} --dataset {spec['dataset']} "
            f"--preset {spec['preset']} --seeds {spec['seed']}"
        )
    errors, reference = (corruption_errors(one, severity, choice) for one in (record, baseline))
    clean, clean_reference = (
        next(
            1 - one["results"][choice]["per_domain"][name]["accuracy"]
            for name, domain in one["domains"].items()
            if domain["tags"].get("severity") == 0
        )
        for one in (record, baseline)
    )
    suffix = f"{len(errors)}_L{severity}_vs_{BASELINE}"
    found: dict[str, float | None] = {
        f"mCE{suffix}": metrics.mean_corruption_error(errors, reference)
    }
    try:
        found[f"RmCE{suffix}"] = metrics.relative_mean_corruption_error(
            errors, clean, reference, clean_reference
        )
    except UserError:  # the baseline is as good on a corruption as on clean images
        found[f"RmCE{suffix}"] = None
    return found
