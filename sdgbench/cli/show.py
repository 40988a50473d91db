"""``sdgbench show``: one record for a person."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sdgbench.cli import options

if TYPE_CHECKING:
    from rich.console import Console

    from sdgbench.records.schema import Record


@click.command(
    "show", epilog="Examples: sdgbench show 3f2a; sdgbench show runs/digits-mini/erm/3f2a81c09d14"
)
@click.argument("run", metavar="RECORD|ID")
@options.runs
def command(run: str, runs: Path) -> None:
    """Print the record of a finished run: what was asked, what came out, where and how."""
    from rich.console import Console

    from sdgbench.records.folders import find_finished_run
    from sdgbench.records.reading import read
    from sdgbench.spec.labels import run_label

    folder = find_finished_run(run, runs)
    record = read(folder / "record.json")
    console = Console(highlight=False)
    changed = record.flags.params_changed or ()
    console.print(run_label(vars(record.spec), changed), style="bold", markup=False)
    _facts(console, record, folder)
    _scores(console, record)


def _facts(console: "Console", record: "Record", folder: Path) -> None:
    from rich.markup import escape
    from rich.table import Table

    from sdgbench.leaderboard.environment import KEYS, environment_of
    from sdgbench.records import badges
    from sdgbench.spec.parameters import show

    spec, source, flags = record.spec, record.source, record.flags
    settings = {**spec.params, **{key: spec.options[key] for key in spec.option_changes}}
    settings |= {f"recipe.{key}": spec.recipe[key] for key in spec.recipe_changes}
    environment = dict(zip(KEYS, environment_of(record), strict=True))
    commands = f"sdgbench reproduce {record.id}" if not record.elsewhere else ""
    facts = {
        "id": record.id,
        "folder": str(folder),
        "finished": record.finished,
        "trained": f"elsewhere: {record.elsewhere.model}" if record.elsewhere else "here",
        "network": str(spec.recipe.get("network", "")),
        "settings": ", ".join(f"{key}={show(value)}" for key, value in settings.items()),
        "tuned": f"by the search {record.tuned.search}" if record.tuned else "",
        "source": f"{source.name}, {source.train.count:,} images" if source.name else "",
        "reduced scale": flags.reduced_scale or "",
        "flags": ", ".join([*flags.method, *map(str, flags.other)]),
        "unverified data": ", ".join(flags.unverified_data),
        "missing domains": ", ".join(record.missing_domains),
        "time": f"{record.cost.seconds:,.0f} s, of which {record.cost.train_seconds or 0:,.0f} s "
        "training",
        "computed by": ", ".join(f"{key} {value}" for key, value in environment.items() if value),
        "again": commands,
        **badges.describe(folder),
    }
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts.items():
        if text:
            table.add_row(name, escape(text))
    console.print(table)


def _scores(console: "Console", record: "Record") -> None:
    from rich.markup import escape
    from rich.table import Table

    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(f"{record.metric} in per cent", overflow="fold")
    for choice in record.results:
        title = {"last": "last iterate", "val": "chosen on source"}[choice]
        table.add_column(title, justify="right")
    rows: dict[str, list[float | None]] = {
        "held-out source": [result.source_val for result in record.results.values()],
    }
    for name in record.last.averages:
        rows[name] = [result.averages[name].mean for result in record.results.values()]
    for name in record.last.per_domain:
        rows[f"  {name}"] = [
            result.per_domain[name].score(record.metric) for result in record.results.values()
        ]
    for name, values in rows.items():
        if any(value is not None for value in values):
            table.add_row(
                escape(name), *("-" if value is None else f"{100 * value:.2f}" for value in values)
            )
    console.print(table)
