"""One run from its specification to its record."""

import io
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np

from sdgbench import checkpoint, efficiency, parallel, provenance, record, registry, storage
from sdgbench.analysis import embedding, hulls, transport
from sdgbench.dataset import Dataset, Domain
from sdgbench.device import Device
from sdgbench.evaluate import Evaluation, average, evaluate
from sdgbench.method import Method, Phase, Setting
from sdgbench.pool import Pool
from sdgbench.progress import Filed, Reporter
from sdgbench.spec import RunSpec
from sdgbench.task import Task
from sdgbench.train import Position, Trainer, phase_key

HASHED = ("predictions.npz", "train.jsonl", hulls.FILE)


class StopSignal:
    """Ctrl-C and SIGTERM ask for a stop at the next step; a second Ctrl-C stops at once.

    ``also`` names more signals that ask for it; ``number`` is the one that came last.
    """

    def __init__(self, *also: signal.Signals) -> None:
        self.asked = False
        self.number: int | None = None
        self._numbers = (signal.SIGINT, signal.SIGTERM, *also)
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Say whether a stop was asked for."""
        return self.asked

    def __enter__(self) -> Self:
        for number in self._numbers:
            with suppress(ValueError):  # not in the main thread: the caller owns the signals
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # Among several processes one must not stop at once: the others would wait for it.
        if self.asked and number == signal.SIGINT and parallel.size() == 1:
            raise KeyboardInterrupt
        self.asked, self.number = True, number
        if parallel.is_first():
            print("\nStopping after this step and saving; Ctrl-C again to stop at once.",
                  file=sys.stderr)  # fmt: skip


def build_method(
    spec: RunSpec, dataset: Dataset, device: Device, source: Domain, pool_folder: Path
) -> Method:
    """Hand a method what it may know: the setting and the source's shape."""
    pool = Pool(pool_folder, source.images.shape[1:], source.labels.shape[1:])
    return new_method(spec, dataset.task, device, len(source), pool)


def new_method(spec: RunSpec, task: Task, device: Device, source_size: int, pool: Pool) -> Method:
    """A method before its first step."""
    return spec.method_class(Setting(
        params=spec.build_params(), task=task, recipe=spec.build_recipe(),
        device=device, seed=spec.seed, source_size=source_size, pool=pool,
    ))  # fmt: skip


def execute(
    spec: RunSpec,
    store: record.Store,
    data_root: Path,
    device: Device,
    reporter: Reporter,
    checkpoint_seconds: float = 300.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> record.Record:
    """Train, evaluate and record a run, going on from its checkpoint if there is one."""
    folder = store.folder(spec)
    with ExitStack() as stack:
        parallel.from_first(lambda: stack.enter_context(storage.owned(folder)))
        if parallel.is_first():
            reporter = stack.enter_context(Filed(folder, reporter))
        stack.enter_context(device.settings(reporter.note))
        if parallel.from_first((folder / "record.json").exists):
            return store.record(spec)
        parallel.from_first(lambda: store.begin(spec))
        started = record.now()
        dataset = spec.dataset_class(data_root, spec.build_options(), spec.build_recipe())
        parallel.from_first(lambda: dataset.prepare(reporter))
        if not parallel.is_first():
            dataset.prepare(reporter)  # what the first one made is found
        source, validation = dataset.source("train"), dataset.source("val")
        method = build_method(spec, dataset, device, source, folder / "pool")
        device.reset_peak_memory()
        trainer = Trainer(
            method, source, validation, folder, spec.id, reporter, checkpoint_seconds, should_stop
        )
        position = trainer.run()
        peak = device.peak_memory()
        began = time.perf_counter()
        choices = {"last": checkpoint.copy_weights(method)}
        if position.best and position.best["step"] != trainer.train_total:
            choices["val"] = position.best["weights"]
        names = spec.targets or list(dataset.target_tags(dataset.options))
        evaluation = evaluate(method, dataset, names, choices, reporter, should_stop)
        position.seconds["evaluate"] = time.perf_counter() - began
        checkpoint.assign_weights(method, choices["last"])

        def finish() -> record.Record:
            _write_predictions(folder / "predictions.npz", evaluation.decisions)
            began = time.perf_counter()
            domains = list(evaluation.domains)
            analyses = {
                "transport": transport.measure(method, source),
                "embedding": embedding.keep(folder, method, source, dataset, domains),
            }
            position.seconds["analyses"] = time.perf_counter() - began
            finished = {
                "schema": record.SCHEMA,
                "id": spec.id,
                "spec": asdict(spec),
                "started": started,
                "finished": record.now(),
                "metric": dataset.task.metric,
                "classes": list(dataset.task.class_names),
                "results": _summarise(evaluation, dataset, position, trainer.train_total),
                "domains": evaluation.domains,
                "missing_domains": evaluation.missing,
                "source": {"name": source.name, **{
                    split: {"count": len(domain), "sha256": domain.sha256()}
                    for split, domain in (("train", source), ("val", validation))
                }},
                "efficiency": {
                    **efficiency.measure(method, quickly=spec.preset == "smoke"),
                    "peak_memory_bytes": peak,
                },
                **analyses,
                "cost": _cost(trainer.plan, position),
                "flags": {**_flags(spec, method), **dataset.data_flags()},
                "code": {
                    **provenance.code(),
                    "method_file_sha256": registry.get("method", spec.method).source_sha256,
                    "dataset_file_sha256": registry.get("dataset", spec.dataset).source_sha256,
                },
                "packages": provenance.packages(),
                "machine": {**device.describe(), "earlier": position.machines[:-1]},
                "files": {
                    name: storage.sha256(folder / name) for name in HASHED
                },
            }  # fmt: skip
            storage.write_json(folder / "record.json", finished)
            shutil.rmtree(folder / "pool", ignore_errors=True)
            return finished

        return parallel.from_first(finish)


def _summarise(
    evaluation: Evaluation, dataset: Dataset, position: Position, steps: int
) -> dict[str, Any]:
    """Per choice of weights: when it was made, the averages and each domain."""
    found = {}
    groups = dataset.averages(list(evaluation.domains))
    for choice, domains in evaluation.results.items():
        found[choice] = {
            "step": steps, "source_val": position.last_score,
            **average(domains, dataset.task.metric, groups), "per_domain": domains,
        }  # fmt: skip
    if position.best:  # where validation chose the last iterate, both choices are one
        chosen = {"step": position.best["step"], "source_val": position.best["score"]}
        found["val"] = {**found.get("val", found["last"]), **chosen}
    return found


def _cost(plan: Sequence[Phase], position: Position) -> dict[str, Any]:
    """What the run took: seconds per phase and beside them, images through the networks."""
    phases: list[dict[str, Any]] = []
    others = {kind: round(value, 3) for kind, value in position.seconds.items()}
    for index, phase in enumerate(plan):
        seconds = others.pop(phase_key(index, phase), 0.0)
        phases.append({"name": phase.name, "steps": phase.steps, "seconds": seconds})
    return {
        "phases": phases,
        "train_seconds": round(sum(phase["seconds"] for phase in phases), 3),
        "other_seconds": others,
        "images_forward": position.images_forward,
        "images_with_gradient": position.images_with_gradient,
        "starts": position.starts,
    }


def _flags(spec: RunSpec, method: Method) -> dict[str, Any]:
    """What a reader of a table must be told."""
    return {
        "reduced_scale": spec.recipe["reduced"] or None,
        "recipe_changed": list(spec.recipe_changes),
        "params_changed": spec.changed_parameters(),
        "reduced_parameters": spec.reduced_parameters(),
        "pretrained": spec.recipe["pretrained"],
        **dict.fromkeys(sorted(method.flags), True),
    }


def _write_predictions(path: Path, decisions: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **decisions)  # type: ignore[arg-type]
    storage.write_atomic(path, lambda file: file.write(buffer.getvalue()))
