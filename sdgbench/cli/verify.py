"""``sdgbench verify``: check that the numbers of records follow from their predictions."""

from pathlib import Path

import click

from sdgbench.cli import options

WORDS = {  # of a verdict: the style and the word at the start of the line
    "verified": ("green", "ok"),
    "differs": ("bold red", "DIFFERS"),
    "unverified": ("yellow", "unverified"),
}


@click.command(
    "verify",
    epilog="""\b
Examples:
  sdgbench verify                      all finished runs of ./runs
  sdgbench verify runs/digits-mini     those below a folder, or one run's folder
  sdgbench verify --badge --runs leaderboards/records
Exit code 1 when a record differs, or could not be verified in full.""",
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
    A record is unverified if nothing differs, but something could not be checked.
    """
    from sdgbench import storage
    from sdgbench.errors import UserError, printable
    from sdgbench.records.badges import VERIFICATION_FILE
    from sdgbench.records.folders import record_files_below
    from sdgbench.records.reading import label_records, read

    paths: list[Path] = []
    links: list[UserError] = []
    for folder in folders or (runs,):
        records = record_files_below(folder, links) if folder.is_dir() else []
        if not records and not links:
            raise UserError(f"There is no finished run in {folder}. Make one: sdgbench run --help")
        paths += records

    from rich.console import Console
    from rich.markup import escape

    from sdgbench.evaluation.verification import NOT_RECOMPUTED, verify

    console = Console(highlight=False)
    counts = {**dict.fromkeys(WORDS, 0), "not checked": 0}
    labels = label_records(paths)

    def tell(text: str) -> None:
        console.print(f"        {escape(printable(text))}", soft_wrap=True)

    def skip(why: str) -> None:
        counts["not checked"] += 1
        console.print(f"[yellow]not checked[/]  {escape(printable(why))}", soft_wrap=True)

    for link in links:
        skip(str(link))
    for path in dict.fromkeys(paths):
        label = labels.get(path, "")
        try:
            record = read(path)
            with console.status(escape(label)):
                verdict = verify(record, path.parent, data)
            if badge and verdict.is_complete:
                file = verdict.as_file(record, path.parent)
                storage.write_json(path.parent / VERIFICATION_FILE, file)
            elif badge and verdict.state == "differs":
                (path.parent / VERIFICATION_FILE).unlink(missing_ok=True)
        except Exception as error:  # a damaged file must not hide the others
            known = isinstance(error, UserError)
            named = f"{label}: {error}" if label else str(error)
            skip(named if known else f"{path} is damaged ({type(error).__name__}: {error})")
            continue
        counts[verdict.state] += 1
        style, word = WORDS[verdict.state]
        console.print(
            f"[{style}]{word:12}[/]{escape(label)}  {verdict.numbers} numbers", soft_wrap=True
        )
        if verdict.unchecked:
            tell(f"no data here for {', '.join(verdict.unchecked)}")
        for sentence in (*verdict.differences, *verdict.unconfirmed):
            tell(sentence)
    console.print(", ".join(f"{count} {word}" for word, count in counts.items() if count))
    console.print(f"Not recomputed: {NOT_RECOMPUTED}.", style="dim", soft_wrap=True)
    return 0 if counts["verified"] == sum(counts.values()) else 1
