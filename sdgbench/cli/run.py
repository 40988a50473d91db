"""``sdgbench run``: the matrix of methods, datasets and seeds."""

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sdgbench.cli import options
from sdgbench.cli.text import loading

if TYPE_CHECKING:
    from sdgbench.launch.worker_process import WorkerProcess

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
  sdgbench run --method mada --dataset cifar10c --fast --log tensorboard
The same command again runs only what is missing.""",
)
@click.option(
    "--method",
    required=True,
    metavar="NAMES",
    shell_complete=options.completer("method"),
    help="Method, several with commas, a pattern such as 'mada*', or all.",
)
@click.option(
    "--dataset",
    required=True,
    metavar="NAMES",
    shell_complete=options.completer("dataset"),
    help="Dataset, several with commas, a pattern, or all.",
)
@click.option(
    "--seeds",
    "--seed",
    default="0",
    show_default=True,
    metavar="LIST",
    help="Seeds, such as 0-4 or 0,3.",
)
@click.option(
    "--preset",
    default="paper",
    show_default=True,
    metavar="NAME",
    shell_complete=lambda ctx, param, text: [
        name for name in ("paper", "quick", "smoke") if name.startswith(text)
    ],
    help="Length and scale: paper (exact), quick (minutes on 2 cores), smoke (seconds, for tests).",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a method's parameter, a dataset's option, or recipe.KEY.",
)
@click.option(
    "--grid",
    multiple=True,
    metavar="KEY=A,B",
    help="Run all values of a setting; several grids multiply.",
)
@click.option(
    "--targets", default="", metavar="NAMES", help="Evaluate only on these unseen domains."
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="auto, cpu, cuda, cuda:N or mps.",
)
@click.option(
    "--jobs",
    default="1",
    show_default=True,
    metavar="N|auto",
    help="Number of runs at a time, each in its own process; auto: one per core, or up to "
    "four per GPU if their steps are small.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads of a run on a CPU: 1, or OMP_NUM_THREADS. Use --jobs for more cores: another "
    "number of threads rounds differently, so scores differ.",
)
@click.option(
    "--precision",
    type=click.Choice(("float32", "tf32", "bf16", "fp16")),
    help="Precision of the computation; float32 unless --fast. Weights are always float32. "
    "Another precision is another run.",
)
@click.option(
    "--channels-last/--no-channels-last",
    default=None,
    help="Keep the channels of images and filters together.",
)
@click.option(
    "--compile/--no-compile",
    "compiled",
    default=None,
    help="Compile task networks; if that fails, continue without.",
)
@click.option(
    "--cuda-graphs",
    is_flag=True,
    help="Replay the steps of a phase from a CUDA graph, where that is possible; never tried on "
    "a real GPU.",
)
@click.option(
    "--deterministic",
    is_flag=True,
    help="Use only deterministic algorithms; an operation that has none is an error.",
)
@click.option(
    "--fast",
    is_flag=True,
    help="On a GPU: bf16 (or fp16), TF32, channels last, compiled, fastest kernels. "
    "On a CPU: channels last.",
)
@click.option(
    "--checkpoint-minutes",
    default=5.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Save the state of a run this often.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MINUTES",
    help="End a run that takes longer, as failed; its checkpoint stays. Runs get processes of "
    "their own.",
)
@click.option(
    "--download",
    is_flag=True,
    help="Download missing data without asking. On a terminal it is offered.",
)
@click.option(
    "--log",
    default="",
    metavar="NAME",
    shell_complete=lambda ctx, param, text: [
        name for name in ("tensorboard",) if name.startswith(text)
    ],
    help="tensorboard: also write the curve of each run as event files into its folder.",
)
@click.option("--retry", is_flag=True, help="Run failed runs again.")
@click.option("--redo", is_flag=True, help="Delete finished runs and run them again.")
@click.option(
    "--launcher",
    default="local",
    show_default=True,
    metavar="NAME",
    shell_complete=lambda ctx, param, text: [name for name in LAUNCHERS if name.startswith(text)],
    help="local: on this machine. slurm: as an array job of a cluster.",
)
@click.option(
    "--slurm",
    "slurm",
    multiple=True,
    metavar="KEY=VALUE",
    help="Resources of a job, such as partition, time, gpus, cpus, memory; also "
    "[slurm] in sdgbench.toml.",
)
@click.option("--wait", is_flag=True, help="With slurm: wait for the runs and summarise them.")
@click.option(
    "--leaderboards/--no-leaderboards",
    default=True,
    show_default=True,
    help="At the end, write the tables and the page of all runs to RUNS/leaderboards.",
)
@options.runs
@options.data
@options.plugins
def command(
    method: str,
    dataset: str,
    seeds: str,
    preset: str,
    sets: tuple[str, ...],
    grid: tuple[str, ...],
    targets: str,
    device: str,
    jobs: str,
    threads: int | None,
    precision: str | None,
    channels_last: bool | None,
    compiled: bool | None,
    cuda_graphs: bool,
    deterministic: bool,
    fast: bool,
    checkpoint_minutes: float,
    timeout: float | None,
    download: bool,
    log: str,
    retry: bool,
    redo: bool,
    launcher: str,
    slurm: tuple[str, ...],
    wait: bool,
    leaderboards: bool,
    runs: Path,
    data: Path,
) -> int:
    """Train methods on a dataset's source and test them on its unseen domains.

    Writes one record per run to the runs folder. Finished runs are skipped, interrupted ones
    resume from their checkpoint, failed ones are shown and run again with --retry.
    """
    from sdgbench.api.run import execute
    from sdgbench.errors import UserError, unknown
    from sdgbench.training.event_log import check_log

    check_log(log)
    if launcher not in LAUNCHERS:
        raise unknown("launcher", launcher, LAUNCHERS)
    if launcher != "slurm" and (slurm or wait):
        raise UserError("--slurm and --wait need --launcher slurm.")
    methods = options.registered("method", method, "--method")  # typos: before torch is imported
    datasets = options.registered("dataset", dataset, "--dataset")
    seed_list = options.numbers(seeds)
    processes = options.processes(jobs)
    assignments = [options.assignment(text, "--set") for text in sets]
    axes = [
        (key, [part.strip() for part in values.split(",") if part.strip()])
        for key, values in (options.assignment(text, "--grid") for text in grid)
    ]
    if launcher == "slurm":
        from sdgbench.launch.slurm.resources import resources

        job_resources = resources(options.assignment(text, "--slurm") for text in slurm)
        if threads and threads > job_resources.cpus:
            raise UserError(f"--threads {threads} needs as many CPUs: --slurm cpus={threads}.")
    prestarted: list[WorkerProcess] = []  # they load torch while this process does
    if launcher == "local" and processes and processes > 1:
        from sdgbench.launch.worker_process import prestart

        run_count = len(methods) * len(datasets) * len(seed_list)
        run_count *= prod(len(values) for _, values in axes)
        if (useful := min(processes, run_count)) > 1:
            prestarted = click.get_current_context().with_resource(prestart(useful))
    from rich.console import Console

    with loading():
        from sdgbench.launch.attempt import RunOptions
        from sdgbench.launch.summary import conclude
        from sdgbench.spec.resolution import matrix
        from sdgbench.training import distributed
        from sdgbench.training.device import Execution

    only = options.names(targets, "--targets") if targets else []
    execution = Execution(
        precision, channels_last, compiled, deterministic, fast, threads, cuda_graphs
    )
    if launcher == "slurm" and fast and not precision:
        raise UserError(
            "Which precision --fast uses on the cluster is not known here. Add --precision."
        )
    if distributed.is_launched() and (processes != 1 or launcher == "slurm"):
        raise UserError("Under torchrun there is one run at a time. Omit --jobs and --launcher.")
    execution = execution.resolved(device)
    specs = matrix(
        methods, datasets, seed_list, preset, assignments, axes, only, str(execution.precision)
    )
    if timeout and (launcher == "slurm" or distributed.is_launched()):
        raise UserError("--timeout is for this machine alone. With Slurm: --slurm time=H:MM:SS.")
    run_options = RunOptions(
        runs,
        data,
        device,
        60 * checkpoint_minutes,
        retry,
        redo,
        timeout_seconds=60 * timeout if timeout else None,
        execution=execution,
        log=log,
    )
    # Of several processes that share the runs (torchrun), the first one prints.
    console = Console(highlight=False, quiet=not distributed.prints())
    if not distributed.is_launched():
        from sdgbench.cli.fetch import fetch_missing

        fetch_missing(specs, runs, data, download, console)
    if launcher == "slurm":
        from sdgbench.launch.slurm.submission import run_on_slurm

        return run_on_slurm(specs, run_options, job_resources, wait)
    results = execute(specs, run_options, processes, console, prestarted)
    code = conclude(results, console, runs)
    if leaderboards and not console.quiet and any(r.outcome == "done" for r in results):
        from sdgbench.api.leaderboards import try_to_refresh

        click.echo(try_to_refresh(runs), err=True)
    return code
