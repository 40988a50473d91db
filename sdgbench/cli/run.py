"""``sdgbench run``: the matrix of methods, datasets and seeds."""

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sdgbench.cli import options

if TYPE_CHECKING:
    from sdgbench.launch.hands import Hands

LAUNCHERS = ("local", "slurm")


@click.command(
    "run",
    epilog="""\b
Examples:
  sdgbench run --method erm --dataset digits-mini --preset quick --seeds 0-2
  sdgbench run --method erm --dataset digits-mini,streets-mini --preset smoke
  sdgbench run --method erm --dataset digits-mini --grid recipe.lr=1e-4,1e-3
  sdgbench run --method erm,mada --dataset digits-mini --seeds 0-9 --jobs auto
  sdgbench run ... --launcher slurm --slurm partition=gpu --slurm gpus=1
  sdgbench run --method mada --dataset cifar10c --fast
The same command again runs only what is missing.""",
)
@click.option("--method", required=True, metavar="NAMES",
              shell_complete=options.completer("method"),
              help="Method, or several with commas.")  # fmt: skip
@click.option("--dataset", required=True, metavar="NAMES",
              shell_complete=options.completer("dataset"),
              help="Dataset, or several with commas.")  # fmt: skip
@click.option("--seeds", "--seed", default="0", show_default=True, metavar="LIST",
              help="Seeds, such as 0-4 or 0,3.")  # fmt: skip
@click.option("--preset", default="paper", show_default=True, metavar="NAME",
              shell_complete=lambda ctx, param, text: [
                  name for name in ("paper", "quick", "smoke") if name.startswith(text)],
              help="Length and scale: paper (exact), quick (minutes on 2 cores), "
                   "smoke (seconds, for tests).")  # fmt: skip
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE",
              help="Set a method's parameter, a dataset's option, or recipe.KEY.")  # fmt: skip
@click.option("--grid", multiple=True, metavar="KEY=A,B",
              help="Run all values of a setting; several grids multiply.")  # fmt: skip
@click.option("--targets", default="", metavar="NAMES",
              help="Evaluate only on these unseen domains.")  # fmt: skip
@click.option("--device", default="auto", show_default=True, metavar="NAME",
              help="auto, cpu, cuda, cuda:N or mps.")  # fmt: skip
@click.option("--jobs", default="1", show_default=True, metavar="N|auto",
              help="Run so many at a time, each in a process of its own; "
                   "auto: one per GPU, or per core.")  # fmt: skip
@click.option("--precision", type=click.Choice(("float32", "tf32", "bf16", "fp16")),
              help="Of the computation; float32 unless --fast. Weights are always float32. "
                   "Another precision is another run.")  # fmt: skip
@click.option("--channels-last/--no-channels-last", default=None,
              help="Keep the channels of images and filters together.")  # fmt: skip
@click.option("--compile/--no-compile", "compiled", default=None,
              help="Compile task networks; where that fails, go on without.")  # fmt: skip
@click.option("--deterministic", is_flag=True,
              help="Only deterministic algorithms; an error where there is none.")  # fmt: skip
@click.option("--fast", is_flag=True,
              help="On a GPU: bf16 (or fp16), TF32, channels last, compiled, fastest kernels. "
                   "On a CPU: channels last.")  # fmt: skip
@click.option("--checkpoint-minutes", default=5.0, show_default=True,
              type=click.FloatRange(min=0), help="Save the state of a run this often.")  # fmt: skip
@click.option("--retry", is_flag=True, help="Run failed runs again.")
@click.option("--redo", is_flag=True, help="Delete and run again what is finished, too.")
@click.option("--launcher", default="local", show_default=True, metavar="NAME",
              shell_complete=lambda ctx, param, text: [
                  name for name in LAUNCHERS if name.startswith(text)],
              help="local: on this machine. slurm: as an array job of a cluster.")  # fmt: skip
@click.option("--slurm", "slurm", multiple=True, metavar="KEY=VALUE",
              help="What a job asks for, such as partition, time, gpus, cpus, memory; also "
                   "[slurm] in sdgbench.toml.")  # fmt: skip
@click.option("--wait", is_flag=True, help="With slurm: wait for the runs and summarise them.")
@options.runs
@options.data
@options.plugins
def command(
    method: str, dataset: str, seeds: str, preset: str, sets: tuple[str, ...],
    grid: tuple[str, ...], targets: str, device: str, jobs: str, precision: str | None,
    channels_last: bool | None, compiled: bool | None, deterministic: bool, fast: bool,
    checkpoint_minutes: float, retry: bool, redo: bool, launcher: str, slurm: tuple[str, ...],
    wait: bool, runs: Path, data: Path,
) -> int:  # fmt: skip
    """Train methods on a dataset's source and test them on its unseen domains.

    Writes one record per run under the runs folder. Finished runs are skipped, interrupted ones
    go on where they stood, failed ones are shown and run again with --retry.
    """
    from sdgbench.errors import UserError, unknown
    from sdgbench.registry import get

    if launcher not in LAUNCHERS:
        raise unknown("launcher", launcher, LAUNCHERS)
    if launcher != "slurm" and (slurm or wait):
        raise UserError("--slurm and --wait need --launcher slurm.")
    methods = options.names(method, "--method")
    datasets = options.names(dataset, "--dataset")
    for name in methods:  # refuse typos before torch has loaded
        get("method", name)
    for name in datasets:
        get("dataset", name)
    seed_list = options.numbers(seeds)
    processes = options.processes(jobs)
    assignments = [options.assignment(text, "--set") for text in sets]
    axes = [
        (key, [part.strip() for part in values.split(",") if part.strip()])
        for key, values in (options.assignment(text, "--grid") for text in grid)
    ]
    if launcher == "slurm":
        from sdgbench.launch.resources import resources

        asked = resources(options.assignment(text, "--slurm") for text in slurm)
    spare: list[Hands] = []  # which load torch while this process does
    if launcher == "local" and processes and processes > 1:
        from sdgbench.launch.hands import in_advance

        asked_for = len(methods) * len(datasets) * len(seed_list)
        asked_for *= prod(len(values) for _, values in axes)
        if (useful := min(processes, asked_for)) > 1:
            spare = click.get_current_context().with_resource(in_advance(useful))
    from sdgbench import parallel
    from sdgbench.device import Execution
    from sdgbench.launch.here import run_here
    from sdgbench.launch.one import Order
    from sdgbench.spec import matrix

    only = options.names(targets, "--targets") if targets else []
    execution = Execution(precision, channels_last, compiled, deterministic, fast)
    if launcher == "slurm" and fast and not precision:
        raise UserError("What --fast is on the cluster is not known here. Add --precision.")
    if parallel.is_launched() and (processes != 1 or launcher == "slurm"):
        raise UserError("Under torchrun there is one run at a time: no --jobs, no --launcher.")
    execution = execution.settled(device)
    specs = matrix(
        methods, datasets, seed_list, preset, assignments, axes, only, str(execution.precision)
    )
    order = Order(runs, data, device, 60 * checkpoint_minutes, retry, redo, execution)
    if launcher == "slurm":
        from sdgbench.launch.slurm import run_on_slurm

        return run_on_slurm(specs, order, asked, wait)
    if processes == 1:
        return run_here(specs, order)
    from sdgbench.launch.processes import run_in_processes

    return run_in_processes(specs, order, processes, spare)
