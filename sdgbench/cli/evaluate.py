"""``sdgbench evaluate``: score a model that was trained elsewhere."""

from pathlib import Path

import click

from sdgbench.cli import options
from sdgbench.errors import UserError


@click.command(
    "evaluate",
    epilog="""\b
Examples:
  sdgbench evaluate --model my_wrn.py:build --weights wrn.pt --dataset cifar10c --name "My WRN"
  sdgbench evaluate --model timm:resnet18 --weights r18.safetensors --dataset pacs --name R18
  sdgbench evaluate --model net.py:Net --weights net.pt --dataset digits --name Net \\
      --mean 0.5,0.5,0.5 --std 0.5,0.5,0.5
The function may take the number of classes as "classes" or "num_classes".""",
)
@click.option(
    "--model",
    required=True,
    metavar="FILE.py:FUNCTION|NAME",
    help="A function that returns a torch module, or a network by its name, such as timm:resnet18.",
)
@click.option(
    "--weights",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Weights to fill the model with: a state_dict as .pt, or .safetensors.",
)
@click.option(
    "--dataset",
    required=True,
    metavar="NAME",
    shell_complete=options.completer("dataset"),
    help="The dataset whose unseen domains to score on.",
)
@click.option("--name", required=True, metavar="TEXT", help="What tables call the model.")
@click.option(
    "--preset",
    default="paper",
    show_default=True,
    metavar="NAME",
    help="How many test images and of which size: those of this preset.",
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Which training of the model it is, where there are several.",
)
@click.option("--mean", metavar="R,G,B", help="The model takes images minus this mean, ...")
@click.option("--std", metavar="R,G,B", help="... divided by this standard deviation.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="An option of the dataset.")
@click.option("--targets", default="", metavar="NAMES", help="Score only on these unseen domains.")
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="As for run.")
@options.runs
@options.data
@options.plugins
def command(
    model: str,
    weights: Path | None,
    dataset: str,
    name: str,
    preset: str,
    seed: int,
    mean: str | None,
    std: str | None,
    sets: tuple[str, ...],
    targets: str,
    device: str,
    runs: Path,
    data: Path,
) -> None:
    """Score a model on unseen domains without training it here.

    The model takes pixels in [0, 1] (or normalised ones, with --mean and --std) and gives logits.
    Its record says that it was trained elsewhere: tables show it in a block of its own, never
    ranked with runs that were trained here.
    """
    from sdgbench.api.evaluate import evaluate

    scored = evaluate(
        model,
        dataset,
        name=name,
        weights=weights,
        mean=_colours(mean, "--mean"),
        std=_colours(std, "--std"),
        preset=preset,
        seed=seed,
        options=dict(options.assignment(text, "--set") for text in sets),
        targets=targets,
        device=device,
        runs=runs,
        data=data,
    )
    click.echo(str(scored.compare()))
    click.echo(f"Wrote {scored.folders[0]}. All tables: sdgbench compare --runs {runs}", err=True)


def _colours(text: str | None, option: str) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f'"{text}" is not of the form {option} 0.5,0.5,0.5.') from None
