"""Whether what a record states about itself fits together: its id, domains, flags, results, curve.

Nothing here needs the data. Who changes a record consistently in every place, files and hashes
included, is not found: there is no signature.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sdgbench import registry, storage
from sdgbench.recipe import SEARCHABLE
from sdgbench.records.schema import Record
from sdgbench.spec import parameters

HASHED = ("predictions.npz", "train.jsonl")  # files whose hash every record holds


def contradictions(record: Record, folder: Path) -> Iterator[str]:
    """What cannot be true of a record, in full sentences."""
    spec = record.spec
    if folder.resolve().name != record.id:
        yield f"its folder is called {folder.resolve().name}, but its id is {record.id}."
    yield from _on_domains(record)
    if record.elsewhere is not None:
        return  # it was not trained here: its id is that of the weights, and it has no curve
    if record.id != spec.id:
        yield f"its id is {record.id}, but the specification has the id {spec.id}."
    yield from _on_recipe(record)
    yield from _on_search(record)
    yield from _on_flags(record)
    yield from _on_results(record)
    yield from _on_curve(record, folder)


def missing_hashes(record: Record) -> list[str]:
    """The files whose content nothing confirms: the record holds no hash of them."""
    files = HASHED if record.elsewhere is None else HASHED[:1]  # without training no curve
    return [name for name in files if not record.files.get(name)]


def _on_domains(record: Record) -> Iterator[str]:
    spec = record.spec
    tags = spec.dataset_class.target_tags(spec.build_options())
    asked = [name for name in tags if not spec.targets or name in spec.targets]
    stated = {*record.domains, *record.missing_domains}
    for name in asked:
        if name not in stated:
            yield f"the domain {name} is missing without a word."
    for name in stated.difference(asked):
        yield f"the domain {name} is none of the run's."
    for name in set(record.domains).intersection(record.missing_domains):
        yield f"the domain {name} was evaluated and is called missing."


def _on_recipe(record: Record) -> Iterator[str]:
    spec = record.spec
    preset: dict[str, Any] = parameters.as_plain(spec.dataset_class.recipe(spec.preset))
    for key, value in spec.recipe.items():
        if key in preset and key != "reduced" and key not in spec.recipe_changes:
            plain = list(value) if isinstance(value, tuple) else value
            if plain != preset[key]:
                yield f"recipe.{key} is {value}, but the preset {spec.preset} has {preset[key]}."
    if preset["reduced"] and not spec.recipe["reduced"]:
        yield f"the preset {spec.preset} is at reduced scale, and the record does not say so."


def _on_search(record: Record) -> Iterator[str]:
    """What a search chose is what was run, on a seed that it did not use."""
    spec, tuned = record.spec, record.tuned
    if spec.tuned != (tuned.search if tuned else ""):
        yield f"tuned: the specification names the search {spec.tuned or 'none'}."
    if tuned is None:
        return
    if spec.seed in tuned.seeds:
        yield f"tuned: the search used the seed {spec.seed}, too."
    preset = parameters.as_plain(spec.dataset_class.recipe(spec.preset))
    for key, value in tuned.recipe.items():
        if key not in SEARCHABLE or value != preset[key]:
            yield f"tuned: recipe.{key} was not {value} before the search."
    used = {**spec.params, **{f"recipe.{key}": value for key, value in spec.recipe.items()}}
    for key, value in tuned.values.items():
        if used.get(key) != value:
            yield f"tuned: the search chose {key}={value}, and {used.get(key)} was used."


def _on_flags(record: Record) -> Iterator[str]:
    spec, flags = record.spec, record.flags
    if flags.reduced_scale != (spec.recipe["reduced"] or None):
        yield f"flags: reduced_scale is {flags.reduced_scale!r}, not what the recipe says."
    if list(flags.recipe_changed) != list(spec.recipe_changes):
        yield f"flags: recipe_changed is {flags.recipe_changed}, not {list(spec.recipe_changes)}."
    if spec.recipe.get("pretrained") and not flags.pretrained:
        yield "flags: it started from pretrained weights, and the record does not say so."
    entry = registry.get("method", spec.method)
    if record.code.method_file_sha256 != entry.source_sha256:
        return  # what follows depends on the method's file, which has changed since
    if flags.params_changed is not None and flags.params_changed != spec.changed_parameters():
        yield f"flags: params_changed is {flags.params_changed}, not {spec.changed_parameters()}."
    needed = {flag for flag in spec.method_class.flags if flag != "corruption_overlap"}
    for flag in sorted(needed.difference(flags.method)):
        yield f"flags: the method declares {flag}, and the record does not."


def _on_results(record: Record) -> Iterator[str]:
    if record.spec.recipe.get("validations") and "val" not in record.results:
        yield "val: there are no results, although held-out source was validated."
    for choice, result in record.results.items():
        if set(result.per_domain) != set(record.domains):
            yield f"{choice}: its results are not those of the domains of the record."
        if result.step > record.last.step:
            yield f"{choice}: its step {result.step} is after the last one, {record.last.step}."
    trained = sum(phase.steps for phase in record.cost.phases if phase.name == "train")
    if record.cost.phases and record.last.step != trained:
        yield f"last: its step is {record.last.step}, but {trained} steps were trained."


def _on_curve(record: Record, folder: Path) -> Iterator[str]:
    """Source validation is on the curve, too."""
    path = folder / "train.jsonl"
    if not path.is_file():
        return  # named among the files
    try:
        points = [json.loads(line) for line in storage.read_bytes(path).splitlines()]
        checks = [point for point in points if point["name"] == "validation"]
        scores = [float(point["score"]) for point in checks]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        yield f"train.jsonl is damaged ({type(error).__name__})."
        return
    for choice, expected in (("last", scores[-1:]), ("val", [max(scores)] if scores else [])):
        result = record.results.get(choice)  # type: ignore[call-overload]
        if result and expected and result.source_val != expected[0]:
            yield f"{choice}: source_val is {result.source_val}, on the curve it is {expected[0]}."
