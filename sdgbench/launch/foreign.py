"""Score a model that was trained elsewhere on a dataset's unseen domains, and record that."""

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from torch import nn

from sdgbench import registry, storage
from sdgbench.dataset import Dataset
from sdgbench.errors import UserError
from sdgbench.evaluation import efficiency
from sdgbench.evaluation.evaluator import Weights, evaluate, summarise
from sdgbench.launch.build_record import data_flags, machine_of
from sdgbench.records import arrays, provenance
from sdgbench.records.consistency import foreign_id
from sdgbench.records.reading import encode
from sdgbench.records.schema import Choice, Cost, Elsewhere, Record, utc_now
from sdgbench.reporter import Reporter
from sdgbench.spec import parameters
from sdgbench.spec.run_spec import RunSpec
from sdgbench.training import checkpoint
from sdgbench.training.device import Device
from sdgbench.training.foreign_model import as_method, weights_sha256

LONGEST_NAME = 80


def check_name(name: str) -> str:
    """Refuse a name that a table could not tell from others; returns the folder for it."""
    if not name.strip() or not name.isprintable() or "," in name or len(name) > LONGEST_NAME:
        raise UserError(
            f'"{name}" cannot be the name of a model: use up to {LONGEST_NAME} printable '
            "characters without commas."
        )
    if name in registry.entries("method"):
        raise UserError(
            f'"{name}" is a method of sdgbench, and this model was not trained by it here. '
            "Give it another --name."
        )
    folder = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")
    return folder or hashlib.sha256(name.encode()).hexdigest()[:12]


def specification(
    name: str,
    dataset: type[Dataset],
    preset: str,
    options: Mapping[str, Any],
    targets: Sequence[str],
    seed: int,
) -> RunSpec:
    """What is asked; of the recipe only what concerns the images that are tested on."""
    recipe = dataset.recipe(preset)
    usual = parameters.as_plain(parameters.build(dataset.Options, {}))
    plain = parameters.as_plain(parameters.build(dataset.Options, {**usual, **options}))
    known = dataset.target_tags(parameters.build(dataset.Options, plain))
    reduced = f"{recipe.test_images} test images per domain" if recipe.test_images else ""
    settings = replace(recipe, network="trained elsewhere", pretrained=False, reduced=reduced)
    return RunSpec(
        method=name,
        params={},
        dataset=dataset.name,
        dataset_version=dataset.version,
        options=plain,
        option_changes=tuple(key for key, value in plain.items() if value != usual[key]),
        preset=preset,
        recipe=parameters.as_plain(settings),
        recipe_changes=(),
        seed=seed,
        targets=tuple(name for name in known if name in targets),
    )


def score_model(
    model: nn.Module,
    spec: RunSpec,
    described: Elsewhere,
    *,
    runs: Path,
    data: Path,
    device: Device,
    reporter: Reporter,
) -> tuple[Record, Path]:
    """Evaluate the model on each target; the record and its folder."""
    folder_name = check_name(spec.method)
    started, began = utc_now(), time.perf_counter()
    dataset = spec.dataset_class(data, spec.build_options(), spec.build_recipe())
    method = as_method(model, dataset.task, spec.build_recipe(), device)
    described = msgspec.structs.replace(described, weights_sha256=weights_sha256(model))
    dataset.prepare(reporter)
    names = list(spec.targets or dataset.target_tags(dataset.options))
    with device.settings(reporter.note):
        weights: dict[Choice, Weights] = {"last": checkpoint.copy_weights(method)}
        evaluation = evaluate(method, dataset, names, weights, reporter)
        if not evaluation.domains:
            raise UserError(
                f"There is no data of any target of {spec.dataset}. "
                f"See: sdgbench data list {spec.dataset}"
            )
        seconds = time.perf_counter() - began
        costs = efficiency.measure(method, quickly=spec.preset == "smoke")
    run_id = foreign_id(spec.id, described.weights_sha256)
    folder = runs / spec.dataset / folder_name / run_id
    with storage.locked(folder):
        arrays.write_arrays(folder / arrays.PREDICTIONS, evaluation.predictions)
        groups = dataset.averages(list(evaluation.domains))
        result = summarise(evaluation.results["last"], dataset.task.metric, groups)
        record = Record(
            id=run_id,
            spec=spec,
            started=started,
            finished=utc_now(),
            metric=dataset.task.metric,
            classes=list(dataset.task.class_names),
            results={"last": result},
            domains=evaluation.domains,
            missing_domains=evaluation.missing,
            efficiency=costs,
            cost=Cost(other_seconds={"evaluate": round(seconds, 3)}),
            flags=data_flags(dataset.data_flags(), reduced_scale=spec.recipe["reduced"] or None),
            code=provenance.code(spec),
            packages=provenance.packages(),
            machine=machine_of(device.describe()),
            files={arrays.PREDICTIONS: storage.sha256(folder / arrays.PREDICTIONS)},
            elsewhere=described,
        )
        storage.write_json(folder / "record.json", encode(record))
    return record, folder
