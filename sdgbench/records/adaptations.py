"""Few-shot adaptations of finished runs: their schema, and where they are kept.

A run's adaptations are ``adapt/<id>.json`` in its folder, one file per target, number of shots and
draw. They are not records of runs: only the few-shot view reads them.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from sdgbench import storage
from sdgbench.errors import UserError
from sdgbench.records.schema import Code, Flags, Machine, SplitContent
from sdgbench.records.scores import Count, DomainScore
from sdgbench.spec.run_spec import RunSpec

SCHEMA = 1
KIND: Literal["adaptation"] = "adaptation"
FOLDER = "adapt"
# Chosen on the shown images alone: with 10 per class, ERM of USPS and of MNIST (quick) had a loss
# of 0.002 on those of MNIST and of 0.02 on those of SVHN after 300; after 100, of 0.02 and 0.7.
ITERATIONS = 300
PROTOCOL = "Adam on all weights that predict (the paper: lr 1e-4, batch 16, iterations not stated)"


@dataclass(frozen=True)
class Asked:
    """One adaptation of one run, every setting resolved. Plain values only."""

    run: str
    target: str
    drawn_from: Literal["train", "test"]  # the split of the target that samples come from
    held_out: Count  # images per class that the test split lends and is not tested on; 0: none
    shots: Count  # labelled images per class
    draw: Count
    iterations: Count
    lr: float
    batch: Count

    @property
    def id(self) -> str:
        """A hash of all of it."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def path(self, run_folder: Path) -> Path:
        """Where its result is kept."""
        return run_folder / FOLDER / f"{self.id}.json"


class ParentRun(Struct, kw_only=True, frozen=True):
    """The finished run that was adapted."""

    id: str
    spec: RunSpec
    checkpoint: str  # sha256 of its weights
    method_file_sha256: str | None = None
    results: DomainScore | None = None  # of the run itself on this target


class Drawn(Struct, kw_only=True, frozen=True):
    """The labelled images that were learned from."""

    split: str  # of the target
    of: Annotated[int, Meta(ge=1, le=2**62)]  # images in that split
    rows: list[int] = []  # which of them
    sha256: str | None = None  # of their content


class Evaluated(Struct, kw_only=True, frozen=True):
    """The images that were tested on."""

    count: Count
    sha256: str
    whole: SplitContent  # the test split, before some were held out


class Adaptation(Struct, kw_only=True, frozen=True):
    """What one adaptation leaves."""

    schema: int = SCHEMA
    kind: Literal["adaptation"] = KIND
    id: str  # the hash of what was asked
    asked: Asked
    parent: ParentRun
    protocol: str = ""  # how it was fine-tuned, in words
    drawn: Drawn
    evaluation: Evaluated
    results: DomainScore
    fit: DomainScore | None = None  # on the images that were learned from
    flags: dict[str, Any] = {}  # what a reader must know about the target's data
    started: str = ""
    finished: str = ""
    seconds: float = 0.0
    code: Code = Code()
    packages: dict[str, str] = {}
    machine: Machine = Machine()

    @property
    def accuracy(self) -> float:
        """The accuracy on the target."""
        return self.results.score("accuracy")


def read(path: Path) -> Adaptation:
    """Read and check an adaptation."""
    raw = storage.read_json(path)
    if not isinstance(raw, dict) or raw.get("kind") != KIND:
        raise UserError(f"{path} is not an adaptation of sdgbench. Move it out of the runs folder.")
    if not isinstance(raw.get("schema"), int) or raw["schema"] > SCHEMA:
        raise UserError(
            f"{path} has schema {raw.get('schema')}, which this sdgbench does not "
            f"know ({SCHEMA}). Upgrade sdgbench to read it."
        )
    try:
        adaptation = msgspec.convert(raw, Adaptation)
        adaptation.results.score("accuracy")
        msgspec.convert(adaptation.flags, Flags)  # those that tables show must have their types
    except (msgspec.ValidationError, ValueError, TypeError, OverflowError, SystemError) as error:
        raise UserError(f"{path} is damaged. Delete it: sdgbench adapt makes it again.") from error
    return adaptation


def read_all(run_folder: Path) -> Iterator[Adaptation | UserError]:
    """All adaptations of a run, in a stable order; what cannot be read comes as its error."""
    for path in sorted((run_folder / FOLDER).glob("*.json")):
        try:
            yield read(path)
        except UserError as error:
            yield error
