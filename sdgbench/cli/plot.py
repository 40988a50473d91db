"""``sdgbench plot``: the figures as files for a paper."""

import re
from pathlib import Path

import click

from sdgbench.cli import options
from sdgbench.cli.options import names
from sdgbench.errors import UserError, unknown

NARROWEST, WIDEST = 1.5, 20.0  # inches
COLUMN_WIDTHS = {"one-column": "3.25in", "two-columns": "6.75in"}
EXAMPLES = """\b
Examples:
  sdgbench plot
  sdgbench plot bars scatter --format pdf --width one-column --no-title
  sdgbench plot severity --dataset cifar10c --preset paper --output figures
  sdgbench plot sweep tsne --dataset digits-mini --methods mada,gud
  sdgbench plot gallery --dataset streets-mini --domains city/dawn,town/night
"""


def _inches(text: str) -> float:
    text = COLUMN_WIDTHS.get(text.strip(), text)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(in|cm|mm)?", text.strip())
    if not match:
        raise UserError(f'"{text}" is not a width. Write --width one-column, two-columns or 17cm.')
    width = float(match[1]) / {"in": 1.0, "cm": 2.54, "mm": 25.4}[match[2] or "in"]
    if not NARROWEST <= width <= WIDEST:
        raise UserError(f"A figure {text} wide cannot be drawn: take 1.5in to 20in.")
    return width


@click.command("plot", epilog=EXAMPLES)
@click.argument("figures", nargs=-1, metavar="[FIGURE]...")
@click.option("--dataset", "--datasets", default="", metavar="NAMES", help="Only these datasets.")
@click.option("--methods", "--method", default="", metavar="NAMES", help="Only these methods.")
@click.option("--preset", default="", metavar="NAMES", help="Only these presets.")
@click.option(
    "--format",
    "formats",
    default="svg,pdf,png",
    show_default=True,
    metavar="KINDS",
    help="Kinds of files.",
)
@click.option(
    "--width",
    default="two-columns",
    show_default=True,
    help="Width: one-column (3.25in) or two-columns (6.75in) of a paper, or a length.",
)
@click.option(
    "--title/--no-title",
    "titled",
    default=True,
    show_default=True,
    help="Write dataset, preset and scale above the figure; without, say it in the caption.",
)
@click.option(
    "--domains", default="", metavar="NAMES", help="Unseen domains that the gallery shows."
)
@click.option(
    "--output",
    "-o",
    metavar="DIR",
    default="figures",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Write into this folder.",
)
@options.grouping
@options.several_runs
@options.data
@options.plugins
def command(
    figures: tuple[str, ...],
    dataset: str,
    methods: str,
    preset: str,
    formats: str,
    width: str,
    titled: bool,
    domains: str,
    output: Path,
    merge_versions: bool,
    strict: bool,
    without: str,
    runs: tuple[Path, ...],
    data: Path,
) -> int:
    """Draw figures as files: bars, heatmap, severity, scatter, curves, sweep, meta; else all these.

    sweep: the score against each parameter that runs differ in; meta: gains by meta-learning.
    Only when named: tsne (source, augmented and target samples in the embedding) and gallery
    (segmentation, image by image). Each file is named <dataset>-<preset>-<figure>; a figure says
    if its runs are at reduced scale.
    """
    from sdgbench.paper import figures as paper_figures
    from sdgbench.paper.style import COLOUR_ORDER
    from sdgbench.report import figures as drawing

    wanted = list(dict.fromkeys(name for text in figures for name in names(text, "FIGURE")))
    for name in wanted:
        if name not in paper_figures.FIGURES:
            raise unknown("figure", name, paper_figures.FIGURES)
    shown = names(domains, "--domains") if domains else []
    paper_figures.check_domains(shown, wanted)
    kinds = names(formats, "--format")
    for kind in kinds:
        if kind not in drawing.FORMATS:
            raise unknown("format", kind, drawing.FORMATS)
    inches = _inches(width)
    selected = options.names_or_all(methods, "--methods")
    selection = options.select(
        runs, dataset, preset, merge_versions=merge_versions, strict=strict, without=without
    )
    written, impossible = drawing.write(
        selection.of(selected),
        wanted or paper_figures.USUAL,
        output,
        kinds,
        inches,
        data,
        shown,
        paper_figures.FIGURES,
        COLOUR_ORDER,
        titled,
    )
    needs = paper_figures.NEEDS
    reasons = [
        f"{figure}, which needs {needs[name]}" if (name := figure.split()[0]) in needs else figure
        for figure in impossible
    ]
    for reason in reasons if wanted and written else ():
        click.echo(f"The records do not allow {reason}.", err=True)
    if not written:
        raise UserError(f"Nothing was drawn: the records do not allow {'; '.join(reasons)}.")
    for path in written:
        click.echo(path)
    return selection.exit_code
