"""``sdgbench plot``: the figures as files for a paper."""

import re
from pathlib import Path

import click

from sdgbench.cli import options
from sdgbench.cli.options import names
from sdgbench.errors import UserError, unknown

NARROWEST, WIDEST = 1.5, 20.0  # inches
EXAMPLES = """\b
Examples:
  sdgbench plot
  sdgbench plot bars scatter --format pdf --width 3.25in
  sdgbench plot severity --dataset cifar10c --preset paper --output figures
  sdgbench plot sweep tsne --dataset digits-mini --methods mada,gud
  sdgbench plot gallery --dataset streets-mini --domains city/dawn,town/night
"""


def _inches(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(in|cm|mm)?", text.strip())
    if not found:
        raise UserError(f'"{text}" is not a width. Write --width 3.25in, 6.75in or 17cm.')
    width = float(found[1]) / {"in": 1.0, "cm": 2.54, "mm": 25.4}[found[2] or "in"]
    if not NARROWEST <= width <= WIDEST:
        raise UserError(f"A figure {text} wide cannot be drawn: take 1.5in to 20in.")
    return width


@click.command("plot", epilog=EXAMPLES)
@click.argument("figures", nargs=-1, metavar="[FIGURE]...")
@click.option("--dataset", "--datasets", default="", metavar="NAMES", help="Only these datasets.")
@click.option("--methods", "--method", default="", metavar="NAMES", help="Only these methods.")
@click.option("--preset", default="", metavar="NAMES", help="Only these presets.")
@click.option("--format", "formats", default="svg,pdf,png", show_default=True, metavar="KINDS",
              help="Kinds of files.")  # fmt: skip
@click.option("--width", default="6.75in", show_default=True,
              help="Width: 3.25in for one column of a paper, 6.75in for two.")  # fmt: skip
@click.option("--domains", default="", metavar="NAMES",
              help="Unseen domains that the gallery shows.")  # fmt: skip
@click.option("--output", metavar="DIR", default="figures", show_default=True,
              type=click.Path(path_type=Path), help="Write into this folder.")  # fmt: skip
@click.option("--runs", metavar="DIR", multiple=True, default=("runs",), envvar="SDGBENCH_RUNS",
              show_default=True, type=click.Path(path_type=Path),
              help="Folder of runs; may be given several times (or set SDGBENCH_RUNS).",
)  # fmt: skip
@options.data
@options.plugins
def command(
    figures: tuple[str, ...], dataset: str, methods: str, preset: str, formats: str, width: str,
    domains: str, output: Path, runs: tuple[Path, ...], data: Path,
) -> None:  # fmt: skip
    """Draw figures as files: bars, heatmap, severity, scatter, curves, sweep, meta; else all these.

    sweep: the score against each parameter that runs differ in; meta: gains by meta-learning.
    Only when named: tsne (source, augmented and target samples in the embedding) and gallery
    (segmentation, image by image). Each file is named <dataset>-<preset>-<figure>; a figure says
    if its runs are at reduced scale.
    """
    from sdgbench.report import experiments
    from sdgbench.report import figures as drawing

    wanted = list(dict.fromkeys(name for text in figures for name in names(text, "FIGURE")))
    for name in wanted:
        if name not in experiments.FIGURES:
            raise unknown("figure", name, experiments.FIGURES)
    shown = names(domains, "--domains") if domains else []
    experiments.check_domains(shown, wanted)
    kinds = names(formats, "--format")
    for kind in kinds:
        if kind not in drawing.FORMATS:
            raise unknown("format", kind, drawing.FORMATS)
    inches = _inches(width)
    found = options.gathered(runs, dataset, preset, methods)
    written, impossible = drawing.write(
        found.boards, wanted or experiments.USUAL, output, kinds, inches, data, shown,
        experiments.FIGURES,
    )  # fmt: skip
    for lacking in impossible if wanted else ():
        click.echo(f"The records do not allow {lacking}.", err=True)
    if not written:
        raise UserError(f"Nothing was drawn: the records do not allow {'; '.join(impossible)}.")
    for path in written:
        click.echo(path)
