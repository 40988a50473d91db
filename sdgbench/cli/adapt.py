"""``sdgbench adapt``: few-shot adaptation of finished runs."""

from functools import partial
from pathlib import Path

import click

from sdgbench.adapt.results import ITERATIONS
from sdgbench.cli import options
from sdgbench.errors import UserError


@click.command(
    "adapt",
    epilog="""\b
Examples:
  sdgbench adapt --method erm --dataset digits-mini --preset quick --target street
  sdgbench adapt --method erm,mada --dataset digits --set source=usps --target mnist --seeds 0-4
  sdgbench adapt --run 3f2a --target svhn --shots 0,7,10 --draws 10
  sdgbench compare --view few-shot
The same command again does only what is missing.""",
)
@click.option("--method", default="", metavar="NAMES", shell_complete=options.completer("method"),
              help="Method of the runs, or several with commas.")  # fmt: skip
@click.option("--dataset", default="", metavar="NAMES", shell_complete=options.completer("dataset"),
              help="Dataset of the runs, or several with commas.")  # fmt: skip
@click.option("--seeds", "--seed", default="0", show_default=True, metavar="LIST",
              help="Seeds of the runs, such as 0-4 or 0,3.")  # fmt: skip
@click.option("--preset", default="paper", show_default=True, metavar="NAME",
              help="Preset of the runs.")  # fmt: skip
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE",
              help="What was set in the runs, such as source=usps.")  # fmt: skip
@click.option("--run", "ids", default="", metavar="IDS",
              help="Runs by the start of their ids instead.")  # fmt: skip
@click.option("--target", "--targets", "targets", required=True, metavar="NAMES",
              help="Unseen domain to adapt to, or several with commas.")  # fmt: skip
@click.option("--shots", default="0,7,10", show_default=True, metavar="LIST",
              help="Labelled images per class; 0: the untouched network.")  # fmt: skip
@click.option("--draws", default=5, show_default=True, type=click.IntRange(min=1),
              help="How often images are drawn.")  # fmt: skip
@click.option("--iterations", default=ITERATIONS, show_default=True, type=click.IntRange(min=1),
              help="Steps of fine-tuning. The paper does not state how many; with the default, "
                   "networks fit the images that they are shown.")  # fmt: skip
@click.option("--lr", default=1e-4, show_default=True, type=click.FloatRange(min=0),
              help="Learning rate of Adam.")  # fmt: skip
@click.option("--batch", default=16, show_default=True, type=click.IntRange(min=1),
              help="Images per step.")  # fmt: skip
@click.option("--device", default="auto", show_default=True, metavar="NAME",
              help="auto, cpu, cuda, cuda:N or mps.")  # fmt: skip
@options.runs
@options.data
@options.plugins
def command(
    method: str, dataset: str, seeds: str, preset: str, sets: tuple[str, ...], ids: str,
    targets: str, shots: str, draws: int, iterations: int, lr: float, batch: int, device: str,
    runs: Path, data: Path,
) -> int:  # fmt: skip
    """Fine-tune finished runs on a few labelled images of a target, and test them on it.

    The images are drawn from the target's training split. A target that has none lends images of
    its test split, which are then held out of the evaluation. All methods of a seed get the same
    images. The runs themselves and the leaderboards stay as they are.
    """
    from sdgbench.registry import get

    wanted = options.names(targets, "--target")
    shot_list = options.numbers(shots, "number of shots", "--shots 0, 0,7 or 0-4")
    seed_list = options.numbers(seeds)
    assignments = [options.assignment(text, "--set") for text in sets]
    starts = options.names(ids, "--run") if ids else []
    if starts and (method or dataset):
        raise UserError("Choose runs by --run, or by --method and --dataset, not by both.")
    if not starts and not (method and dataset):
        raise UserError("Say which runs: --method and --dataset, or --run with their ids. What "
                        "there is: sdgbench compare")  # fmt: skip
    methods = options.names(method, "--method") if method else []
    datasets = options.names(dataset, "--dataset") if dataset else []
    for name in methods:  # refuse typos before torch has loaded
        get("method", name)
    for name in datasets:
        get("dataset", name)

    from sdgbench.adapt import parents
    from sdgbench.adapt.loop import Order, adapt_all
    from sdgbench.device import Device
    from sdgbench.record import Store
    from sdgbench.spec import matrix

    store = Store(runs)
    specs = matrix(methods, datasets, seed_list, preset, assignments) if methods else []
    finders = [partial(parents.by_id, store, wanted, start) for start in starts]
    finders += [partial(parents.by_spec, store, data, wanted, spec) for spec in specs]
    order = Order(wanted, shot_list, draws, iterations, lr, batch, runs, data)
    return adapt_all(finders, order, Device(device))
