"""``sdgbench submit``: hand finished runs in to the leaderboards."""

from pathlib import Path

import click

from sdgbench.cli import options, text


@click.command(
    "submit",
    epilog="""\b
Examples:
  sdgbench submit runs/digits-mini --name "Ada Lovelace" --contact ada@example.org \\
      --licence CC-BY-4.0
  sdgbench submit reproductions --reproduction --name "Alan Turing" \\
      --contact https://turing.example --licence CC-BY-4.0
Then: make leaderboards, and open a pull request. The rules: docs/submitting.md""",
)
@click.argument("runs", nargs=-1, required=True, metavar="RUNS...")
@click.option(
    "--to",
    default="leaderboards/records",
    show_default=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder of the leaderboards' records.",
)
@click.option("--name", default="", metavar="TEXT", help="Your name; it is published.")
@click.option("--contact", default="", metavar="TEXT", help="E-mail or URL; it is published.")
@click.option(
    "--licence",
    "--license",
    default="",
    metavar="SPDX",
    help="Licence of the records and of the plugin's file, such as CC-BY-4.0.",
)
@click.option(
    "--claimed", is_flag=True, help="Submit numbers only: nothing is recomputed from predictions."
)
@click.option(
    "--reproduction",
    is_flag=True,
    help="RUNS are of sdgbench reproduce: store them with the records that they reproduce.",
)
@click.option(
    "--runs",
    "root",
    metavar="DIR",
    default="runs",
    envvar="SDGBENCH_RUNS",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder of the runs that are given by id (or set SDGBENCH_RUNS).",
)
@options.data
@options.plugins
def command(
    runs: tuple[str, ...],
    to: Path,
    name: str,
    contact: str,
    licence: str,
    claimed: bool,
    reproduction: bool,
    root: Path,
    data: Path,
) -> int:
    """Check RUNS (folders of runs, folders with runs below them, or ids) and copy them.

    Needed: one protocol, at least three seeds of each method and ERM for the same seeds, a
    committed version of the code, scores that can be recomputed from predictions, the file of a
    plugin (--plugin), name, contact and licence. All that is wrong is listed (exit code 2), and
    then nothing is copied. Submitting the same run again changes nothing.
    """
    from rich.console import Console
    from rich.markup import escape

    from sdgbench.api.submit import SubmissionRefused, submit

    try:
        with Console(stderr=True, highlight=False).status("Checking") as status:
            done = submit(
                runs,
                to,
                name=name,
                contact=contact,
                licence=licence,
                claimed=claimed,
                reproduction=reproduction,
                root=root,
                data=data,
                tell=lambda run: status.update(escape(f"Checking {run}")),
            )
    except SubmissionRefused as refused:
        for failure in refused.failures:
            text.echo(f"Error: {failure}", err=True)
        return 2
    click.echo(f"Submitted to {to}: {done}.")
    return 0
