"""The M-ADA paper's experiments as commands, and the page that shows what came out.

All of it is data: ``RUNS`` trains, ``ITEMS`` makes the tables and figures from the records. The
datasets are the embedded ones, so nothing here compares with the paper's numbers; it shows the
same experiments, and the commands do the same on real data with other names.
"""

import base64
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sdgbench import storage
from sdgbench.leaderboard import Cell, Column, Line, Table
from sdgbench.leaderboard.formats import html_table, html_text
from sdgbench.paper import published

DIGITS, SHAPES, STREETS = "digits-mini", "shapes10c", "streets-mini"
ONCE = "gud-ensemble,mada-no-const,mada-no-meta,mada-no-relax"

# Two seeds where an interval is drawn, one elsewhere: all of it shall take half an hour. Runs that
# several experiments need are made once, long ones first. Runs with changed parameters have a
# folder of their own: the main tables are about the methods as published.
RUNS = (
    f"run --method mada,gud,ccsa,dsne,jigen,erm --dataset {DIGITS} --seeds 0-1",
    f"run --method {ONCE} --dataset {DIGITS}",
    f"run --method mada --dataset {DIGITS} --grid relaxation=ae,literal,pixel",
    f"run --method mada --dataset {DIGITS} --seeds 0-1 --grid K=2,1",
    f"run --method mada --dataset {DIGITS} --seeds 0-1 --grid alpha=100",
    f"run --method mada --dataset {DIGITS} --seeds 0-1 --grid beta=20",
    f"run --method mada,mada-no-meta,gud,erm --dataset {SHAPES}",
    f"run --method mada,gud,erm --dataset {STREETS}",
    f"adapt --dataset {DIGITS} --method erm,gud,mada --target street,scan --shots 0,7,10 --draws 2",
)


# Only a part of their length, so that all of it takes half an hour.
SHORTER = {(SHAPES, "quick"): "recipe.steps=80", (STREETS, "quick"): "recipe.epochs=1"}


def training(folder: Path, data: Path, preset: str, jobs: int = 1) -> Iterator[list[str]]:
    """The commands of RUNS in full."""
    for text in RUNS:
        words = [*text.split(), "--preset", preset]
        if shorter := SHORTER.get((words[words.index("--dataset") + 1], preset)):
            words += ["--set", shorter]
        if words[0] == "run" and jobs > 1:
            words += ["--jobs", str(jobs)]
        runs = folder / ("variants" if "--grid" in words else "runs")
        yield [*words, "--runs", str(runs), "--data", str(data)]


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper, and the command that makes ours."""

    kind: Literal["table", "figure"]
    slug: str
    title: str
    command: str
    printed: tuple[str, ...] = ()  # published tables that are shown below it
    variants: bool = False  # also about runs with changed parameters
    number: str = ""  # in the paper; empty: not known to this project

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return "-".join(filter(None, (self.kind, self.number, self.slug)))

    def commands(self, folder: Path, data: Path) -> Iterator[list[str]]:
        """What to call: a table as Markdown and HTML, a figure as SVG and PDF."""
        words = [*self.command.split(), "--runs", str(folder / "runs")]
        if self.variants:
            words += ["--runs", str(folder / "variants")]
        if self.kind == "table":
            for suffix in ("md", "html"):
                yield ["compare", *words, "--output", str(folder / f"{self.name}.{suffix}")]
        else:
            yield [
                "plot",
                *words,
                "--format",
                "svg,pdf",
                "--output",
                str(folder / self.name),
                "--data",
                str(data),
            ]

    def tidy(self, folder: Path) -> None:
        """Bring drawn files to their names."""
        drawn = folder / self.name
        for path in sorted(drawn.glob("*")) if drawn.is_dir() else ():
            path.replace(folder / f"{self.name}{path.suffix}")
        shutil.rmtree(drawn, ignore_errors=True)


ITEMS = (
    Item(
        "table",
        "digits",
        "Accuracy on the unseen digit domains",
        f"--dataset {DIGITS} --methods erm,ccsa,dsne,jigen,gud,mada",
        ("digits",),
    ),
    Item(
        "table",
        "corruptions",
        "Accuracy per corruption at the highest severity, mCE, RmCE",
        f"--dataset {SHAPES} --view corruptions",
        ("cifar10c_level5",),
    ),
    Item(
        "table",
        "severity",
        "Accuracy per severity",
        f"--dataset {SHAPES} --view severity",
        ("cifar10c_severity",),
    ),
    Item(
        "table", "segmentation", "mIoU on the unseen streets", f"--dataset {STREETS}", ("synthia",)
    ),
    Item(
        "table",
        "ablation",
        "M-ADA without its parts, and with other relaxation terms",
        f"--dataset {DIGITS} --ablation mada",
        ("relaxation",),
        variants=True,
    ),
    Item(
        "table",
        "transport",
        "How far augmented domains are from the source",
        f"--dataset {DIGITS} --view transport --methods gud,mada,mada-no-relax",
        ("transport",),
    ),
    Item(
        "table",
        "efficiency",
        "GUD ensemble against M-ADA: parameters, latency, accuracy",
        f"--dataset {DIGITS} --view efficiency --methods gud-ensemble,mada",
        ("efficiency",),
    ),
    Item(
        "table",
        "few-shot",
        "Few-shot adaptation to an unseen domain",
        f"--dataset {DIGITS} --view few-shot",
        ("few_shot",),
    ),
    Item(
        "figure", "severity", "Accuracy by severity and corruption", f"severity --dataset {SHAPES}"
    ),
    Item(
        "figure",
        "meta-learning",
        "What meta-learning is worth, by corruption",
        f"meta --dataset {SHAPES}",
    ),
    Item(
        "figure",
        "hyper-parameters",
        "Accuracy against K, alpha and beta",
        f"sweep --dataset {DIGITS} --methods mada",
        variants=True,
    ),
    Item(
        "figure",
        "embedding",
        "t-SNE of source, augmented and unseen domains",
        f"tsne --dataset {DIGITS} --methods erm,gud,mada,mada-no-relax",
    ),
    Item("figure", "segmentation", "Segmentations side by side", f"gallery --dataset {STREETS}"),
)
SCALE = (
    "Made at the preset “{preset}” on embedded datasets that mimic the paper's: reduced scale, "
    "other data. No number here compares with the paper's."
)
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto}"
    "th,td{padding:.2em .7em;text-align:right;white-space:nowrap}thead{border-bottom:1px solid}"
    "th:first-child,td:first-child,.text{text-align:left}caption{font-weight:bold;text-align:left}"
    "img{max-width:100%;background:#fff}ul{color:#666;font-size:90%}code{overflow-wrap:anywhere}"
    ":root{color-scheme:light dark}"
)


def page(folder: Path, preset: str, runs: Sequence[list[str]], failed: Sequence[str]) -> str:
    """All that was made as one page that needs no network; what was not made is named."""
    scale = html_text(SCALE.format(preset=preset))
    body = [f"<h1>The experiments of the M-ADA paper</h1><p><strong>{scale}</strong></p>"]
    for item in ITEMS:
        body.append(f'<h2 id="{item.name}">{html_text(_title(item))}</h2>')
        body.append(
            f"<p><code>sdgbench {html_text(_shown(item))}</code></p>{_content(item, folder)}"
        )
    lines = "<br>".join(html_text(f"sdgbench {' '.join(words)}") for words in runs)
    body.append(f"<h2>The runs</h2><p><code>{lines}</code></p>")
    body += [f"<p>Not made: {html_text(text)}</p>" for text in failed]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>The M-ADA paper's experiments</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _title(item: Item) -> str:
    return f"{item.kind.capitalize()} {item.number}".strip() + f": {item.title}"


def _shown(item: Item) -> str:
    return ("compare " if item.kind == "table" else "plot ") + item.command


def _content(item: Item, folder: Path) -> str:
    path = folder / f"{item.name}.{'html' if item.kind == 'table' else 'svg'}"
    if not path.exists():
        return "<p>Not made.</p>"
    published_tables = "".join(html_table(printed(name)) for name in item.printed)
    if item.kind == "figure":
        data = base64.b64encode(path.read_bytes()).decode()
        return f'<img alt="{html_text(item.title)}" src="data:image/svg+xml;base64,{data}">'
    body = path.read_text(encoding="utf-8").partition("<body>")[2].partition("</body>")[0]
    return body + published_tables


def printed(name: str) -> Table:
    """A published table, cell by cell as it was printed."""
    table = published.table(name)
    others = dict.fromkeys(key for row in table.rows for key in row.printed)
    columns = [Column(key) for key in (*table.columns, *others)]
    lines = [
        Line(
            _row_name(row),
            None,
            {
                column.name: Cell(
                    {**row.cells, **row.printed}.get(column.name),
                    digits=3 if name == "transport" else 2,
                )
                for column in columns
            },
        )
        for row in table.rows
    ]
    reference = next(iter(table.references.values()))
    return Table(
        "published",
        f"As printed in the paper ({table.metric}): other data, full scale",
        tuple(columns),
        tuple(lines),
        notes=(reference, table.protocol),
        label="source and method" if table.rows[0].source else "method",
    )


def _row_name(row: published.PublishedRow) -> str:
    before = f"{row.source}: " if row.source else ""
    return f"{before}{row.method}" + (f" ({row.shots} per class)" if row.shots else "")


def write_page(folder: Path, preset: str, runs: Sequence[list[str]], failed: Sequence[str]) -> Path:
    """Write the page; the tables' own HTML files are in it and no longer needed."""
    data = page(folder, preset, runs, failed).encode()
    path = folder / "index.html"
    storage.write_atomic(path, lambda file: file.write(data))
    for item in ITEMS:
        if item.kind == "table":
            (folder / f"{item.name}.html").unlink(missing_ok=True)
    return path
