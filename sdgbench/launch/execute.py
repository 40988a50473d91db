"""One run from its specification to its record: assembled, trained, evaluated, written."""

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from sdgbench import storage
from sdgbench.errors import MissingData, UserError
from sdgbench.evaluation import efficiency, embeddings, transport
from sdgbench.evaluation.evaluator import Weights, evaluate
from sdgbench.launch.build_record import describe
from sdgbench.launch.progress import ProgressFile
from sdgbench.records import arrays
from sdgbench.records.reading import encode
from sdgbench.records.schema import Choice, Record, utc_now
from sdgbench.records.store import Store
from sdgbench.reporter import PlannedStage, Reporter
from sdgbench.spec.run_spec import RunSpec
from sdgbench.training import checkpoint, distributed
from sdgbench.training.build_method import build_method
from sdgbench.training.device import Device
from sdgbench.training.opened_files import watch_folder
from sdgbench.training.trainer import Trainer

FORWARD_COST = 1 / 3  # of an image that is only predicted, relative to plain training


def execute(
    spec: RunSpec,
    store: Store,
    data_root: Path,
    device: Device,
    reporter: Reporter,
    checkpoint_seconds: float = 300.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> Record:
    """Train, evaluate and record a run, going on from its checkpoint if there is one."""
    folder = store.folder(spec)
    dataset = spec.dataset_class(data_root, spec.build_options(), spec.build_recipe())
    if not dataset.target_tags(dataset.options):
        raise UserError(f"{spec.dataset} has no targets to test on. Name some in target_tags.")
    # Before the run leaves any file: without usable data there is no run to resume.
    distributed.on_rank_zero(lambda: dataset.prepare(reporter))
    if not distributed.is_rank_zero():
        dataset.prepare(reporter)  # opens what the first process prepared
    source, validation = dataset.open_source("train"), dataset.open_source("val")
    with ExitStack() as stack:
        distributed.on_rank_zero(lambda: stack.enter_context(storage.locked(folder)))
        if distributed.on_rank_zero((folder / "record.json").exists):
            return store.record(spec)
        if distributed.is_rank_zero():
            reporter = stack.enter_context(ProgressFile(folder, reporter))
        stack.enter_context(device.settings(reporter.note))
        distributed.on_rank_zero(lambda: store.begin(spec))
        started = utc_now()
        opened = stack.enter_context(watch_folder(data_root, reporter.note))
        method = build_method(spec, dataset, device, source, folder / "pool")
        device.reset_peak_memory()
        names = spec.targets or list(dataset.target_tags(dataset.options))
        per_target = method.recipe.test_images or len(validation)  # targets are not opened yet
        trainer = Trainer(
            method,
            source,
            validation,
            folder,
            spec.id,
            reporter,
            checkpoint_seconds,
            should_stop,
            [PlannedStage("evaluate", FORWARD_COST * len(names) * per_target)],
        )
        position = trainer.run()
        opened_in_training = opened.stop()
        peak = device.peak_memory()
        began = time.perf_counter()
        choices: dict[Choice, Weights] = {"last": checkpoint.copy_weights(method)}
        if position.best and position.best["step"] != trainer.train_total:
            choices["val"] = position.best["weights"]
        evaluation = evaluate(method, dataset, names, choices, reporter, should_stop)
        if not evaluation.domains:
            raise MissingData(
                f"None of the targets of {spec.dataset} has data: nothing to test on."
            )
        position.seconds["evaluate"] = time.perf_counter() - began
        checkpoint.assign_weights(method, choices["last"])

        def finish() -> Record:
            arrays.write_arrays(folder / arrays.PREDICTIONS, evaluation.predictions)
            began = time.perf_counter()
            domains = list(evaluation.domains)
            distances = transport.measure(method, source)
            samples = embeddings.keep(folder, method, source, dataset, domains)
            position.seconds["analyses"] = time.perf_counter() - began
            record = describe(
                spec,
                method=method,
                dataset=dataset,
                source=source,
                validation=validation,
                trainer=trainer,
                evaluation=evaluation,
                efficiency=efficiency.measure(method, peak, quickly=spec.preset == "smoke"),
                transport=distances,
                embedding=samples,
                started=started,
                folder=folder,
                opened_data=opened_in_training,
            )
            storage.write_json(folder / "record.json", encode(record))
            shutil.rmtree(folder / "pool", ignore_errors=True)
            checkpoint.earlier(trainer.path).unlink(missing_ok=True)
            return record

        return distributed.on_rank_zero(finish)
