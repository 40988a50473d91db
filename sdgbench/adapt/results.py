"""What an adaptation leaves, and where it is kept. No torch is needed to read it.

A run's adaptations are ``adapt/<id>.json`` in its folder, one file per target, number of shots and
draw. They are no records of runs: no leaderboard reads them but the few-shot view.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sdgbench import storage
from sdgbench.errors import UserError

SCHEMA = 1
KIND = "adaptation"
FOLDER = "adapt"
# Chosen on the shown images alone: with 10 per class, ERM of USPS and of MNIST (quick) had a loss
# of 0.002 on those of MNIST and of 0.02 on those of SVHN after so many; after 100, of 0.02 and 0.7.
ITERATIONS = 300
PROTOCOL = "Adam on all weights that predict (the paper: lr 1e-4, batch 16, iterations not stated)"
Result = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One adaptation of one run, every setting resolved. Plain values only."""

    run: str
    target: str
    drawn_from: Literal["train", "test"]  # the split of the target that samples come from
    held_out: int  # images per class that the test split lends and is not tested on; 0: none
    shots: int  # labelled images per class
    draw: int
    iterations: int
    lr: float
    batch: int

    @property
    def id(self) -> str:
        """A hash of all of it."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def path(self, run_folder: Path) -> Path:
        """Where its result is kept."""
        return run_folder / FOLDER / f"{self.id}.json"


def read(path: Path) -> Result:
    """Read and check a result."""
    found = storage.read_json(path)
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise UserError(f"{path} is not an adaptation of sdgbench. Move it out of the runs folder.")
    if not isinstance(found.get("schema"), int) or found["schema"] > SCHEMA:
        raise UserError(f"{path} has schema {found.get('schema')}, which this sdgbench does not "
                        f"know ({SCHEMA}). Upgrade sdgbench to read it.")  # fmt: skip
    try:
        Asked(**found["asked"])
        score = found["results"]["accuracy"]
        whole = 0 <= score <= 1 and found["evaluation"]["whole"]["sha256"] and found["drawn"]["of"]
    except (KeyError, TypeError):
        whole = False
    if not whole:
        raise UserError(f"{path} is damaged. Delete it: sdgbench adapt makes it again.")
    return found


def read_all(run_folder: Path) -> Iterator[Result | UserError]:
    """All adaptations of a run, in a stable order; what cannot be read comes as its error."""
    for path in sorted((run_folder / FOLDER).glob("*.json")):
        try:
            yield read(path)
        except UserError as error:
            yield error
