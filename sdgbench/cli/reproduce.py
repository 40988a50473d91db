"""``sdgbench reproduce``: run a record again and compare."""

from pathlib import Path

import click

from sdgbench.cli import options


@click.command(
    "reproduce",
    epilog="""\b
Examples:
  sdgbench reproduce 3f2a
  sdgbench reproduce leaderboards/records/digits-mini/erm/e081b2cdbd25/record.json
Exit code 0: bit-equal or equal up to roundings; 1: the results differ.""",
)
@click.argument("run", metavar="RECORD|ID")
@click.option(
    "--to",
    default="reproductions",
    show_default=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Runs folder of the reproduction; an earlier one of the same run is replaced.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Another number of threads than the record's.",
)
@click.option("--device", default="", metavar="NAME", help="Default: cpu if the record's was.")
@options.runs
@options.data
@options.plugins
def command(run: str, to: Path, threads: int | None, device: str, runs: Path, data: Path) -> int:
    """Run the specification of RECORD (or of the run with this ID) again, and compare.

    Threads, precision and switches are the record's. What differs in code or data is said before
    anything starts. The verdict is bit-equal (all predictions and the whole training curve), equal
    up to roundings (at least 99% of the predictions on every domain) or differs.
    """
    from sdgbench.api.reproduce import EXIT_CODES, reproduce

    done = reproduce(
        run,
        runs,
        to=to,
        threads=threads,
        device=device,
        data=data,
        tell=lambda text: click.echo(f"Before it starts: {text}", err=True),
    )
    click.echo(f"\n{done}")
    return EXIT_CODES[done.verdict]
