"""``sdgbench cancel``: cancel the Slurm jobs of runs."""

from pathlib import Path

import click

from sdgbench.cli import options


@click.command(
    "cancel",
    epilog="""\b
Examples:
  sdgbench cancel                    all queued and running jobs of ./runs
  sdgbench cancel --method mada,gud  only those of these methods
Running runs save their state first; the same run command resumes them.""",
)
@click.option(
    "--method",
    default="",
    metavar="NAMES",
    shell_complete=options.completer("method"),
    help="Only these methods, with commas.",
)
@click.option(
    "--dataset",
    default="",
    metavar="NAMES",
    shell_complete=options.completer("dataset"),
    help="Only these datasets, with commas.",
)
@options.runs
@options.plugins
def command(method: str, dataset: str, runs: Path) -> int:
    """Cancel the Slurm jobs of the runs in this folder, and no others."""
    from sdgbench import registry
    from sdgbench.errors import unknown
    from sdgbench.launch.slurm import queue
    from sdgbench.records.store import Store

    Store(runs).check()
    recorded = list(queue.recorded_jobs(runs))
    wanted: dict[registry.Kind, list[str]] = {
        "dataset": options.names(dataset, "--dataset") if dataset else [],
        "method": options.names(method, "--method") if method else [],
    }
    for depth, (kind, names) in enumerate(wanted.items()):
        known = {folder.relative_to(runs).parts[depth] for folder, _ in recorded}
        known |= set(registry.entries(kind))
        names = registry.match(names, sorted(known))
        for name in names:
            if name not in known:
                raise unknown(kind, name, known, "All: sdgbench list")
        recorded = [
            (folder, job)
            for folder, job in recorded
            if not names or folder.relative_to(runs).parts[depth] in names
        ]
    if not recorded:
        click.echo(f"Nothing of {runs} is queued on Slurm.")
        return 0
    with queue.exclusive(runs):
        active = queue.active_jobs()
        jobs = [job for _, job in recorded if job in active]
        if jobs:
            queue.cancel(jobs)
        for folder, job in recorded:
            queue.forget_job(folder, job)
    running = sum(active[job] == "RUNNING" for job in jobs)
    if jobs:
        saving = "; running ones save their state first" if running else ""
        click.echo(f"Cancelled {len(jobs) - running} queued and {running} running{saving}.")
    if ended := len(recorded) - len(jobs):
        click.echo(f"{ended} more had a job that Slurm has already ended.")
    return 0
