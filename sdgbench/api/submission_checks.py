"""The rules of a submission. Each function gives what is wrong, one line per failure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sdgbench import registry, storage
from sdgbench.errors import UserError, printable, unknown
from sdgbench.leaderboard import Leaderboard, Row, leaderboards
from sdgbench.leaderboard.runs import Run
from sdgbench.records import badges
from sdgbench.records.schema import Record
from sdgbench.registry import BASELINE

FEWEST_SEEDS = 3
LICENCES = (
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC-BY-4.0",
    "CC-BY-SA-4.0",
    "CC0-1.0",
    "MIT",
)
LONGEST = 200  # characters of a name or a contact
MOST_DIFFERENCES = 5  # of one run that are listed
_CONTACT = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+|https?://[^\s/]+\.[^\s]+")


@dataclass(frozen=True)
class Candidate:
    """A finished run that somebody wants to submit."""

    folder: Path
    record: Record
    run: Run

    @property
    def name(self) -> str:
        """What a message calls it."""
        return printable(f"{self.record.spec.method}, seed {self.record.spec.seed} ({self.folder})")

    def target(self, to: Path) -> Path:
        """Where it goes."""
        spec = self.record.spec
        return to / spec.dataset / spec.method / self.record.id


def on_person(name: str, contact: str, licence: str) -> Iterator[str]:
    """Who submits it, how to reach them, and what others may do with it."""
    if not name.strip():
        yield "The name of the submitter is missing: --name 'Ada Lovelace'."
    if not contact.strip():
        yield "The contact of the submitter is missing: --contact ada@example.org (it is public)."
    elif not _CONTACT.fullmatch(contact.strip()):
        yield f'The contact "{contact}" is neither an e-mail address nor a URL.'
    for what, text in (("name", name), ("contact", contact)):
        if len(text) > LONGEST or not text.isprintable():
            yield f"The {what} must be one line of at most {LONGEST} characters."
    if not licence:
        yield f"The licence is missing: --licence CC-BY-4.0, or another of {', '.join(LICENCES)}."
    elif licence not in LICENCES:
        yield str(unknown("licence", licence, LICENCES))


def on_folder(to: Path) -> Iterator[str]:
    """The folder of the leaderboards must exist: a typing error must not make another one."""
    if not to.is_dir():
        yield (
            f"There is no folder {to}. Run this in a checkout of sdgbench, or create the folder."
        )


def on_duplicates(candidates: Sequence[Candidate]) -> Iterator[str]:
    """One run may be given once."""
    folders: dict[str, Path] = {}
    for candidate in candidates:
        first = folders.setdefault(candidate.record.id, candidate.folder)
        if first.resolve() != candidate.folder.resolve():
            yield f"{candidate.name} is the same run as {first}. Give one of them."


def on_training(candidates: Sequence[Candidate]) -> Iterator[str]:
    """Models that were trained elsewhere have no protocol of training."""
    for candidate in candidates:
        if candidate.record.elsewhere:
            yield f"{candidate.name}: it was trained elsewhere. Submit runs of sdgbench run."


def on_code(candidates: Sequence[Candidate]) -> Iterator[str]:
    """The code must be one that others can check out."""
    for candidate in candidates:
        code = candidate.record.code
        if not code.commit:
            yield (
                f"{candidate.name}: its code has no commit, because sdgbench was not run from a "
                "git checkout. Run it again from one."
            )
        elif code.dirty is not False:
            yield (
                f"{candidate.name}: its code was edited after the commit {code.commit[:7]}. "
                "Commit the changes and run it again."
            )


def on_protocol(candidates: Sequence[Candidate], existing: Sequence[Run]) -> Iterator[str]:
    """One protocol, at least three seeds of each method, and the baseline for the same seeds."""
    trained = [candidate.run for candidate in candidates if not candidate.record.elsewhere]
    boards = leaderboards(trained)
    if len(boards) > 1:
        yield (
            f"The runs have {len(boards)} protocols: {'; '.join(map(_title, boards))}. Submit them "
            "one by one."
        )
    keys = {run.protocol.key for run in trained}
    ids = {run.id for run in trained}
    every = [*trained, *(r for r in existing if r.protocol.key in keys and r.id not in ids)]
    for board in leaderboards(every):
        for row in board.rows:
            if ids.intersection(run.id for run in row.runs.values()):
                yield from _on_row(board, row)


def _title(board: Leaderboard) -> str:
    return ", ".join(filter(None, [board.dataset, board.preset, board.remark]))


def _on_row(board: Leaderboard, row: Row) -> Iterator[str]:
    command = f"sdgbench run --dataset {board.dataset} --preset {board.preset}"
    where = f"{row.name} on {_title(board)}"
    seeds = sorted(row.runs)
    if len(seeds) < FEWEST_SEEDS:
        yield (
            f"{where} has {len(seeds)} seed{'s' * (len(seeds) > 1)} "
            f"({', '.join(map(str, seeds))}), and needs {FEWEST_SEEDS}: "
            f"{command} --method {row.method} --seeds 0-{FEWEST_SEEDS - 1}"
        )
    if row.method == BASELINE and not row.tuned:
        return
    usual = [other for other in board.rows if other.method == BASELINE and not other.tuned]
    baselines = [set(other.runs) for other in usual]
    missing = min((set(seeds) - known for known in baselines or [set()]), key=len)
    if missing:
        listed = ",".join(map(str, sorted(missing)))
        yield (
            f"{where} needs {BASELINE} of the same protocol for the seeds {listed}: "
            f"{command} --method {BASELINE} --seeds {listed}"
        )


def sources(candidates: Sequence[Candidate]) -> tuple[dict[str, dict[str, Path]], list[str]]:
    """The source files of plugins by run and name of the copy, and what is wrong with them."""
    files: dict[str, dict[str, Path]] = {}
    failures: dict[str, None] = {}
    for candidate in candidates:
        spec, code = candidate.record.spec, candidate.record.code
        wanted: tuple[tuple[registry.Kind, str, str | None], ...] = (
            ("method", spec.method, code.method_file_sha256),
            ("dataset", spec.dataset, code.dataset_file_sha256),
        )
        for kind, name, sha256 in wanted:
            if kind == "method" and candidate.record.elsewhere:
                continue
            entry = registry.entries(kind).get(name)
            failure = _on_source(kind, name, sha256, entry)
            if failure:
                failures[failure] = None
            elif entry and entry.origin != "built-in":
                files.setdefault(candidate.record.id, {})[badges.SOURCE_FILES[kind]] = entry.file
    return files, list(failures)


def _on_source(
    kind: str, name: str, sha256: str | None, entry: registry.Entry | None
) -> str | None:
    """What is wrong with the file of a method or dataset; a built-in one is in the commit."""
    if entry is None:
        return f'The {kind} "{printable(name)}" is not known here. Add its file: --plugin FILE.py'
    if entry.origin == "built-in":
        return None
    if entry.defined:
        return f'The {kind} "{name}" was defined in a notebook or script. Write it to a file.'
    if entry.source_sha256 != sha256:
        return (
            f"{entry.file} is not the file that ran: its sha256 starts with "
            f"{entry.source_sha256[:8]}, and that of the records with {(sha256 or 'none')[:8]}. "
            f"Give the {kind}'s file as it was, or run again."
        )
    return None


def on_target(candidate: Candidate, to: Path) -> Iterator[str]:
    """Another record of the same run may be there already."""
    target = candidate.target(to)
    record = target / badges.RECORD_FILE
    if target.is_symlink() or (target.exists() and not record.is_file()):
        yield f"{target} is no run's folder. Move it away."
    elif record.is_file() and storage.sha256(record) != storage.sha256(
        candidate.folder / badges.RECORD_FILE
    ):
        yield (
            f"{candidate.name}: {target} has another record of this run. If you ran it again to "
            "check it: --reproduction."
        )


def on_numbers(
    candidate: Candidate, claimed: bool, data: Path
) -> tuple[list[str], badges.Verification | None]:
    """What does not come out when the scores are recomputed; if all does, the proof of it.

    With ``claimed`` only what needs neither predictions nor data is checked.
    """
    from sdgbench.evaluation.claims import contradictions
    from sdgbench.evaluation.verification import verify

    record, folder = candidate.record, candidate.folder
    proof = None
    try:
        if claimed:
            wrong = list(contradictions(record, folder))
        else:
            verdict = verify(record, folder, data)
            wrong = list(verdict.differences)
            if verdict.unchecked:
                wrong.append(
                    f"there is no data here for {', '.join(verdict.unchecked)}. Get it (sdgbench "
                    "data status), or submit numbers only: --claimed."
                )
            proof = verdict.as_file(record, folder)
    except UserError as error:
        wrong = [str(error)]
    except Exception as error:  # a record may hold anything
        wrong = [f"it cannot be verified ({type(error).__name__}: {error})."]
    lines = [f"{candidate.name}: {text}" for text in wrong[:MOST_DIFFERENCES]]
    if len(wrong) > MOST_DIFFERENCES:
        more = len(wrong) - MOST_DIFFERENCES
        lines.append(f"{candidate.name}: {more} more; see sdgbench verify {candidate.folder}")
    return lines, proof if not wrong else None


def on_reproducer(submission: badges.Submission | None, name: str, contact: str) -> Iterator[str]:
    """A reproduction is by someone else."""
    if submission is None:
        return
    same = {submission.submitter.name.casefold(), submission.submitter.contact.casefold()}
    if {name.strip().casefold(), contact.strip().casefold()} & same:
        yield (
            f"{submission.submitter.name} submitted the run {submission.id}: a reproduction is by "
            "someone else."
        )
