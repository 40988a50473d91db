"""One trial of a search: a run that is scored on held-out source alone. No target is opened."""

import shutil
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sdgbench import storage
from sdgbench.evaluation.evaluator import score_domain
from sdgbench.evaluation.shifts import score_families
from sdgbench.launch.build_record import cost_of, machine_of, source_of
from sdgbench.launch.trained_run import FORWARD_COST, trained_run
from sdgbench.records import provenance
from sdgbench.records.schema import utc_now
from sdgbench.records.searches import TRIAL, Trial, read_trial
from sdgbench.records.store import Store
from sdgbench.reporter import PlannedStage, Reporter
from sdgbench.spec import shifts
from sdgbench.spec.run_spec import RunSpec
from sdgbench.training import checkpoint, distributed
from sdgbench.training.device import Device
from sdgbench.training.streaming import open_images


def execute_trial(
    spec: RunSpec,
    store: Store,
    data_root: Path,
    device: Device,
    reporter: Reporter,
    checkpoint_seconds: float = 300.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> Trial:
    """Train a run and score its last iterate on held-out source, by every rule."""
    families, _ = shifts.usable_for(spec)
    with trained_run(
        spec,
        store,
        data_root,
        device,
        reporter,
        checkpoint_seconds,
        should_stop,
        lambda held_out: [PlannedStage("evaluate", FORWARD_COST * held_out * (1 + len(families)))],
    ) as run:
        if run is None:
            return read_trial(store.folder(spec))
        method, trainer, folder = run.method, run.trainer, run.folder
        began = time.perf_counter()
        for module in checkpoint.modules(method).values():
            module.eval()
        batch = method.recipe.eval_batch
        run.reporter.begin("evaluate", 1 + len(families))
        with closing(open_images(run.validation, device)) as images:
            plain, _ = score_domain(method, images, batch, "held-out source")
            changed = score_families(method, images, batch, families)
        run.reporter.update(1 + len(families), None, 0.0)
        run.reporter.end()
        trainer.position.seconds["evaluate"] = time.perf_counter() - began

        def finish() -> Trial:
            trial = Trial(
                id=spec.id,
                spec=spec,
                started=run.started,
                finished=utc_now(),
                metric=method.task.metric,
                source_val=plain.score(method.task.metric),
                families=changed,
                source=source_of(run.source, run.validation),
                cost=cost_of(trainer.plan, trainer.position),
                code=provenance.code(spec),
                packages=provenance.packages(),
                machine=machine_of(device.describe(), trainer.position.machines[:-1]),
            )
            storage.write_json(folder / TRIAL, trial)
            shutil.rmtree(folder / "pool", ignore_errors=True)
            checkpoint.earlier(trainer.path).unlink(missing_ok=True)
            return trial

        return distributed.on_rank_zero(finish)
