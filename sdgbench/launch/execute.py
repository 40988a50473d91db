"""One run from its specification to its record: assembled, trained, evaluated, written."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from sdgbench import storage
from sdgbench.errors import MissingData, UserError
from sdgbench.evaluation import efficiency, embeddings, transport
from sdgbench.evaluation.evaluator import Weights, evaluate
from sdgbench.launch.build_record import describe
from sdgbench.launch.trained_run import FORWARD_COST, trained_run
from sdgbench.records import arrays
from sdgbench.records.reading import encode
from sdgbench.records.schema import Choice, Record, Tuned
from sdgbench.records.store import Store
from sdgbench.reporter import PlannedStage, Reporter
from sdgbench.spec.run_spec import RunSpec
from sdgbench.training import checkpoint, distributed
from sdgbench.training.device import Device


def execute(
    spec: RunSpec,
    store: Store,
    data_root: Path,
    device: Device,
    reporter: Reporter,
    checkpoint_seconds: float = 300.0,
    should_stop: Callable[[], bool] = lambda: False,
    tuned: Tuned | None = None,  # how its setting was chosen; None: by nobody
    log: str = "",
) -> Record:
    """Train, evaluate and record a run, going on from its checkpoint if there is one.

    ``log``: also write the points of its curve for this tool, one of ``event_log.LOGS``.
    """
    targets = spec.dataset_class.target_tags(spec.build_options())
    if not targets:
        raise UserError(f"{spec.dataset} has no targets to test on. Name some in target_tags.")
    names = spec.targets or list(targets)
    per_target: int | None = spec.recipe["test_images"]  # else about as many as are held out
    smoke = spec.preset == "smoke"
    measured = efficiency.expected_images(quickly=smoke) + embeddings.PER_DOMAIN * len(names)
    with trained_run(
        spec,
        store,
        data_root,
        device,
        reporter,
        checkpoint_seconds,
        should_stop,
        lambda held_out: [
            PlannedStage("evaluate", FORWARD_COST * len(names) * (per_target or held_out)),
            PlannedStage("measure", FORWARD_COST * measured),
        ],
        log,
    ) as run:
        if run is None:
            return store.record(spec)
        method, dataset, trainer, folder = run.method, run.dataset, run.trainer, run.folder
        position = trainer.position
        began = time.perf_counter()
        choices: dict[Choice, Weights] = {"last": checkpoint.copy_weights(method)}
        if position.best and position.best["step"] != trainer.train_total:
            choices["val"] = position.best["weights"]
        evaluation = evaluate(method, dataset, names, choices, run.reporter, should_stop)
        if not evaluation.domains:
            raise MissingData(
                f"None of the targets of {spec.dataset} has data: nothing to test on."
            )
        position.seconds["evaluate"] = time.perf_counter() - began
        checkpoint.assign_weights(method, choices["last"])

        def finish() -> Record:
            arrays.write_arrays(folder / arrays.PREDICTIONS, evaluation.predictions)
            run.reporter.begin("measure", 2)
            began = time.perf_counter()
            domains = list(evaluation.domains)
            distances = transport.measure(method, run.source)
            samples = embeddings.keep(folder, method, run.source, dataset, domains)
            position.seconds["analyses"] = time.perf_counter() - began
            run.reporter.update(1, None, 0.0)
            costs = efficiency.measure(method, run.peak_memory, quickly=smoke)
            run.reporter.update(2, None, 0.0)
            run.reporter.end()
            record = describe(
                spec,
                method=method,
                dataset=dataset,
                source=run.source,
                validation=run.validation,
                trainer=trainer,
                evaluation=evaluation,
                efficiency=costs,
                transport=distances,
                embedding=samples,
                started=run.started,
                folder=folder,
                opened_data=run.opened_data,
                tuned=tuned,
            )
            storage.write_json(folder / "record.json", encode(record))
            shutil.rmtree(folder / "pool", ignore_errors=True)
            checkpoint.earlier(trainer.path).unlink(missing_ok=True)
            return record

        return distributed.on_rank_zero(finish)
