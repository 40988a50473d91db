"""``sdgbench verify``: check that the numbers of records follow from their predictions."""

from pathlib import Path

import click

from sdgbench.cli import options


@click.command(
    "verify",
    epilog="""\b
Examples:
  sdgbench verify                      all finished runs of ./runs
  sdgbench verify runs/digits-mini     those below a folder, or one run's folder
  sdgbench verify --badge --runs leaderboards/records
Exit code 1 when a number differs.""",
)
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path), metavar="[FOLDER]...")
@click.option(
    "--badge",
    is_flag=True,
    help="Write verification.json next to each record whose scores were all recomputed.",
)
@options.runs
@options.data
@options.plugins
def command(folders: tuple[Path, ...], badge: bool, runs: Path, data: Path) -> int:
    """Recompute every score of finished runs from their stored predictions and the data.

    The data is compared by the hash of its content, and each number that differs is listed.
    """
    from sdgbench import storage
    from sdgbench.errors import UserError, printable
    from sdgbench.records.badges import VERIFICATION_FILE
    from sdgbench.records.folders import record_files_below
    from sdgbench.records.reading import label_records, read

    paths: list[Path] = []
    for folder in folders or (runs,):
        records = record_files_below(folder) if folder.is_dir() else []
        if not records:
            raise UserError(f"There is no finished run in {folder}. Make one: sdgbench run --help")
        paths += records

    from rich.console import Console
    from rich.markup import escape

    from sdgbench.evaluation.verification import NOT_RECOMPUTED, verify

    console = Console(highlight=False)
    counts = {"verified": 0, "differ": 0, "could not be read or checked": 0}
    labels = label_records(paths)
    for path in dict.fromkeys(paths):
        try:
            record = read(path)
            label = labels[path]
            with console.status(escape(label)):
                verdict = verify(record, path.parent, data)
            if badge and verdict.is_complete:
                file = verdict.as_file(record, path.parent)
                storage.write_json(path.parent / VERIFICATION_FILE, file)
            elif badge and not verdict.ok:
                (path.parent / VERIFICATION_FILE).unlink(missing_ok=True)
        except Exception as error:  # a damaged file must not hide the others
            known = isinstance(error, UserError)
            why = str(error) if known else f"{path} is damaged ({type(error).__name__}: {error})"
            counts["could not be read or checked"] += 1
            why = escape(printable(why))
            console.print(f"[yellow]not checked[/]  {why}", soft_wrap=True)
            continue
        counts["verified" if verdict.ok else "differ"] += 1
        style, word = ("green", "ok") if verdict.ok else ("bold red", "DIFFERS")
        missing = f"; no data here for {', '.join(verdict.unchecked)}" if verdict.unchecked else ""
        console.print(
            f"[{style}]{word:8}[/]{escape(label)}  {verdict.numbers} numbers{escape(missing)}",
            soft_wrap=True,
        )
        for difference in verdict.differences:
            console.print(f"        {escape(printable(difference))}", soft_wrap=True)
        if verdict.unhashed:
            names = ", ".join(verdict.unhashed)
            console.print(f"        unverified: no hash of {names}", soft_wrap=True)
    console.print(", ".join(f"{count} {word}" for word, count in counts.items() if count))
    console.print(f"Not recomputed: {NOT_RECOMPUTED}.", style="dim", soft_wrap=True)
    return 0 if counts["verified"] == len(set(paths)) else 1
