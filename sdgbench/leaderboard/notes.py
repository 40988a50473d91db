"""What a reader of a table must know of its data, runs and parameters: from the runs' flags."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sdgbench import registry
from sdgbench.leaderboard.environment import describe_mixture
from sdgbench.leaderboard.grouping import MOST_NAMES, Leaderboard, Row, shorten
from sdgbench.records.schema import Tuned
from sdgbench.spec.parameters import show

MOST_REASONS = 2  # why runs of one row are unverified
DATA_FLAGS = {"unverified_data": "unverified data", "regenerated": "regenerated"}


def data_notes(board: Leaderboard, rows: Sequence[Row]) -> list[str]:
    """The notes below any table of these rows."""
    return [
        *_on_data(board, rows),
        *_on_presets(rows),
        *_on_rows(rows),
        *_on_versions(rows),
        *_on_environments(board, rows),
        *_on_duplicates(board, rows),
    ]


def _on_data(board: Leaderboard, rows: Sequence[Row]) -> list[str]:
    notes: dict[str, None] = {}
    for run in (run for row in rows for run in row.runs.values()):
        for flag, text in DATA_FLAGS.items():
            if names := getattr(run.flags, flag):
                notes[f"{text}: {shorten(names)}"] = None
        if short := run.flags.incomplete_source:
            notes[f"incomplete source: {short}"] = None
        if overlays := run.flags.frost_overlays:
            notes[f"frost overlays: {shorten(overlays)}"] = None
        for flag, value in run.flags.other.items():  # those that only the dataset knows
            shown = shorten([str(item) for item in value]) if isinstance(value, list) else value
            notes[f"{flag.replace('_', ' ')}: {shown}"] = None
    if board.protocol.missing:
        notes[f"no data for: {shorten(board.protocol.missing)}"] = None
    return list(notes)


def _on_presets(rows: Sequence[Row]) -> Iterator[str]:
    """What a preset reduces of a method; those of which it is the same share a line."""
    names: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        reduced = [
            f"{name}={show(used)} (published: {show(published)})"
            for name, (used, published) in row.reductions.items()
        ]
        if reduced:
            names[", ".join(reduced)].append(row.name)
    for reduced_to, those in names.items():
        yield f"{', '.join(those)} at this preset: {reduced_to}"


def _on_rows(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        runs = row.runs.values()
        for flag in sorted({flag for run in runs for flag in run.flags.method}):
            yield f"{row.name}: {flag}{_reason(row.method, flag)}"
        if opened := sorted({name for run in runs for name in run.flags.opened_data}):
            yield f"{row.name}: opened files of the data folder while training: {shorten(opened)}"
        if row.tuned:
            yield f"{row.name}: {_search(row.tuned)}"
        if any(run.flags.pretrained for run in runs):
            yield f"{row.name}: starts from pretrained weights"
        reasons = [f"seed {run.seed}: {run.unverified}" for run in runs if run.unverified]
        if reasons:
            yield f"{row.name}: unverified ({shorten(reasons, MOST_REASONS)})"


def _search(tuned: Tuned) -> str:
    """How a search chose a setting, and what it cost."""
    rules = {"source": "held-out source", "shifted": "held-out source under other changes"}
    cost = [
        f"{tuned.images_forward:,} images" if tuned.images_forward is not None else "",
        f"{tuned.seconds:,.0f} s" if tuned.seconds is not None else "",
    ]
    values = ", ".join(f"{key}={show(value)}" for key, value in tuned.values.items())
    return (
        f"{values}: the best of {tuned.trials} settings by {rules.get(tuned.rule, tuned.rule)} "
        f"(seeds {', '.join(map(str, tuned.seeds))}); the search cost "
        f"{' and '.join(filter(None, cost)) or 'an unknown amount'}"
    )


def _on_versions(rows: Sequence[Row]) -> Iterator[str]:
    """Methods whose rows, or the runs of one row, were made by several versions of their file."""
    files: dict[str, dict[str, dict[str, None]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        for run in row.runs.values():
            files[row.method][run.method_file][row.name] = None
    for method, versions in files.items():
        if len(versions) < 2:
            continue
        parts = [
            f"@{file[:4] or 'unknown'} ({shorten([*names])})" for file, names in versions.items()
        ]
        merged = any(
            len({run.method_file for run in row.runs.values()}) > 1
            for row in rows
            if row.method == method
        )
        how = ": a row averages over them" if merged else ""
        yield f"{method}: its file changed between runs, {' and '.join(parts)}{how}"


def _on_environments(board: Leaderboard, rows: Sequence[Row]) -> Iterator[str]:
    """In what else the runs of a table differ: the same settings may then give other numbers."""
    if board.left_out:
        yield board.left_out
    by_row = {row.name: {seed: run.environment for seed, run in row.runs.items()} for row in rows}
    if mixture := describe_mixture(by_row):
        yield f"mixed environments (--strict keeps one): {mixture}"


def _reason(method: str, flag: str) -> str:
    """Why a method has a flag, if it is installed here and says so."""
    entry = registry.entries("method").get(method)
    reason = entry.details.get("flags", {}).get(flag) if entry else None
    return f" ({reason})" if reason else ""


def _on_duplicates(board: Leaderboard, rows: Sequence[Row]) -> list[str]:
    shown = {row.name for row in rows}
    notes = [f"{name}, {text}" for name, text in board.duplicates if name in shown]
    more = len(notes) - MOST_NAMES
    return [*notes[:MOST_NAMES], *([f"{more} more duplicates"] if more > 0 else [])]
