"""``sdgbench watch``: a page that shows runs while they are under way."""

from pathlib import Path

import click

from sdgbench.cli import options, text


@click.command(
    "watch",
    epilog="""\b
Examples:
  sdgbench watch                         then open http://127.0.0.1:8421/
  sdgbench watch --runs /shared/runs --port 9000 --no-open
  ssh -L 8421:localhost:8421 MACHINE     to see the page of another machine""",
)
@click.option(
    "--port",
    default=8421,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of this machine; 0: any that is free.",
)
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the page in a browser; by default where there is a screen.",
)
@options.runs
@options.plugins
def command(port: int, opens: bool | None, runs: Path) -> None:
    """Show runs on a page while they are under way: progress, live curves, finished tables.

    The page updates by itself. It is served to this machine only (127.0.0.1), and nothing is
    written to the runs folder.
    """
    from sdgbench.paper.style import COLOUR_ORDER
    from sdgbench.paper.views import VIEWS
    from sdgbench.watch.folder import RunsFolder
    from sdgbench.watch.server import has_screen, serve

    folder = RunsFolder(runs, VIEWS, COLOUR_ORDER)
    serve(folder, port, text.echo, has_screen() if opens is None else opens)
