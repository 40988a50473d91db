"""``sdgbench cancel``: take runs back from Slurm."""

from pathlib import Path

import click

from sdgbench.cli import options


@click.command(
    "cancel",
    epilog="""\b
Examples:
  sdgbench cancel                    all that is queued or running of ./runs
  sdgbench cancel --method mada,gud  only these methods'
Running runs save their state first; the same run command goes on from there.""",
)
@click.option("--method", default="", metavar="NAMES", shell_complete=options.completer("method"),
              help="Only these methods, with commas.")  # fmt: skip
@click.option("--dataset", default="", metavar="NAMES",
              shell_complete=options.completer("dataset"),
              help="Only these datasets, with commas.")  # fmt: skip
@options.runs
@options.plugins
def command(method: str, dataset: str, runs: Path) -> int:
    """Cancel the jobs of Slurm that have runs of this folder, and no others."""
    from sdgbench import registry
    from sdgbench.errors import unknown
    from sdgbench.launch import queue
    from sdgbench.record import Store

    Store(runs).check()
    marked = list(queue.marked(runs))
    wanted: dict[registry.Kind, list[str]] = {
        "dataset": options.names(dataset, "--dataset") if dataset else [],
        "method": options.names(method, "--method") if method else [],
    }
    for depth, (kind, names) in enumerate(wanted.items()):
        there = {folder.relative_to(runs).parts[depth] for folder, _ in marked}
        for name in names:
            if name not in there and name not in registry.entries(kind):
                raise unknown(kind, name, there | set(registry.entries(kind)), "All: sdgbench list")
        marked = [
            (folder, job)
            for folder, job in marked
            if not names or folder.relative_to(runs).parts[depth] in names
        ]
    if not marked:
        click.echo(f"Nothing of {runs} is queued on Slurm.")
        return 0
    with queue.exclusive(runs):
        alive = queue.living()
        jobs = [job for _, job in marked if job in alive]
        if jobs:
            queue.cancel(jobs)
        for folder, job in marked:
            queue.unmark(folder, job)
    running = sum(alive[job] == "RUNNING" for job in jobs)
    if jobs:
        saving = "; what ran saves its state first" if running else ""
        click.echo(f"Cancelled {len(jobs) - running} queued and {running} running{saving}.")
    if gone := len(marked) - len(jobs):
        click.echo(f"{gone} more {'was' if gone == 1 else 'were'} marked, but Slurm no longer "
                   "knows the jobs.")  # fmt: skip
    return 0
