"""``sdgbench export``: the weights of a finished run, to share."""

from pathlib import Path
from typing import Literal

import click

from sdgbench.cli import options


@click.command(
    "export",
    epilog="""\b
Examples:
  sdgbench export 3f2a --to my-model
  sdgbench export runs/digits-mini/mada/3f2a81c09d14 --to my-model --onnx
In Python: model = sdgbench.load_model("my-model")""",
)
@click.argument("run", metavar="RUN")
@click.option(
    "--to",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A new folder, or one that an earlier export wrote.",
)
@click.option(
    "--choice",
    type=click.Choice(["last", "val"]),
    default="last",
    show_default=True,
    help="Weights: the last iterate, or the best on held-out source.",
)
@click.option("--onnx", is_flag=True, help="Also write model.onnx (extra: sdgbench[onnx]).")
@options.runs
@options.plugins
def command(run: str, to: Path, choice: Literal["last", "val"], onnx: bool, runs: Path) -> None:
    """Write the model of RUN (its folder, or the start of its id) as files to share.

    Writes safetensors, the architecture by name, the record and a model card. The files are read
    back, and must predict the same as the run, bit for bit.
    """
    from sdgbench.api.export import export

    folder = export(run, to, choice=choice, onnx=onnx, runs=runs)
    size = sum(path.stat().st_size for path in folder.iterdir())
    click.echo(f"Wrote {folder} ({size / 1e6:.1f} MB).")
