"""Which leaderboards a command is about: the one path from folders of runs to them."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from sdgbench import registry
from sdgbench.errors import UserError, unknown
from sdgbench.leaderboard.grouping import Leaderboard, leaderboards
from sdgbench.leaderboard.runs import CHOICES, Loaded, Run, load
from sdgbench.registry import FIRST_RUN

PRETRAINED = "pretrained"
MOST_SKIPPED = 20  # lines about records that cannot be read


def read(
    folders: Sequence[Path], choices: Collection[str] = CHOICES, classes: bool = True
) -> Loaded:
    """Read all records of these folders; an error if there are none."""
    loaded = load(folders, choices, classes)
    if not loaded.runs and loaded.problems:
        more = len(loaded.problems) - 1
        raise UserError(f"{loaded.problems[0]}" + (f" {more} more cannot be read." if more else ""))
    if not loaded.runs:
        where = " ".join(map(str, folders))
        raise UserError(f"No finished runs match in {where}. Make one: {FIRST_RUN}")
    return loaded


def remarks(loaded: Loaded) -> Iterator[str]:
    """One line for each record that was skipped, up to a limit, and for each empty folder."""
    yield from skipped(loaded.problems)
    more = len(loaded.problems) - MOST_SKIPPED
    if more > 0:
        yield f"Skipped: {more} more records."
    for folder in loaded.empty:
        yield f"There are no finished runs in {folder}."


def skipped(problems: Sequence[UserError]) -> list[str]:
    """One line for each of the first files that could not be read."""
    return [f"Skipped: {problem}" for problem in problems[:MOST_SKIPPED]]


def select(
    runs: Sequence[Run],
    datasets: Sequence[str] = (),
    presets: Sequence[str] = (),
    merge_versions: bool = False,
    strict: bool = False,
) -> list[Leaderboard]:
    """The leaderboards of these datasets and presets (empty: all), as ``leaderboards`` groups."""
    kept = _keep(_keep(runs, "dataset", datasets), "preset", presets)
    return leaderboards(kept, merge_versions, strict)


def without_flags(runs: Sequence[Run], flags: Sequence[str]) -> Sequence[Run]:
    """The runs that have none of these flags of their method; ``pretrained`` is one, too."""
    known = {PRETRAINED} | {flag for run in runs for flag in run.flags.method}
    for entry in registry.entries("method").values():
        known |= set(entry.details.get("flags", {}))
    for flag in flags:
        if flag not in known:
            raise unknown("flag", flag, known)
    kept = [run for run in runs if not set(flags) & _flags(run)]
    if not kept:
        raise UserError(f"All runs have the flag {' or '.join(flags)}. Omit --without.")
    return kept


def _flags(run: Run) -> set[str]:
    return {*run.flags.method, *([PRETRAINED] if run.flags.pretrained else [])}


def _keep(runs: Sequence[Run], what: str, names: Sequence[str]) -> Sequence[Run]:
    known = {getattr(run.protocol, what) for run in runs}
    names = registry.match(names, sorted(known))
    for name in names:
        if name not in known:
            raise unknown(f"finished run with the {what}", name, known)
    return [run for run in runs if not names or getattr(run.protocol, what) in names]


def matching_methods(boards: Sequence[Leaderboard], names: Sequence[str]) -> list[str]:
    """The methods or rows that names and patterns such as ``mada*`` stand for."""
    rows = [row for board in boards for row in board.rows]
    return registry.match(
        names, dict.fromkeys([row.method for row in rows]) | {r.name: None for r in rows}
    )


def with_methods(boards: Sequence[Leaderboard], methods: Sequence[str]) -> list[Leaderboard]:
    """The leaderboards that have any of these methods, with all their rows; empty: all."""
    check_names(boards, methods, "method")
    return [board for board in boards if board.rows_of(methods)]


def check_names(boards: Sequence[Leaderboard], names: Sequence[str], role: str) -> None:
    """Refuse names that no row has, by method or in full; ``role``: what they were given as."""
    rows = [row for board in boards for row in board.rows]
    known = {name for row in rows for name in (row.method, row.name)}
    for name in names:
        if name not in known:
            raise unknown(f"finished run of the {role}", name, {row.method for row in rows})
