"""A run up to the end of its training: assembled, locked, resumed if it was interrupted."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sdgbench import storage
from sdgbench.data.domain import Domain
from sdgbench.dataset import Dataset
from sdgbench.launch.progress import ProgressFile
from sdgbench.method import Method
from sdgbench.records.schema import utc_now
from sdgbench.records.store import Store
from sdgbench.reporter import PlannedStage, Reporter
from sdgbench.spec.run_spec import RunSpec
from sdgbench.training import distributed
from sdgbench.training.build_method import build_method
from sdgbench.training.device import Device
from sdgbench.training.event_log import EventLog
from sdgbench.training.opened_files import watch_folder
from sdgbench.training.trainer import Trainer

FORWARD_COST = 1 / 3  # of an image that is only predicted, relative to plain training


@dataclass(frozen=True)
class TrainedRun:
    """A method at the end of its training, and what is needed to score and record it."""

    folder: Path
    dataset: Dataset
    source: Domain
    validation: Domain
    method: Method
    trainer: Trainer
    reporter: Reporter
    started: str
    opened_data: Sequence[str]  # files of the data folder that were opened in training
    peak_memory: int | None


@contextmanager
def trained_run(
    spec: RunSpec,
    store: Store,
    data_root: Path,
    device: Device,
    reporter: Reporter,
    checkpoint_seconds: float,
    should_stop: Callable[[], bool],
    later: Callable[[int], Sequence[PlannedStage]],
    log: str = "",
) -> Iterator[TrainedRun | None]:
    """Train a run, going on from its checkpoint if there is one; None: it is finished already.

    Its folder stays locked and the device set up until the block ends. ``later`` gives the stages
    after training, from the number of held-out images. ``log`` is one of ``event_log.LOGS``.
    """
    folder = store.folder(spec)
    dataset = spec.dataset_class(data_root, spec.build_options(), spec.build_recipe())
    # Before the run leaves any file: without usable data there is no run to resume.
    distributed.on_rank_zero(lambda: dataset.prepare(reporter))
    if not distributed.is_rank_zero():
        dataset.prepare(reporter)  # opens what the first process prepared
    source, validation = dataset.open_source("train"), dataset.open_source("val")
    with ExitStack() as stack:
        distributed.on_rank_zero(lambda: stack.enter_context(storage.locked(folder)))
        if distributed.on_rank_zero((folder / store.finished).exists):
            yield None
            return
        if distributed.is_rank_zero():
            reporter = stack.enter_context(ProgressFile(folder, reporter))
        stack.enter_context(device.settings(reporter.note))
        distributed.on_rank_zero(lambda: store.begin(spec))
        started = utc_now()
        opened = stack.enter_context(watch_folder(data_root, reporter.note))
        method = build_method(spec, dataset, device, source, folder / "pool")
        device.reset_peak_memory()
        event_log = None
        if log and distributed.is_rank_zero():
            event_log = EventLog(folder, spec.settings_label, reporter.note)
            stack.callback(event_log.close)
        trainer = Trainer(
            method,
            source,
            validation,
            folder,
            spec.id,
            reporter,
            checkpoint_seconds,
            should_stop,
            later(len(validation)),
            event_log,
        )
        trainer.opened_files = lambda: list(opened.names)
        trainer.run()
        opened.stop()
        yield TrainedRun(
            folder,
            dataset,
            source,
            validation,
            method,
            trainer,
            reporter,
            started,
            trainer.position.opened_data,
            device.peak_memory(),
        )
