"""How far a record is confirmed: three small files next to it, and the badge that follows.

``submission.json`` says who submitted the run, ``verification.json`` that its scores were
recomputed from its predictions, ``reproduction.json`` that somebody else ran it again, with the
record of that run. The last two hold the hashes of the files that they are about, and count only
while these are unchanged. There is no signature: who can write all files of a folder can write any
badge.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import Struct

from sdgbench import storage
from sdgbench.records.arrays import PREDICTIONS
from sdgbench.records.scores import Count, Fraction

T = TypeVar("T")
SUBMISSION_FILE = "submission.json"
VERIFICATION_FILE = "verification.json"
REPRODUCTION_FILE = "reproduction.json"
REPRODUCTION_ARRAYS = "reproduction.npz"  # the predictions of the reproduction
SOURCE_FILES = {"method": "method.py", "dataset": "dataset.py"}  # of plugins, next to the record
RECORD_FILE = "record.json"

Badge = Literal["reproduced", "verified", "claimed"]
MEANINGS: dict[Badge, str] = {  # the strongest first
    "reproduced": "run again by someone else, with equal predictions up to roundings",
    "verified": "every score on unseen domains was recomputed from the stored predictions",
    "claimed": "the numbers of the record, not recomputed",
}


class Person(Struct, kw_only=True, frozen=True):
    """Somebody who can be asked."""

    name: str
    contact: str  # an e-mail address or a URL; it is public


class Submission(Struct, kw_only=True, frozen=True):
    """Who submitted a run: the content of ``submission.json``."""

    schema: int = 1
    id: str  # of the run
    submitter: Person
    licence: str  # of the record, the predictions and the plugin's file; an SPDX identifier
    submitted: str  # UTC, ISO 8601
    sdgbench: str = ""  # the version that checked it
    sources: dict[str, str] = {}  # sha256 of the plugin's files


class Verification(Struct, kw_only=True, frozen=True):
    """That all scores of a record were recomputed: the content of ``verification.json``."""

    schema: int = 1
    id: str
    numbers: Count  # that were recomputed
    files: dict[str, str]  # sha256 of the record and of its predictions
    sdgbench: str = ""  # the version that recomputed them


class Reproduced(Struct, kw_only=True, frozen=True):
    """That somebody else ran it again: the content of ``reproduction.json``."""

    schema: int = 1
    id: str
    by: Person
    licence: str
    verdict: Literal["bit-equal", "equal up to roundings"]
    equal: Fraction | None = None  # lowest share of equal predictions; None: none to compare with
    files: dict[str, str]  # sha256 of the record that was reproduced
    record: dict[str, Any]  # the whole record of the reproduction
    submitted: str = ""


def badge_of(folder: Path | str) -> Badge | None:
    """The badge of a run's folder; None: it was never submitted, verified or reproduced."""
    if not any(
        os.path.lexists(f"{folder}/{name}")  # thousands of folders have none
        for name in (SUBMISSION_FILE, VERIFICATION_FILE, REPRODUCTION_FILE)
    ):
        return None
    path = Path(folder)
    submission(path)  # damaged: better said here than on the page
    reproduced = reproduction(path)
    if reproduced and _unchanged(path, reproduced.files):
        return "reproduced"
    verified = _read(path / VERIFICATION_FILE, Verification)
    return "verified" if verified and _unchanged(path, verified.files) else "claimed"


def explain(badge: str) -> str:
    """A badge with its meaning."""
    return next(f"{name}: {text}" for name, text in MEANINGS.items() if name == badge)


def weakest(badges: Iterable[Badge | None]) -> Badge | None:
    """The badge of several runs together; None: none of them has one."""
    every = list(badges)
    if not any(every):
        return None
    order = list(MEANINGS)
    return max((badge or "claimed" for badge in every), key=order.index)


def submission(folder: Path) -> Submission | None:
    """Who submitted a run; None: nobody."""
    return _read(folder / SUBMISSION_FILE, Submission)


def reproduction(folder: Path) -> Reproduced | None:
    """Who ran it again; None: nobody."""
    return _read(folder / REPRODUCTION_FILE, Reproduced)


def describe(folder: Path) -> dict[str, Any]:
    """The badge and the people behind it, for readers; empty: there is no badge."""
    badge = badge_of(folder)
    if badge is None:
        return {}
    about: dict[str, Any] = {"badge": explain(badge)}
    if submitted := submission(folder):
        about["submitter"] = submitted.submitter.name
        about["contact"] = submitted.submitter.contact
        about["licence"] = submitted.licence
        about["submitted"] = submitted.submitted
    if badge == "reproduced" and (again := reproduction(folder)):
        about["reproduced by"] = again.by.name
        about["their contact"] = again.by.contact
        about["verdict"] = again.verdict
    return about


def hashes(folder: Path, names: Iterable[str] = (RECORD_FILE, PREDICTIONS)) -> dict[str, str]:
    """The sha256 of those of these files that exist."""
    return {name: storage.sha256(folder / name) for name in names if (folder / name).is_file()}


def _unchanged(folder: Path, files: dict[str, str]) -> bool:
    return RECORD_FILE in files and hashes(folder, files) == files


def _read(path: Path, kind: type[T]) -> T | None:
    return storage.read_struct(path, kind) if os.path.lexists(path) else None
