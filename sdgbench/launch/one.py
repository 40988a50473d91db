"""One run of a matrix, wherever it takes place, and how it ended."""

import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sdgbench import parallel, registry
from sdgbench.device import Device, Execution
from sdgbench.errors import Interrupted, UserError
from sdgbench.progress import Reporter
from sdgbench.record import Record, Store
from sdgbench.runner import execute
from sdgbench.spec import RunSpec

Outcome = Literal["done", "finished before", "failed", "failed before", "refused", "skipped",
                  "stopped", "not started"]  # fmt: skip


@dataclass(frozen=True)
class Order:
    """What a command asks beside the runs themselves; of results it changes roundings at most."""

    runs: Path
    data: Path
    device: str = "auto"
    checkpoint_seconds: float = 300.0
    retry: bool = False
    redo: bool = False
    execution: Execution = field(default_factory=Execution)  # the precision is each run's


@dataclass
class Result:
    """How one run of the matrix ended."""

    spec: RunSpec
    outcome: Outcome
    record: Record | None = None
    remark: str = ""
    seconds: float = 0.0


def without_running(spec: RunSpec, order: Order) -> Result | None:
    """The result of a run that needs no work, or None where it must run. Deletes for ``redo``."""
    store = Store(order.runs)
    if reason := spec.skipped():
        return Result(spec, "skipped", remark=reason)
    if order.redo and store.state(spec) != "running":
        shutil.rmtree(store.folder(spec), ignore_errors=True)
    state = store.state(spec)
    if state == "done":
        record = store.record(spec)
        return Result(spec, "finished before", record, _changed_since(record))
    if state == "failed" and not order.retry:
        return Result(spec, "failed before", remark=store.failure(spec) + " (--retry)")
    return None


def run_one(
    spec: RunSpec,
    order: Order,
    device: Device,
    reporter: AbstractContextManager[Reporter],
    should_stop: Callable[[], bool],
    on_crash: Callable[[Exception], object] = lambda error: None,
) -> Result:
    """Run what is missing of one run; whatever happens becomes a result."""
    began = time.perf_counter()
    try:
        result = parallel.from_first(lambda: without_running(spec, order))
        if result is None:
            with reporter as told:
                record = execute(
                    spec, Store(order.runs), order.data, device, told, order.checkpoint_seconds,
                    should_stop,
                )  # fmt: skip
            result = Result(spec, "done", record)
    except Interrupted as error:
        result = Result(spec, "stopped", remark=str(error))
    except UserError as error:
        result = Result(spec, "refused", remark=str(error))
    except Exception as error:
        together = parallel.meet()
        if parallel.is_first() or not together:
            on_crash(error)
        if not together:  # one process broke, not the run: torchrun ends all, and it can go on
            raise
        if parallel.is_first():
            with suppress(UserError):  # a full disk must not stop the other runs
                Store(order.runs).fail(spec, error)
        first = (str(error).strip().splitlines() or [""])[0]
        result = Result(spec, "failed", remark=f"{type(error).__name__}: {first}")
    if result.outcome != "failed" and not parallel.meet():
        raise RuntimeError(f"process {parallel.rank()} ended alone: {result.remark}")
    result.seconds = time.perf_counter() - began
    return result


def _changed_since(record: Record) -> str:
    """Warn when a finished run was made by another version of its method's file."""
    now = registry.get("method", record["spec"]["method"]).source_sha256
    same = record.get("code", {}).get("method_file_sha256") in (None, now)
    return "" if same else "made by another version of the method's file (--redo)"
