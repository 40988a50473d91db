"""Submit finished runs to the leaderboards: check everything, then copy."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sdgbench import storage
from sdgbench.api import submission_checks as checks
from sdgbench.api.arguments import Folder
from sdgbench.api.finished import FinishedRun
from sdgbench.api.reproduce import compare_runs
from sdgbench.api.submission_checks import Candidate
from sdgbench.errors import UserError, explain_os_errors, printable
from sdgbench.leaderboard.protocol import KnownProtocols
from sdgbench.leaderboard.runs import as_run, load
from sdgbench.records import badges
from sdgbench.records.arrays import PREDICTIONS
from sdgbench.records.badges import Person
from sdgbench.records.curve import CURVE_FILE
from sdgbench.records.folders import find_finished_run, record_files_below
from sdgbench.records.reading import encode, read
from sdgbench.records.schema import utc_now
from sdgbench.version import version

RECORDS = "leaderboards/records"
COPIED = (PREDICTIONS, CURVE_FILE, badges.RECORD_FILE)  # the record last: with it a run is whole
Tell = Callable[[str], object]


class SubmissionRefused(UserError):
    """A submission does not keep the rules; ``failures`` has one line for each that is broken.

    >>> issubclass(sdgbench.SubmissionRefused, sdgbench.UserError)
    True
    """

    def __init__(self, failures: Iterable[str]) -> None:
        lines = dict.fromkeys(" ".join(printable(line).split()) for line in failures)
        self.failures = tuple(lines)
        super().__init__("\n".join(self.failures))


@dataclass(frozen=True)
class Submitted:
    """What a submission did: the folders of runs that it wrote, and of those already there."""

    written: tuple[Path, ...]
    unchanged: tuple[Path, ...]

    def __str__(self) -> str:
        parts = [f"{len(self.written)} written", f"{len(self.unchanged)} already there"]
        return ", ".join(part for part in parts if not part.startswith("0 "))


def submit(
    runs: Folder | Iterable[Folder],
    to: Folder = RECORDS,
    *,
    name: str = "",
    contact: str = "",
    licence: str = "",
    claimed: bool = False,
    reproduction: bool = False,
    root: Folder = "runs",
    data: Folder = "data",
    tell: Tell = lambda text: None,
) -> Submitted:
    """Check finished runs by the rules of the leaderboards, and copy them if all are kept.

    ``runs`` are folders of runs, folders with runs below them, or ids of runs in ``root``. They
    must have one protocol, at least three seeds of each method and ERM for the same seeds, be made
    by a committed version of the code, and all their scores must be recomputed from predictions
    and ``data``. ``claimed=True`` submits numbers that cannot be recomputed here.
    ``reproduction=True`` submits runs of ``sdgbench.reproduce``: they are stored with the record
    that they reproduce. If anything is wrong, ``SubmissionRefused`` names all of it and nothing is
    copied.

    >>> try:
    ...     sdgbench.submit("runs", ".", name="Ada", contact="ada@example.org", licence="MIT")
    ... except sdgbench.SubmissionRefused as refused:
    ...     any("has 2 seeds (0, 1), and needs 3" in line for line in refused.failures)
    True
    """
    to, person = Path(to), Person(name=name.strip(), contact=contact.strip())
    failures = [*checks.on_person(name, contact, licence), *checks.on_folder(to)]
    given = [runs] if isinstance(runs, str | Path) else list(runs)
    candidates, problems = _read(given, Path(root))
    failures += problems
    if reproduction:
        return _submit_reproductions(candidates, to, person, licence, Path(data), failures, tell)
    existing = load([to]).runs if to.is_dir() else []
    sources, unknown = checks.sources(candidates)
    failures += checks.on_duplicates(candidates)
    failures += checks.on_training(candidates)
    failures += checks.on_protocol(candidates, existing)
    failures += checks.on_code(candidates)
    failures += unknown
    proofs: dict[str, badges.Verification | None] = {}
    for candidate in candidates:
        failures += checks.on_target(candidate, to)
        if not unknown:  # else each run would say the same
            tell(candidate.name)
            wrong, proofs[candidate.record.id] = checks.on_numbers(candidate, claimed, Path(data))
            failures += wrong
    if failures:
        raise SubmissionRefused(failures)
    written, unchanged = [], []
    for candidate in candidates:
        target = candidate.target(to)
        if _is_submitted(target, claimed):
            unchanged.append(target)
            continue
        files = sources.get(candidate.record.id, {})
        about = badges.Submission(
            id=candidate.record.id,
            submitter=person,
            licence=licence,
            submitted=utc_now(),
            sdgbench=version(),
            sources={file: storage.sha256(path) for file, path in files.items()},
        )
        _place(candidate, to, files, proofs[candidate.record.id], about)
        written.append(target)
    return Submitted(tuple(written), tuple(unchanged))


def _read(given: Sequence[Folder], root: Path) -> tuple[list[Candidate], list[str]]:
    """The runs that are meant, and what could not be read."""
    paths: dict[Path, None] = {}
    problems = []
    for which in given:
        try:
            path = Path(which)
            is_parent = path.is_dir() and not (path / badges.RECORD_FILE).is_file()
            below = record_files_below(path) if is_parent else []
            files = below or [find_finished_run(which, root) / badges.RECORD_FILE]
            paths.update(dict.fromkeys(files))
        except UserError as error:
            problems.append(str(error))
    candidates = []
    known: KnownProtocols = {}
    for path in paths:
        try:
            record = read(path)
            run = as_run(record, str(path.parent), known)
            candidates.append(Candidate(path.parent, record, run))
        except UserError as error:
            problems.append(str(error))
    if not candidates and not problems:
        problems.append("There is nothing to submit. Give the folders or the ids of finished runs.")
    return candidates, problems


def _is_submitted(target: Path, claimed: bool) -> bool:
    """Whether a run is there already, with at least the badge that it would get."""
    there = (target / badges.SUBMISSION_FILE).is_file()
    return there and (claimed or badges.badge_of(target) != "claimed")


def _place(
    candidate: Candidate,
    to: Path,
    sources: dict[str, Path],
    proof: badges.Verification | None,
    about: badges.Submission,
) -> None:
    """Put a run where it belongs, as a whole; a folder that is there gets what it lacks."""
    target = candidate.target(to)
    for path in (target, target.parent, target.parent.parent):
        storage.refuse_link(path)
    # Directly below the root no command looks for runs, so that nobody sees a half-copied one.
    folder = target if target.exists() else to / f".{candidate.record.id}.tmp"
    try:
        if folder != target:
            shutil.rmtree(folder, ignore_errors=True)  # of a submission that was killed
        copies = {name: candidate.folder / name for name in COPIED} | sources
        for name, source in copies.items():
            if source.is_file() and source.resolve() != (folder / name).resolve():
                _copy(source, folder / name)
        if proof:
            storage.write_json(folder / badges.VERIFICATION_FILE, proof)
        if not (folder / badges.SUBMISSION_FILE).is_file():  # else the first submitter stays
            storage.write_json(folder / badges.SUBMISSION_FILE, about)
        if folder != target:
            with explain_os_errors("write", target):
                target.parent.mkdir(parents=True, exist_ok=True)
                folder.rename(target)
                storage.sync_folder(target.parent)
    finally:
        if folder != target:
            shutil.rmtree(folder, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    with storage.open_regular(source) as file:
        storage.write_atomic(target, lambda copy: shutil.copyfileobj(file, copy))


# Reproductions


def _submit_reproductions(
    candidates: Sequence[Candidate],
    to: Path,
    person: Person,
    licence: str,
    data: Path,
    failures: list[str],
    tell: Tell,
) -> Submitted:
    """Store runs that were made again with the records that they reproduce."""
    _, unknown = checks.sources(candidates)
    failures = [*failures, *checks.on_duplicates(candidates), *checks.on_code(candidates), *unknown]
    results: dict[Path, badges.Reproduced] = {}
    for candidate in candidates:
        tell(candidate.name)
        target = candidate.target(to)
        if not unknown:
            failures += checks.on_numbers(candidate, False, data)[0]
        try:
            result = _reproduced(candidate, target, person, licence)
        except UserError as error:
            failures.append(str(error))
            continue
        results[target] = result
    if failures:
        raise SubmissionRefused(failures)
    written, unchanged = [], []
    for candidate in candidates:
        target = candidate.target(to)
        if badges.badge_of(target) == "reproduced":
            unchanged.append(target)
            continue
        storage.refuse_link(target)
        _copy(candidate.folder / PREDICTIONS, target / badges.REPRODUCTION_ARRAYS)
        storage.write_json(target / badges.REPRODUCTION_FILE, results[target])
        written.append(target)
    return Submitted(tuple(written), tuple(unchanged))


def _reproduced(
    candidate: Candidate, target: Path, person: Person, licence: str
) -> badges.Reproduced:
    record = target / badges.RECORD_FILE
    if not record.is_file():
        raise UserError(f"{candidate.name}: there is no run to reproduce in {target}.")
    if storage.sha256(record) == storage.sha256(candidate.folder / badges.RECORD_FILE):
        raise UserError(f"{candidate.name} is the run itself, not a reproduction of it.")
    for failure in checks.on_reproducer(badges.submission(target), person.name, person.contact):
        raise UserError(failure)
    original = FinishedRun(target, read(record))
    done = compare_runs(original, FinishedRun(candidate.folder, candidate.record))
    verdict = done.verdict
    if verdict == "differs":
        raise UserError(
            f"{candidate.name} differs from the record in {target}: see sdgbench reproduce. A "
            "reproduction is equal up to roundings."
        )
    shares = [domain.equal for domain in done.domains if domain.equal is not None]
    return badges.Reproduced(
        id=candidate.record.id,
        by=person,
        licence=licence,
        verdict=verdict,
        equal=min(shares, default=None),
        files=badges.hashes(target),
        record=encode(candidate.record),
        submitted=utc_now(),
    )
