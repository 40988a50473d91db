"""Published few-shot adaptations next to ours: each pair of domains in a block of its own."""

from collections.abc import Iterator, Sequence

from sdgbench.leaderboard.table import Cell, Column, Line, Table
from sdgbench.paper.published import TAGS, PublishedTable, tables
from sdgbench.paper.verdicts import published_facts, sources_of


def with_published(measured: Sequence[Table]) -> list[Table]:
    """Our few-shot tables, each followed by what is published for its pair of domains."""
    combined: list[Table] = []
    for table in measured:
        combined.append(table)
        combined += [other for other in _published(table) if other not in combined]
    return combined


def _published(measured: Table) -> Iterator[Table]:
    column = f"{measured.facts['source']}_to_{measured.facts['target']}"
    for table in tables():
        if table.dataset == measured.facts["dataset"] and column in table.columns:
            yield _table(table, column)


def _table(table: PublishedTable, column: str) -> Table:
    rows = [row for row in table.rows if column in row.cells]
    known = dict.fromkeys(row.shots for row in rows)
    shots = sorted(known, key=lambda text: (not text.isdigit(), int(text) if text.isdigit() else 0))
    by_method: dict[str, dict[str, float]] = {}
    for row in rows:
        by_method.setdefault(row.method, {})[row.shots] = row.cells[column]
    tags, reference = {row.method: row.tag for row in rows}, next(iter(table.references))
    lines = [
        Line(
            method,
            None,
            {
                **{name: Cell(scores.get(name), digits=table.digits) for name in shots},
                "from": Cell(None, text=f"{tags[method]} {reference}"),
            },
        )
        for method, scores in by_method.items()
    ]
    source, _, target = column.partition("_to_")
    return Table(
        "published",
        f"{table.name}, published: {source} → {target}, not ranked",
        (
            *(Column(name, f"{name} images per class of the target") for name in shots),
            Column("from", "tag and source", is_text=True),
        ),
        tuple(lines),
        "",
        (f"metric: {table.metric}", *sources_of([table])),
        tuple(f"{tag}: {TAGS[tag]}" for tag in dict.fromkeys(row.tag for row in rows)),
        published_facts(table, source=source, target=target),
    )
