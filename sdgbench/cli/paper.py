"""``sdgbench paper``: the experiments of the M-ADA paper, from runs to one page."""

from pathlib import Path

import click

from sdgbench.cli import options
from sdgbench.errors import Interrupted, UserError

STOPPED = 130


@click.command(
    "paper",
    epilog="""\b
Examples:
  sdgbench paper --dry-run
  sdgbench paper --preset smoke --output trial
The same command again runs only what is missing.""",
)
@click.option(
    "--preset",
    default="quick",
    show_default=True,
    metavar="NAME",
    help="Length and scale of the runs.",
)
@click.option(
    "--output",
    "-o",
    metavar="DIR",
    default="paper",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Write page, tables, figures and runs into this folder.",
)
@click.option(
    "--jobs", default=1, show_default=True, type=click.IntRange(min=1), help="Runs at a time."
)
@click.option("--dry-run", is_flag=True, help="Only show the commands.")
@options.data
def command(preset: str, output: Path, jobs: int, dry_run: bool, data: Path) -> int:
    """Make the tables and figures of the M-ADA paper on the embedded datasets.

    Leaves index.html and a file for each table and figure. A command that fails is named in the
    end and stops no other.
    """
    from sdgbench.paper import experiments

    runs = list(experiments.training(output, data, preset, jobs))
    items = [(item, list(item.commands(output, data))) for item in experiments.ITEMS]
    if dry_run:
        for words in [*runs, *(words for _, every in items for words in every)]:
            click.echo(f"sdgbench {' '.join(words)}")
        return 0
    failed = [problem for words in runs if (problem := _call(words))]
    for item, every in items:
        failed += [problem for words in every if (problem := _call(words))]
        item.tidy(output)
    path = experiments.write_page(output, preset, runs, failed)
    for problem in failed:
        click.echo(f"Not made: {problem}", err=True)
    click.echo(f"Wrote {path}.")
    return 1 if failed else 0


def _call(words: list[str]) -> str:
    """Call a command; returns what went wrong."""
    from sdgbench.cli.app import cli

    click.echo(f"\n$ sdgbench {' '.join(words)}")
    try:
        code = cli.main(args=words, prog_name="sdgbench", standalone_mode=False)
    except UserError as error:
        return f"sdgbench {' '.join(words)}: {error}"
    except click.UsageError as error:
        return f"sdgbench {' '.join(words)}: {error.format_message()}"
    if code == STOPPED:
        raise Interrupted("in a run")
    return f"sdgbench {' '.join(words)} ended with code {code}" if code else ""
