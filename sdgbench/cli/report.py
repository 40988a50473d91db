"""``sdgbench report``: all results as one HTML page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sdgbench.cli import options

if TYPE_CHECKING:
    from sdgbench.leaderboard import Leaderboard

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
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    default="report.html",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Write to this file.",
)
@click.option(
    "--samples/--no-samples",
    "with_samples",
    default=True,
    show_default=True,
    help="Show sample images; they need the data.",
)
@options.grouping
@options.several_runs
@options.data
@options.plugins
def command(
    dataset: str,
    methods: str,
    preset: str,
    output: Path,
    with_samples: bool,
    merge_versions: bool,
    strict: bool,
    without: str,
    runs: tuple[Path, ...],
    data: Path,
) -> int:
    """Write tables, figures and sample images as one HTML file that needs no network.

    Each number leads to the settings of the records behind it.
    """
    from sdgbench.paper.comparison import paper_tables
    from sdgbench.paper.style import COLOUR_ORDER, SHOWN_FIRST
    from sdgbench.paper.views import VIEWS
    from sdgbench.report import page

    wanted = options.names_or_all(methods, "--methods")
    selection = options.select(
        runs, dataset, preset, merge_versions=merge_versions, strict=strict, without=without
    )
    boards = selection.of(wanted)

    def collect(board: "Leaderboard") -> dict[str, Any]:
        if not with_samples:
            return {}
        from sdgbench.report import samples

        shown = samples.collect(board, data, SHOWN_FIRST)
        if shown.get("missing"):
            click.echo(f"No samples for {board.title}: {shown['missing']}", err=True)
        return shown

    text = page.render(boards, collect, selection.skipped, paper_tables, VIEWS, COLOUR_ORDER)
    size = page.write(output, text)
    click.echo(f"Wrote {output} ({size / 1e6:.2f} MB).")
    return selection.exit_code
