"""Whether a record fits together, as far as that shows without data, torch or any method's file.

Tables call a run unverified where it does not; ``sdgbench verify`` checks much more.
"""

import hashlib
import os
from collections.abc import Iterator

from sdgbench.records.arrays import PREDICTIONS
from sdgbench.records.schema import Record

HASHED = (PREDICTIONS, "train.jsonl")  # files whose hash every record holds


def why_unverified(record: Record, folder: str = "") -> str:
    """Why a record cannot be verified, in a few words; empty: nothing speaks against it.

    Without a folder only the record itself is looked at.
    """
    contradiction = next(contradictions(record, folder), "")
    if contradiction:
        return contradiction.rstrip(".")
    if unhashed := missing_hashes(record):
        return f"no hash of {' and '.join(unhashed)}"
    if folder and not os.path.isfile(f"{folder}/{PREDICTIONS}"):  # noqa: PTH113 (thousands of them)
        return f"{PREDICTIONS} is missing"
    return ""


def contradictions(record: Record, folder: str = "") -> Iterator[str]:
    """What cannot be true of a record, in full sentences."""
    name = os.path.basename(os.path.abspath(folder)) if folder else record.id  # noqa: PTH100, PTH119
    if name != record.id:
        yield f"its folder is called {name}, but its id is {record.id}."
    if record.id != (expected := expected_id(record)):
        yield f"its id is {record.id}, but the specification has the id {expected}."
    yield from _on_flags(record)
    yield from _on_results(record)


def expected_id(record: Record) -> str:
    """The id that follows from the specification; of a model from elsewhere, also its weights."""
    if record.elsewhere is None:
        return record.spec.id
    return foreign_id(record.spec.id, record.elsewhere.weights_sha256)


def foreign_id(spec_id: str, weights_sha256: str) -> str:
    """The id of the record of a model that was trained elsewhere."""
    return hashlib.sha256(f"{spec_id} {weights_sha256}".encode()).hexdigest()[:12]


def missing_hashes(record: Record) -> list[str]:
    """The files whose content nothing confirms: the record holds no hash of them."""
    files = HASHED if record.elsewhere is None else HASHED[:1]  # without training no curve
    return [name for name in files if not record.files.get(name)]


def _on_flags(record: Record) -> Iterator[str]:
    spec, flags = record.spec, record.flags
    if flags.reduced_scale != (spec.recipe.get("reduced") or None):
        yield f"flags: reduced_scale is {flags.reduced_scale!r}, not what the recipe says."
    if list(flags.recipe_changed) != list(spec.recipe_changes):
        yield f"flags: recipe_changed is {flags.recipe_changed}, not {list(spec.recipe_changes)}."
    initial = spec.recipe.get("pretrained") or spec.recipe.get("weights") or record.weights
    if initial and not flags.pretrained:
        yield "flags: it started from pretrained weights, and the record does not say so."


def _on_results(record: Record) -> Iterator[str]:
    trained_here = record.elsewhere is None
    if trained_here and record.spec.recipe.get("validations") and "val" not in record.results:
        yield "val: there are no results, although held-out source was validated."
    for choice, result in record.results.items():
        if set(result.per_domain) != set(record.domains):
            yield f"{choice}: its results are not those of the domains of the record."
        if result.step > record.last.step:
            yield f"{choice}: its step {result.step} is after the last one, {record.last.step}."
    trained = sum(phase.steps for phase in record.cost.phases if phase.name == "train")
    if trained_here and record.cost.phases and record.last.step != trained:
        yield f"last: its step is {record.last.step}, but {trained} steps were trained."
