"""Writes the generated tables of the documents: ``python docs/generated_tables.py``.

A generated table is between two marker comments. ``README.md`` gets the head of the committed
leaderboards, ``docs/running.md`` the time of a run, from the committed records, ``docs/data.md``
ERM on PACS at 128 pixels, from records in a folder of their own.
"""

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from sdgbench.leaderboard.statistics import paired_gain
from sdgbench.records.reading import read
from sdgbench.records.schema import Record

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "leaderboards" / "records"
SMALL_PACS = ROOT / "leaderboards" / "pacs128"
RIVALS = ("erm", "gud", "trivialaugment")
FEWEST_METHODS = 10  # for a correlation over runs of several methods
DRAWS = 2000
Points = Sequence[tuple[float, float]]  # (held-out source, average of unseen domains) of runs
DOMAINS = ("photo", "art_painting", "cartoon", "sketch")


def leaderboard_head(
    file: str, columns: Sequence[str], limit: int | None = None, also: Sequence[str] = ()
) -> str:
    """The first table of a committed leaderboard, reduced to some of its columns and rows.

    The rows are the first ``limit`` ones, by default all, and those of the methods in ``also``.
    """
    text = (ROOT / "leaderboards" / file).read_text(encoding="utf-8")
    first = re.search(r"(?:^\|.*\n)+", text, re.M)
    assert first, f"{file} has no table"
    heads, rules, *rows = [_cells(line) for line in first[0].splitlines()]
    kept = [heads.index(column) for column in columns]
    rows = [cells for n, cells in enumerate(rows) if limit is None or n < limit or cells[0] in also]
    return "\n".join(_row(cells[index] for index in kept) for cells in (heads, rules, *rows))


def time_table(records: Path = RECORDS) -> str:
    """The median time of a run by dataset, preset and method, the quickest method first."""
    seconds: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    threads: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for file in sorted(records.glob("*/*/*/record.json")):
        record = read(file)
        key = (record.spec.dataset, record.spec.preset, _method(record))
        seconds[key].append((record.cost.train_seconds or 0.0, record.cost.seconds))
        threads[key].add(f"{record.machine.hardware}, threads: {record.machine.threads}")
    lines = ["| dataset | preset | method | n | training (s) | whole run (s) | machine |"]
    lines.append("|---|---|---|--:|--:|--:|---|")
    for key in sorted(
        seconds, key=lambda key: (key[:2], statistics.median(total for _, total in seconds[key]))
    ):
        training, total = (statistics.median(values) for values in zip(*seconds[key], strict=True))
        dataset, preset, method = (f"`{part}`" for part in key)
        machines = "; ".join(sorted(threads[key]))
        count = str(len(seconds[key]))
        lines.append(
            _row((dataset, preset, method, count, _time(training), _time(total), machines))
        )
    return "\n".join(lines)


def small_pacs_table(records: Path = SMALL_PACS) -> str:
    """Accuracy of ERM by initial weights, source and steps: mean, lowest and highest seed.

    In the column of the source is the score on its held-out images.
    """
    runs: dict[tuple[bool, int, int], list[Record]] = defaultdict(list)
    for file in sorted(records.glob("*/*/*/record.json")):
        record = read(file)
        source = DOMAINS.index(record.spec.options["source"])
        runs[not record.flags.pretrained, source, record.spec.recipe["steps"]].append(record)
    lines = [_row(("weights", "source", "steps", "n", *DOMAINS, "average of unseen"))]
    lines.append("|---|---|--:|--:|" + "--:|" * (len(DOMAINS) + 1))
    for (scratch, index, steps), group in sorted(runs.items()):
        source = DOMAINS[index]
        cells = []
        for domain in DOMAINS:
            if domain == source:
                scores = [record.last.source_val for record in group]
                cells.append(f"*{100 * statistics.mean(scores):.1f}*")
            else:
                scores = [record.last.per_domain[domain].accuracy for record in group]
                cells.append(f"{100 * statistics.mean(scores):.1f}")
        averages = [100 * record.last.average for record in group]
        seeds = f" ({min(averages):.1f} to {max(averages):.1f})" if len(averages) > 1 else ""
        cells.append(f"{statistics.mean(averages):.1f}{seeds}")
        weights = "random" if scratch else "ImageNet"
        lines.append(_row((weights, source, f"{steps:,}", str(len(group)), *cells)))
    return "\n".join(lines)


def _by_method(records: Iterable[Record]) -> dict[str, dict[int, Record]]:
    """Records by method and seed; those with parameters set by hand are left out."""
    runs: dict[str, dict[int, Record]] = defaultdict(dict)
    for record in records:
        if not record.flags.params_changed:
            runs[record.spec.method][record.spec.seed] = record
    return runs


def _averages(runs: Mapping[int, Record]) -> dict[int, float]:
    return {seed: 100 * record.last.average for seed, record in runs.items()}


def _difference(ours: Mapping[int, Record], theirs: Mapping[int, Record]) -> str:
    """A mean of paired differences with its interval, and over how many seeds."""
    gain = paired_gain(_averages(ours), _averages(theirs), with_p=False)
    if gain is None:
        return "no shared seed"
    half = "" if gain.half is None else f" ±{gain.half:.1f}{' tie' * gain.is_tie}"
    return f"{gain.mean:+.1f}{half} (n={gain.n})"


def differences_table(dataset: str, records: Path = RECORDS) -> str:
    """Each method against three others, paired by seed."""
    runs = _by_method(read(file) for file in sorted(records.glob(f"{dataset}/*/*/record.json")))
    lines = [_row(("method", *(f"minus `{name}`" for name in RIVALS)))]
    lines.append("|---|" + "--:|" * len(RIVALS))
    order = sorted(runs, key=lambda name: -statistics.mean(_averages(runs[name]).values()))
    for name in order:
        cells = ["" if name == other else _difference(runs[name], runs[other]) for other in RIVALS]
        lines.append(_row((f"`{name}`", *cells)))
    return "\n".join(lines)


def selection_table(records: Path = RECORDS) -> str:
    """How far held-out source and unseen domains agree, and how far seeds move a mean."""
    lines = ["| dataset | preset | runs | methods | rank correlation | spread over seeds |"]
    lines.append("|---|---|--:|--:|--:|--:|")
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for file in sorted(records.glob("*/*/*/record.json")):
        record = read(file)
        groups[record.spec.dataset, record.spec.preset].append(record)
    for (dataset, preset), group in sorted(groups.items()):
        runs = _by_method(group)
        points = [
            [(record.last.source_val, record.last.average) for record in seeds.values()]
            for seeds in runs.values()
        ]
        if len(points) < FEWEST_METHODS:
            continue
        spreads = [statistics.stdev(_averages(s).values()) for s in runs.values() if len(s) > 2]
        spread = f"{statistics.median(spreads):.1f}" if spreads else "-"
        rho, low, high = _rank_correlation(points)
        correlation = f"{rho:+.2f} ({low:+.2f} to {high:+.2f})"
        count = str(sum(map(len, points)))
        lines.append(
            _row((f"`{dataset}`", f"`{preset}`", count, str(len(runs)), correlation, spread))
        )
    return "\n".join(lines)


def _rank_correlation(points: Sequence[Points]) -> tuple[float, float, float]:
    """Spearman's correlation over all points, and its 95% interval by bootstrap over methods.

    The runs of one method are not independent, so whole methods are drawn.
    """
    generator = np.random.default_rng(0)

    def correlation(chosen: Iterable[int]) -> float:
        source, unseen = zip(*(pair for index in chosen for pair in points[index]), strict=True)
        return float(spearmanr(source, unseen).statistic)

    drawn = [correlation(generator.integers(0, len(points), len(points))) for _ in range(DRAWS)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return correlation(range(len(points))), float(low), float(high)


def _method(record: Record) -> str:
    changed = record.flags.params_changed or []
    values = ", ".join(f"{name}={record.spec.params[name]}" for name in changed)
    return record.spec.method + (f" ({values})" if values else "")


def _time(seconds: float) -> str:
    return f"{seconds:,.0f}"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


TABLES = {
    ("README.md", "results"): lambda: leaderboard_head(
        "digits-mini.md",
        ("method", "n", "source", "average", "worst", "gain_vs_erm"),
        limit=6,
        also=("trivialaugment", "mada", "erm"),
    ),
    ("README.md", "digits"): lambda: leaderboard_head(
        "digits.md", ("method", "n", "svhn", "mnist-m", "usps", "average", "gain_vs_erm")
    ),
    ("docs/running.md", "time"): time_table,
    ("docs/data.md", "pacs128"): small_pacs_table,
    ("docs/findings.md", "differences"): lambda: differences_table("digits-mini"),
    ("docs/findings.md", "selection"): selection_table,
}


def with_table(text: str, name: str, table: str) -> str:
    """A document with the table between the markers of a name replaced."""
    markers = rf"(<!-- {name}: begin\b.*?-->\n).*?(<!-- {name}: end -->)"
    new, count = re.subn(markers, lambda m: f"{m[1]}\n{table}\n\n{m[2]}", text, flags=re.S)
    assert count == 1, f"the markers of {name} occur {count} times"
    return new


if __name__ == "__main__":
    for (file, name), make in TABLES.items():
        path = ROOT / file
        path.write_text(with_table(path.read_text(encoding="utf-8"), name, make()), "utf-8")
