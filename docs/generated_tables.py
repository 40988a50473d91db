"""Writes the generated tables of the documents: ``python docs/generated_tables.py``.

A generated table is between two marker comments. ``README.md`` gets the head of the committed
leaderboards, ``docs/running.md`` the time of a run, from the committed records, ``docs/data.md``
ERM on PACS at 128 pixels, from records in a folder of their own.
"""

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from sdgbench.records.reading import read
from sdgbench.records.schema import Record

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "leaderboards" / "records"
SMALL_PACS = ROOT / "leaderboards" / "pacs128"
DOMAINS = ("photo", "art_painting", "cartoon", "sketch")


def leaderboard_head(
    file: str, columns: Sequence[str], first: int | None = None, also: Sequence[str] = ()
) -> str:
    """The first table of a committed leaderboard, reduced to some of its columns and rows.

    The rows are the ``first`` ones, by default all, and those of the methods in ``also``.
    """
    text = (ROOT / "leaderboards" / file).read_text(encoding="utf-8")
    first = re.search(r"(?:^\|.*\n)+", text, re.M)
    assert first, f"{file} has no table"
    heads, rules, *rows = [_cells(line) for line in first[0].splitlines()]
    kept = [heads.index(column) for column in columns]
    rows = [cells for n, cells in enumerate(rows) if first is None or n < first or cells[0] in also]
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
        "results.md", ("method", "n", "source", "average", "worst", "gain_vs_erm")
    ),
    ("README.md", "digits"): lambda: leaderboard_head(
        "digits.md", ("method", "n", "svhn", "mnist-m", "usps", "average", "gain_vs_erm")
    ),
    ("docs/running.md", "time"): time_table,
    ("docs/data.md", "pacs128"): small_pacs_table,
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
