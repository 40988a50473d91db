"""``sdgbench verify``: do the numbers of a record follow from its predictions?"""

from pathlib import Path

import click

from sdgbench.cli import options


@click.command(
    "verify",
    epilog="""\b
Examples:
  sdgbench verify                      all finished runs of ./runs
  sdgbench verify runs/digits-mini     those below a folder, or one run's folder
Exit code 1 when a number differs.""",
)
@click.argument("places", nargs=-1, type=click.Path(path_type=Path), metavar="[FOLDER]...")
@options.runs
@options.data
@options.plugins
def command(places: tuple[Path, ...], runs: Path, data: Path) -> int:
    """Recompute every score of finished runs from their stored predictions and the data.

    Data are compared by the hash of their content, and each number that differs is named.
    """
    from sdgbench import record
    from sdgbench.errors import UserError

    paths: list[Path] = []
    for place in places or (runs,):
        found = sorted(place.rglob("record.json")) if place.is_dir() else []
        if not found:
            raise UserError(f"There is no finished run in {place}. Make one: sdgbench run --help")
        paths += found

    from rich.console import Console
    from rich.markup import escape

    from sdgbench.verify import NOT_RECOMPUTED, verify

    console = Console(highlight=False)
    counts = {"verified": 0, "differ": 0, "could not be read or checked": 0}
    for path in dict.fromkeys(paths):
        try:
            one = record.read(path)
            label = record.label(one["spec"])
            with console.status(escape(label)):
                verdict = verify(one, path.parent, data)
        except UserError as error:
            counts["could not be read or checked"] += 1
            console.print(f"[yellow]not checked[/]  {escape(str(error))}", soft_wrap=True)
            continue
        counts["verified" if verdict.ok else "differ"] += 1
        style, word = ("green", "ok") if verdict.ok else ("bold red", "DIFFERS")
        missing = f"; no data here for {', '.join(verdict.unchecked)}" if verdict.unchecked else ""
        console.print(
            f"[{style}]{word:8}[/]{escape(label)}  {verdict.numbers} numbers{escape(missing)}",
            soft_wrap=True,
        )
        for difference in verdict.differences:
            console.print(f"        {escape(difference)}", soft_wrap=True)
    console.print(", ".join(f"{count} {what}" for what, count in counts.items() if count))
    console.print(f"Not recomputed: {NOT_RECOMPUTED}.", style="dim", soft_wrap=True)
    return 0 if counts["verified"] == len(set(paths)) else 1
