"""One run of a matrix, in whichever process it is executed, and how it ended."""

import shutil
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sdgbench import registry
from sdgbench.errors import Interrupted, UserError
from sdgbench.launch.execute import execute
from sdgbench.launch.trial import execute_trial
from sdgbench.records.schema import Record, Tuned
from sdgbench.records.searches import TRIAL, Trial, read_trial
from sdgbench.records.store import RECORD, Store
from sdgbench.reporter import Reporter
from sdgbench.spec.run_spec import RunSpec
from sdgbench.training import distributed
from sdgbench.training.device import Device, Execution

Outcome = Literal[
    "done",
    "finished before",
    "failed",
    "failed before",
    "refused",
    "skipped",
    "stopped",
    "not started",
]


@dataclass(frozen=True)
class RunOptions:
    """Options of a command that belong to no run; of results they change roundings at most."""

    runs: Path
    data: Path
    device: str = "auto"
    checkpoint_seconds: float = 300.0
    retry: bool = False
    redo: bool = False
    timeout_seconds: float | None = None  # after which a run is ended; None: never
    execution: Execution = field(default_factory=Execution)  # the precision is each run's
    log: str = ""  # "tensorboard": also write the curve for it
    trials: bool = False  # the runs are trials of a search: no target is opened
    tuned: Tuned | None = None  # the search that chose the setting of runs that are tuned

    @property
    def store(self) -> Store:
        """The folder of the runs."""
        return Store(self.runs, TRIAL if self.trials else RECORD)


@dataclass
class Result:
    """How one run of the matrix ended."""

    spec: RunSpec
    outcome: Outcome
    record: Record | None = None
    remark: str = ""
    seconds: float = 0.0
    trial: Trial | None = None  # instead of a record, where the run is one


def delete_for_redo(spec: RunSpec, options: RunOptions) -> None:
    """Delete what exists of a run, with ``--redo`` or after its method's file was fixed.

    A trial of an older version of the file goes, too: a choice compares trials of one version.

    A run that a process works on is left alone. A failed run starts from its beginning when the
    file has changed: one half by the old file and one by the new would be neither.
    """
    store = options.store
    store.refuse_links(spec)
    if spec.skipped() or (state := store.state(spec)) == "running":
        return
    stale = options.trials and state == "done" and _is_stale(read_trial(store.folder(spec)))
    if options.redo or stale or (state == "failed" and _is_fixed(spec, store)):
        shutil.rmtree(store.folder(spec), ignore_errors=True)


def _is_fixed(spec: RunSpec, store: Store) -> bool:
    """Whether the method's file was edited after the run failed."""
    try:
        return store.has_changed_since_failure(spec)
    except UserError:  # a damaged file: --retry is still there
        return False


def existing_result(spec: RunSpec, options: RunOptions) -> Result | None:
    """The result of a run that needs no work; None if it must be executed. Only looks."""
    store = options.store
    if reason := spec.skipped():
        return Result(spec, "skipped", remark=reason)
    store.refuse_links(spec)
    state = store.state(spec)
    if state == "done" and options.trials:
        return Result(spec, "finished before", trial=read_trial(store.folder(spec)))
    if state == "done":
        record = store.record(spec)
        return Result(spec, "finished before", record, _changed_since(record))
    if state == "failed" and not options.retry:
        return Result(spec, "failed before", remark=store.failure(spec) + " (--retry)")
    return None


def result_before(spec: RunSpec, options: RunOptions) -> Result | None:
    """The result of a run that needs no work, before a process or job is given to it.

    What cannot be read is the result of this run alone.
    """
    try:
        delete_for_redo(spec, options)
        return existing_result(spec, options)
    except UserError as error:
        return Result(spec, "refused", remark=str(error))


def run_one(
    spec: RunSpec,
    options: RunOptions,
    device: Device,
    reporter: AbstractContextManager[Reporter],
    should_stop: Callable[[], bool],
    on_crash: Callable[[BaseException], object] = lambda error: None,
) -> Result:
    """Execute a run if it has no result yet; whatever happens becomes a result."""
    began = time.perf_counter()
    try:
        distributed.on_rank_zero(lambda: delete_for_redo(spec, options))
        result = distributed.on_rank_zero(lambda: existing_result(spec, options))
        if result is None:
            with reporter as opened_reporter:
                result = _execute(spec, options, device, opened_reporter, should_stop)
    except Interrupted as error:
        result = Result(spec, "stopped", remark=str(error))
    except UserError as error:
        result = Result(spec, "refused", remark=str(error))
    except BaseException as error:
        if _is_the_users(error, should_stop):
            raise
        hangs = isinstance(error, distributed.NotAnsweringError)
        in_step = not hangs and distributed.barrier()
        if distributed.is_rank_zero() or not in_step:
            on_crash(error)
        if not in_step:  # one process broke, not the run: torchrun ends all, and it can resume
            raise
        if distributed.is_rank_zero():
            with suppress(UserError):  # a full disk must not stop the other runs
                options.store.fail(spec, error)
        first_line = (str(error).strip().splitlines() or [""])[0]
        if isinstance(error, SystemExit):
            first_line = f"its code called sys.exit({error.code!r})"
        result = Result(spec, "failed", remark=f"{type(error).__name__}: {first_line}")
    if result.outcome != "failed" and not distributed.barrier():
        raise RuntimeError(f"process {distributed.rank()} ended alone: {result.remark}")
    result.seconds = time.perf_counter() - began
    return result


def _execute(
    spec: RunSpec,
    options: RunOptions,
    device: Device,
    reporter: Reporter,
    should_stop: Callable[[], bool],
) -> Result:
    where = (spec, options.store, options.data, device, reporter)
    if options.trials:
        trial = execute_trial(*where, options.checkpoint_seconds, should_stop)
        return Result(spec, "done", trial=trial)
    tuned = options.tuned if spec.tuned else None
    record = execute(*where, options.checkpoint_seconds, should_stop, tuned, options.log)
    return Result(spec, "done", record)


def _is_the_users(error: BaseException, should_stop: Callable[[], bool]) -> bool:
    """Whether an exception is a Ctrl-C; what a method raises itself is the result of its run."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    if distributed.size() > 1 or signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return True
    return should_stop()  # a first Ctrl-C requests a stop, and only a second one raises


def _is_stale(record: Record | Trial) -> bool:
    """Whether a finished run was made by another version of its method's file."""
    now = registry.get("method", record.spec.method).source_sha256
    return record.code.method_file_sha256 not in (None, now)


def _changed_since(record: Record) -> str:
    return "made by another version of the method's file (--redo)" if _is_stale(record) else ""
