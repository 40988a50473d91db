"""``sdgbench tune``: search for a setting on the source, test the chosen one on fresh seeds."""

from pathlib import Path

import click

from sdgbench.cli import options
from sdgbench.records.searches import RULES
from sdgbench.spec.search import FORMS
from sdgbench.spec.shifts import FAMILIES

_FAMILIES = "\n".join(f"    {name:<10} {family.doc}" for name, family in FAMILIES.items())


@click.command(
    "tune",
    epilog=f"""\b
Rules:
  source   held-out source
  shifted  the mean over held-out source under each of these families of changes:
{_FAMILIES}

A family that the method, the recipe's augmentation or the targets use is excluded. None is one of
the 19 corruptions; where corruptions are tested, shading, occlusion, stripes and wave are excluded,
too.

\b
Examples:
  sdgbench tune --method gud --dataset digits-mini --preset quick --trials 20 --seeds 0-2
  sdgbench tune --method mada --dataset digits-mini --search beta=log:100:10000
  sdgbench tune --method erm --dataset cifar10c --seeds 100 --fresh-seeds 0-4
The same command again goes on where it was stopped.""",
)
@click.option(
    "--method",
    required=True,
    metavar="NAME",
    shell_complete=options.completer("method"),
    help="The method whose setting is searched.",
)
@click.option(
    "--dataset",
    required=True,
    metavar="NAME",
    shell_complete=options.completer("dataset"),
    help="The dataset; its targets stay closed until the choice is made.",
)
@click.option(
    "--trials",
    default=20,
    show_default=True,
    type=int,
    help="Settings to try; the first is the default one.",
)
@click.option(
    "--seeds",
    default="0-2",
    show_default=True,
    metavar="LIST",
    help="Seeds of each trial; its score is the mean over them.",
)
@click.option(
    "--fresh-seeds",
    metavar="LIST",
    help="Seeds of the final runs, none of the trials'. Default: as many as --seeds, after them.",
)
@click.option(
    "--rule",
    default="source",
    show_default=True,
    type=click.Choice(list(RULES)),
    help="What trials are chosen by, see below.",
)
@click.option(
    "--search",
    "ranges",
    multiple=True,
    metavar="KEY=RANGE",
    help=f"Range of a setting instead of the declared one (sdgbench info METHOD): {FORMS}.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Fix a setting, which is then not searched, such as recipe.lr.",
)
@click.option(
    "--search-seed", default=0, show_default=True, help="Seed that settings are drawn with."
)
@click.option("--preset", default="paper", show_default=True, metavar="NAME", help="As for run.")
@click.option("--targets", default="", metavar="NAMES", help="Test only on these unseen domains.")
@click.option(
    "--default/--no-default",
    default=True,
    show_default=True,
    help="Also run the default setting on the fresh seeds, for comparison.",
)
@click.option(
    "--oracle",
    is_flag=True,
    help="Also evaluate all trials on the targets and say by how much the best would have been "
    "better (regret). This is no result.",
)
@click.option("--jobs", default="1", show_default=True, metavar="N|auto", help="As for run.")
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="As for run.")
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="As for run.")
@click.option(
    "--precision", type=click.Choice(("float32", "tf32", "bf16", "fp16")), help="As for run."
)
@click.option("--retry", is_flag=True, help="Run failed trials and runs again.")
@click.option(
    "--searches",
    default="searches",
    show_default=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder of the trials and of the search's record; tables do not read it.",
)
@options.runs
@options.data
@options.plugins
def command(
    method: str,
    dataset: str,
    trials: int,
    seeds: str,
    fresh_seeds: str | None,
    rule: str,
    ranges: tuple[str, ...],
    sets: tuple[str, ...],
    search_seed: int,
    preset: str,
    targets: str,
    default: bool,
    oracle: bool,
    jobs: str,
    device: str,
    threads: int | None,
    precision: str | None,
    retry: bool,
    searches: Path,
    runs: Path,
    data: Path,
) -> int:
    """Search for a method's setting at random, choose by held-out source, test on fresh seeds.

    No trial opens a target. Only the chosen setting is tested on the targets, and the default one
    next to it; both are records in the runs folder, the chosen one marked as tuned.
    """
    from sdgbench.api.run import RunsFailed
    from sdgbench.api.tune import tune

    try:
        tuning = tune(
            method,
            dataset,
            trials=trials,
            seeds=options.numbers(seeds),
            fresh_seeds=(
                options.numbers(fresh_seeds, how="--fresh-seeds 3-5") if fresh_seeds else None
            ),
            rule=rule,
            space=dict(options.assignment(text, "--search") for text in ranges),
            params=dict(options.assignment(text, "--set") for text in sets),
            search_seed=search_seed,
            preset=preset,
            targets=targets,
            default=default,
            oracle=oracle,
            jobs=jobs,
            device=device,
            threads=threads,
            precision=precision,
            runs=runs,
            data=data,
            searches=searches,
            retry=retry,
        )
    except RunsFailed as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    click.echo(f"{tuning.records.compare()}\n{tuning.records.compare('cost')}\n{tuning}")
    click.echo(f"Wrote {tuning.path}. All tables: sdgbench compare --runs {runs}", err=True)
    return 0
