"""The record of a run that has just been trained and evaluated."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from sdgbench import storage
from sdgbench.data.domain import Domain
from sdgbench.dataset import Dataset
from sdgbench.evaluation import hulls
from sdgbench.evaluation.evaluator import Evaluation, summarise
from sdgbench.method import Method, Phase
from sdgbench.records import arrays, provenance
from sdgbench.records.schema import (
    Choice,
    ChoiceResult,
    Cost,
    Efficiency,
    Embedding,
    Flags,
    InitialWeights,
    Machine,
    PhaseCost,
    Record,
    Source,
    SplitContent,
    Transport,
    Tuned,
    utc_now,
)
from sdgbench.spec.run_spec import RunSpec
from sdgbench.training.saved_state import Position
from sdgbench.training.trainer import Trainer, phase_key

FILES = (
    arrays.PREDICTIONS,
    "train.jsonl",
    hulls.FILE,
    "checkpoint.pt",
)  # whose hashes the record holds


def describe(
    spec: RunSpec,
    *,
    method: Method,
    dataset: Dataset,
    source: Domain,
    validation: Domain,
    trainer: Trainer,
    evaluation: Evaluation,
    efficiency: Efficiency,
    transport: Transport | None,
    embedding: Embedding,
    started: str,
    folder: Path,
    opened_data: Sequence[str] = (),
    tuned: Tuned | None = None,
) -> Record:
    """Everything that produced the run's numbers, and the numbers."""
    position = trainer.position
    return Record(
        id=spec.id,
        spec=spec,
        started=started,
        finished=utc_now(),
        metric=dataset.task.metric,
        classes=list(dataset.task.class_names),
        results=_results(evaluation, dataset, position, trainer.train_total),
        domains=evaluation.domains,
        missing_domains=evaluation.missing,
        source=source_of(source, validation),
        efficiency=efficiency,
        transport=transport,
        embedding=embedding,
        cost=cost_of(trainer.plan, position),
        flags=_flags(spec, method, dataset, opened_data),
        weights=_weights(method),
        code=provenance.code(spec),
        packages=provenance.packages(),
        machine=machine_of(method.device.describe(), position.machines[:-1]),
        files={name: storage.sha256(folder / name) for name in FILES},
        tuned=tuned,
    )


def source_of(source: Domain, validation: Domain) -> Source:
    """The source of a run: how many images it has, and their hashes."""
    return Source(
        name=source.name,
        train=SplitContent(count=len(source), sha256=source.sha256()),
        val=SplitContent(count=len(validation), sha256=validation.sha256()),
    )


def _results(
    evaluation: Evaluation, dataset: Dataset, position: Position, steps: int
) -> dict[Choice, ChoiceResult]:
    """By choice of weights: when it was made, the averages and each domain."""
    groups = dataset.averages(list(evaluation.domains))
    results = {
        choice: summarise(domains, dataset.task.metric, groups, steps, position.last_score)
        for choice, domains in evaluation.results.items()
    }
    if position.best:  # where validation chose the last iterate, both choices are one
        results["val"] = msgspec.structs.replace(
            results.get("val", results["last"]),
            step=position.best["step"],
            source_val=position.best["score"],
        )
    return results


def cost_of(plan: Sequence[Phase], position: Position) -> Cost:
    """What the run took: seconds of each phase and of other work, images through the networks."""
    others = {kind: round(value, 3) for kind, value in position.seconds.items()}
    phases = [
        PhaseCost(
            name=phase.name, steps=phase.steps, seconds=others.pop(phase_key(index, phase), 0.0)
        )
        for index, phase in enumerate(plan)
    ]
    return Cost(
        phases=phases,
        train_seconds=round(sum(phase.seconds for phase in phases), 3),
        other_seconds=others,
        images_forward=position.images_forward,
        images_with_gradient=position.images_with_gradient,
        starts=position.starts,
    )


def _flags(spec: RunSpec, method: Method, dataset: Dataset, opened_data: Sequence[str]) -> Flags:
    """What a reader of a table must know; flags that only a dataset knows go to ``other``."""
    return data_flags(
        dataset.data_flags(),
        reduced_scale=spec.recipe["reduced"] or None,
        recipe_changed=list(spec.recipe_changes),
        params_changed=spec.changed_parameters(),
        reduced_parameters=spec.reduced_parameters(),
        pretrained=method.network.origin is not None,
        opened_data=list(opened_data),
        method=_method_flags(method, dataset),
    )


def data_flags(of_data: dict[str, Any], **more: Any) -> Flags:
    """The flags of a dataset's data, and others; what only the dataset knows goes to ``other``."""
    known = set(Flags.__struct_fields__)
    return Flags(
        **more,
        other={name: value for name, value in of_data.items() if name not in known},
        **{name: value for name, value in of_data.items() if name in known},
    )


def _weights(method: Method) -> InitialWeights | None:
    """Where the task network's initial weights came from."""
    origin = method.network.origin
    return msgspec.convert(asdict(origin), InitialWeights) if origin else None


def _method_flags(method: Method, dataset: Dataset) -> list[str]:
    """The method's flags; an overlap with corruptions matters only where they are tested."""
    tags = dataset.target_tags(dataset.options).values()
    corrupted = any(tag.get("corruption") for tag in tags)
    return sorted(flag for flag in method.flags if corrupted or flag != "corruption_overlap")


def machine_of(described: dict[str, Any], earlier: Sequence[dict[str, Any]] = ()) -> Machine:
    """The machine of a record, from what a device says of itself."""
    return msgspec.convert({**described, "earlier": list(earlier)}, Machine)
