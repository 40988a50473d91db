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
    """The mean over seeds in per cent, and the half-width of its 95% interval."""

    mean: float | None
    half: float | None

    def __str__(self) -> str:
        if self.mean is None:
            return "-"
        return f"{self.mean:.1f}" + (f" ±{self.half:.1f}" if self.half is not None else "")


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

    def _scores(self, record: Record, choice: str) -> dict[str, float | None]:
        result = record["results"].get(choice) or record["results"]["last"]
        return {
            "source": result["source_val"],
            **{name: result["per_domain"][name][self.metric] for name in self._shown()},
            **{name: group["mean"] for name, group in result["averages"].items()},
            "worst": result["worst"],
        }


def _cell(scores: Sequence[float | None]) -> Cell:
    known = [100 * score for score in scores if score is not None]
    return Cell(*mean_interval(known)) if len(known) == len(scores) else Cell(None, None)


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
) -> dict[str, float]:
    """MCE and RmCE against the ERM record of the same ground and seed."""
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
    return {
        f"mCE{suffix}": metrics.mean_corruption_error(errors, reference),
        f"RmCE{suffix}": metrics.relative_mean_corruption_error(
            errors, clean, reference, clean_reference
        ),
    }
