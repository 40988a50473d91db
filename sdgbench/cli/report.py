"""``sdgbench report``: all results as one HTML page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdgbench.cli import options

if TYPE_CHECKING:
    from sdgbench.leaderboard import Board

EXAMPLES = """\b
Examples:
  sdgbench report
  sdgbench report --runs runs --runs /mnt/other/runs --output results.html
  sdgbench report --dataset cifar10c --preset paper --no-samples
"""


@click.command("report", epilog=EXAMPLES)
@click.option("--dataset", "--datasets", default="", metavar="NAMES", help="Only these datasets.")
@click.option("--methods", "--method", default="", metavar="NAMES", help="Only these methods.")
@click.option("--preset", default="", metavar="NAMES", help="Only these presets.")
@click.option("--output", metavar="FILE", default="report.html", show_default=True,
              type=click.Path(path_type=Path), help="Write to this file.")  # fmt: skip
@click.option("--samples/--no-samples", "with_samples", default=True, show_default=True,
              help="Show sample images; they need the data.")  # fmt: skip
@click.option("--runs", metavar="DIR", multiple=True, default=("runs",), envvar="SDGBENCH_RUNS",
              show_default=True, type=click.Path(path_type=Path),
              help="Folder of runs; may be given several times (or set SDGBENCH_RUNS).",
)  # fmt: skip
@options.data
@options.plugins
def command(
    dataset: str, methods: str, preset: str, output: Path, with_samples: bool,
    runs: tuple[Path, ...], data: Path,
) -> None:  # fmt: skip
    """Write tables, figures and sample images as one HTML file that needs no network.

    Each number leads to the settings of the records behind it.
    """
    from sdgbench.report import page

    found = options.gathered(runs, dataset, preset, methods)

    def collect(board: "Board") -> dict[str, Any]:
        if not with_samples:
            return {"missing": "This page was made without sample images (--no-samples)."}
        from sdgbench.report import samples

        shown = samples.collect(board, data)
        if shown.get("missing"):
            click.echo(f"No samples for {board.title}: {shown['missing']}", err=True)
        return shown

    size = page.write(output, page.render(found.boards, collect, len(found.problems)))
    click.echo(f"Wrote {output} ({size / 1e6:.2f} MB).")
