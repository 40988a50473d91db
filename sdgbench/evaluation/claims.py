"""Whether what a record states fits its dataset, its method and the files in its folder.

Nothing here opens the data. Who changes a record consistently in every place, files and hashes
included, is not found: there is no signature.
"""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch

from sdgbench import registry, storage
from sdgbench.errors import UserError
from sdgbench.recipe import SEARCHABLE
from sdgbench.records import consistency
from sdgbench.records.schema import Flags, Record
from sdgbench.spec import parameters
from sdgbench.training import checkpoint

CHECKPOINT = "checkpoint.pt"
OVERLAP = "corruption_overlap"  # a flag that matters only where corruptions are tested


def contradictions(record: Record, folder: Path) -> Iterator[str]:
    """What cannot be true of a record, in full sentences."""
    yield from consistency.contradictions(record, str(folder.resolve()))
    yield from _on_domains(record)
    yield from _on_dataset(record)
    if record.elsewhere is not None:
        return  # it was not trained here: it has no curve, no checkpoint, no parameters
    yield from _on_recipe(record)
    yield from _on_search(record)
    if not _method_has_changed(record):
        yield from _on_method(record)
    yield from _on_curve(record, folder)
    yield from _on_checkpoint(record, folder)


def unconfirmed(record: Record) -> Iterator[str]:
    """What may be true of a record, but nothing here confirms it, in full sentences."""
    for name in consistency.missing_hashes(record):
        yield f"there is no hash of {name}."
    if record.elsewhere is not None:
        return
    for split, content in (("train", record.source.train), ("val", record.source.val)):
        if not content.sha256:
            yield f"there is no hash of the source ({split})."
    if record.flags.params_changed is None:
        yield "flags: which parameters were set by hand was not recorded."
    if _method_has_changed(record):
        for text in _on_method(record):
            yield f"the method's file is another one here: {text}"


def hidden_flags(flags: Flags, of_data: dict[str, Any]) -> Iterator[str]:
    """What the data here would have to be marked with, and the record is not."""
    stated = {**flags.other, **msgspec.structs.asdict(flags)}
    for name, value in of_data.items():
        missing = value
        if isinstance(value, list) and isinstance(stated.get(name), list):
            missing = [item for item in value if item not in stated[name]]
        elif stated.get(name) == value:
            missing = None
        if missing:
            yield f"flags: the data here are marked {name}: {missing}, the record is not."


def domains_of_predictions(record: Record, keys: Collection[str]) -> Iterator[str]:
    """Domains that were predicted, and that the record does not have."""
    predicted = {key.partition("/")[2] for key in keys}
    for name in sorted(predicted.difference(record.domains)):
        yield f"the domain {name} was evaluated, and the record leaves it out."


def _method_has_changed(record: Record) -> bool:
    entry = registry.get("method", record.spec.method)
    return record.code.method_file_sha256 != entry.source_sha256


def _on_domains(record: Record) -> Iterator[str]:
    spec = record.spec
    tags = spec.dataset_class.target_tags(spec.build_options())
    asked = [name for name in tags if not spec.targets or name in spec.targets]
    stated = {*record.domains, *record.missing_domains}
    for name in asked:
        if name not in stated:
            yield f"the domain {name} is missing without a word."
    for name in sorted(stated.difference(asked)):
        yield f"the domain {name} is none of the run's."
    for name in sorted(set(record.domains).intersection(record.missing_domains)):
        yield f"the domain {name} was evaluated and is called missing."
    for name, content in record.domains.items():
        if name in tags and content.tags != tags[name]:
            yield f"domain {name}: its tags are {content.tags}, not {tags[name]}."


def _on_dataset(record: Record) -> Iterator[str]:
    spec, options = record.spec, record.spec.build_options()
    task = spec.dataset_class.task_for(options)
    if record.metric != task.metric:
        yield f"its metric is {record.metric}, that of {spec.dataset} is {task.metric}."
    if record.classes and list(record.classes) != list(task.class_names):
        yield f"its classes are not those of {spec.dataset}."
    usual = parameters.as_plain(parameters.build(spec.dataset_class.Options, {}))
    changed = [key for key, value in spec.options.items() if value != usual.get(key)]
    if set(changed) != set(spec.option_changes):
        yield f"the options {changed} were changed, but it names {list(spec.option_changes)}."
    name = spec.dataset_class.source_name(options)
    if record.elsewhere is None and record.source.name != name:
        yield f"source: its name is {record.source.name!r}, not {name!r}."


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


def _on_method(record: Record) -> Iterator[str]:
    """What depends on the method's file: its defaults and the flags that it declares."""
    spec, flags = record.spec, record.flags
    try:
        changed, reduced = spec.changed_parameters(), spec.reduced_parameters()
    except (KeyError, UserError) as error:
        yield f"its parameters are not those of {spec.method} ({error})."
        return
    if flags.params_changed is not None and flags.params_changed != changed:
        yield f"flags: params_changed is {flags.params_changed}, not {changed}."
    if msgspec.to_builtins(flags.reduced_parameters) != msgspec.to_builtins(reduced):
        yield f"flags: reduced_parameters is {flags.reduced_parameters}, not {reduced}."
    tags = spec.dataset_class.target_tags(spec.build_options()).values()
    corrupted = any(tag.get("corruption") for tag in tags)
    needed = {flag for flag in spec.method_class.flags if corrupted or flag != OVERLAP}
    for flag in sorted(needed.difference(flags.method)):
        yield f"flags: the method declares {flag}, and the record does not."


def _on_curve(record: Record, folder: Path) -> Iterator[str]:
    """Source validation and the number of steps are on the curve, too."""
    path = folder / "train.jsonl"
    if not path.is_file():
        return  # named among the files
    try:
        points = [json.loads(line) for line in storage.read_bytes(path).splitlines()]
        checks = [point for point in points if point["name"] == "validation"]
        scores = [(float(point["score"]), int(point["train_step"])) for point in checks]
        steps = [int(point["step"]) for point in points if point["name"] == "train"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        yield f"train.jsonl is damaged ({type(error).__name__})."
        return
    if steps and max(steps) > record.last.step:
        yield f"last: its step is {record.last.step}, on the curve there are {max(steps)}."
    best = [max(scores)] if scores else []  # of equal ones the latest
    for choice, expected in (("last", scores[-1:]), ("val", best)):
        result = record.results.get(choice)  # type: ignore[call-overload]
        if result is None or not expected:
            continue
        score, step = expected[0]
        if result.source_val != score:
            yield f"{choice}: source_val is {result.source_val}, on the curve it is {score}."
        if result.step != step:
            yield f"{choice}: its step is {result.step}, on the curve it is {step}."


def _on_checkpoint(record: Record, folder: Path) -> Iterator[str]:
    """The weights name the run that they belong to."""
    path = folder / CHECKPOINT
    if not path.exists():
        return  # published records leave it out
    try:
        owner = checkpoint.load(path, torch.device("cpu")).get("run")
    except UserError as error:
        yield str(error)
        return
    if owner != record.id:
        yield f"{CHECKPOINT} belongs to the run {owner!r}."
