"""Runs a matrix in several processes of this machine: no failure and no kill stops the rest."""

import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from rich.console import Console

from sdgbench import registry
from sdgbench.errors import UserError
from sdgbench.launch.attempt import Result, RunOptions, result_before
from sdgbench.launch.cpu_count import available_cpus
from sdgbench.launch.crash import print_description
from sdgbench.launch.gpu_sharing import runs_per_gpu
from sdgbench.launch.live_table import LiveTable, Row
from sdgbench.launch.local import run_here
from sdgbench.launch.matrix_file import MatrixFile
from sdgbench.launch.progress import LineReporter
from sdgbench.launch.stop_signal import StopSignal
from sdgbench.launch.worker import WorkerSetup
from sdgbench.launch.worker_process import WorkerProcess
from sdgbench.records.store import Store
from sdgbench.spec.run_spec import RunSpec
from sdgbench.training.device import Device, cpu_threads

MAX_RESTARTS = 3  # of a run whose process died, in a row and without a new checkpoint
POLL_SECONDS = 0.2


class TimedOut(RuntimeError):
    """A run took longer than --timeout."""


class WorkerDied(RuntimeError):
    """The process of a run died again and again."""


@dataclass
class PendingRun:
    """A run of the matrix that has no result yet."""

    position: int  # in the matrix, from 1
    spec: RunSpec
    starts: int = 0
    deaths: int = 0  # of its process, since the last checkpoint
    timed_out: bool = False
    checkpoint: int = 0  # its time in nanoseconds when the run was last started


@dataclass
class Slot:
    """One of the pool's processes, with the run that is assigned to it."""

    setup: WorkerSetup
    worker: WorkerProcess | None = None
    run: PendingRun | None = None
    began: float = 0.0  # when the run was assigned, by time.monotonic
    reporter: Row | LineReporter | None = None


def run_in_processes(
    specs: Sequence[RunSpec],
    options: RunOptions,
    jobs: int | None,
    console: Console,
    prestarted: Sequence[WorkerProcess] = (),
) -> list[Result]:
    """Run what is missing in ``jobs`` processes (None: as many as the machine suggests).

    ``prestarted`` workers are used if their number is the one that is needed.
    """
    device = Device(options.device, options.execution)
    sharing = 1
    if jobs is None and device.kind == "cuda":
        cpus = available_cpus() // len(_gpus(device))
        # Not the free memory, which this process would have to open the GPU for.
        memory = torch.cuda.get_device_properties(device.torch).total_memory
        sharing = runs_per_gpu(specs, memory, cpus)
    devices = assign_devices(device, jobs, len(specs), sharing)
    if len(devices) == 1 and options.timeout_seconds is None:
        return run_here(specs, options, console)
    Store(options.runs).check(writable=True)
    table = LiveTable(console, specs)
    with (
        TemporaryDirectory(prefix="sdgbench-devices-") as folder,
        StopSignal(announce=table.show_stopping) as stop,
        table,
        MatrixFile(options.runs, table),
    ):
        usable = prestarted if len(prestarted) == len(devices) else ()
        pool = WorkerPool(options, devices, table, usable, Path(folder))
        try:
            return pool.run(specs, stop)
        except KeyboardInterrupt:
            pool.kill()
            raise
        finally:
            pool.shutdown()


def assign_devices(device: Device, jobs: int | None, runs: int, sharing: int = 1) -> list[str]:
    """The device of each process; ``sharing`` is the number of processes for each GPU.

    Their number does not depend on which runs are still missing.
    """
    devices = _gpus(device)
    if jobs is None:
        jobs = available_cpus() // device.threads if device.threads else sharing * len(devices)
    return [devices[index % len(devices)] for index in range(max(1, min(jobs, runs)))]


def _gpus(device: Device) -> list[str]:
    """All GPUs, unless one of them or another device was asked for."""
    if device.kind == "cuda" and device.torch.index is None:
        return [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    return [str(device.torch)]


class WorkerPool:
    """Assigns runs to processes, each of which does one at a time and loads torch only once."""

    def __init__(
        self,
        options: RunOptions,
        devices: Sequence[str],
        table: LiveTable,
        prestarted: Sequence[WorkerProcess],
        share_folder: Path,
    ) -> None:
        self.options, self.store, self.table = options, Store(options.runs), table
        # Existing results are looked up here, once: after a death a run must resume.
        # The variable that the number of threads may come from is another one in a worker.
        execution = replace(options.execution, threads=cpu_threads(options.execution.threads))
        worker_options = replace(options, redo=False, retry=True, execution=execution)
        plugins = tuple(registry.plugins())
        self.slots = []
        for device in devices:
            count = devices.count(device) if device.startswith("cuda") else 1
            folder = share_folder if count > 1 else None
            setup = WorkerSetup(worker_options, device, plugins, len(devices) - 1, count, folder)
            self.slots.append(Slot(setup))
        self.prestarted = list(prestarted)
        self.waiting: deque[PendingRun] = deque()
        self.results: dict[int, Result] = {}  # by position
        self.stopping = False

    @property
    def workers(self) -> list[WorkerProcess]:
        """The processes that are alive, as far as is known."""
        return [slot.worker for slot in self.slots if slot.worker]

    def run(self, specs: Sequence[RunSpec], stop: Callable[[], bool]) -> list[Result]:
        """Run all; the results come in the order of the specs."""
        self.waiting.extend(PendingRun(position, spec) for position, spec in enumerate(specs, 1))
        while len(self.results) < len(specs):
            if stop() and not self.stopping:
                self._stop()
            for slot in self.slots:
                self._assign(slot)
            wait([worker.connection for worker in self.workers], POLL_SECONDS)
            for slot in self.slots:
                self._poll(slot)
        return [self.results[position] for position in sorted(self.results)]

    def kill(self) -> None:
        """End all processes at once."""
        for worker in self.workers:
            worker.kill()

    def shutdown(self) -> None:
        """End all processes; those that still have a run save it first."""
        for slot in self.slots:
            if slot.worker and slot.run is None:
                slot.worker.kill()  # it has nothing to save, and torch takes a second to exit
        for worker in self.workers:
            worker.connection.close()
        for worker in self.workers:
            worker.wait()
            worker.close()

    def _stop(self) -> None:
        self.stopping = True
        for worker in self.workers:
            worker.send_stop()
        while self.waiting:
            run = self.waiting.popleft()
            self._record_result(run, Result(run.spec, "stopped" if run.starts else "not started"))

    def _assign(self, slot: Slot) -> None:
        """Give a free slot the next run that has no result yet."""
        while self.waiting and slot.run is None:
            run = self.waiting.popleft()
            if not run.starts and (result := result_before(run.spec, self.options)):
                self._record_result(run, result)
                continue
            if slot.worker is None:
                unused = self.prestarted.pop() if self.prestarted else None
                slot.worker = unused or WorkerProcess(len(self.slots))
                slot.worker.send(slot.setup)
            run.starts, run.checkpoint = run.starts + 1, self._checkpoint_time(run)
            slot.run, slot.reporter = run, self.table.start_run(run.position)
            slot.began = time.monotonic()
            slot.worker.send(run.spec)

    def _poll(self, slot: Slot) -> None:
        """Handle what a slot's process sent and printed, and its death."""
        worker = slot.worker
        if worker is None:
            return
        limit = self.options.timeout_seconds
        if slot.run and limit is not None and time.monotonic() - slot.began > limit:
            slot.run.timed_out = True
            worker.kill()
        events = worker.receive()
        for line in worker.printed_lines():
            if slot.reporter:
                slot.reporter.note(line)
        for name, *values in events or ():
            if name == "result":
                self._finish(slot, values[0])
            elif name == "crash":
                print_description(self.table.console, values[0])
            else:
                getattr(slot.reporter, name)(*values)
        if events is None:
            slot.worker = None
            if slot.run:
                self._restart(slot, describe_exit(worker.wait()))
            worker.close()

    def _finish(self, slot: Slot, result: Result) -> None:
        assert slot.run
        if result.outcome in ("stopped", "not started") and not self.stopping:
            return  # somebody else stopped the process: it will end, and the run be restarted
        if result.outcome == "finished before":  # it died between its record and this message
            result.outcome = "done"
        self._record_result(slot.run, result)
        slot.run = slot.reporter = None

    def _restart(self, slot: Slot, reason: str) -> None:
        """After the death of its process, queue a run again, or give it up."""
        run, reporter = slot.run, slot.reporter
        assert run
        assert reporter
        slot.run = slot.reporter = None
        run.deaths = 1 if self._checkpoint_time(run) != run.checkpoint else run.deaths + 1
        if run.timed_out:
            limit = self.options.timeout_seconds or 0.0
            self._fail(run, TimedOut(f"it took longer than {limit / 60:g} minutes (--timeout)"))
        elif self.stopping:
            self._record_result(run, Result(run.spec, "stopped", remark=reason))
        elif run.deaths <= MAX_RESTARTS:
            reporter.note(f"{reason}; starting it again")
            self.table.rows.pop(run.position)
            self.waiting.appendleft(run)
        else:
            self._fail(run, WorkerDied(f"{reason}, {run.deaths} times in a row without progress"))

    def _fail(self, run: PendingRun, error: Exception) -> None:
        with suppress(UserError):  # the summary shows it in any case
            self.store.fail(run.spec, error)
        self._record_result(run, Result(run.spec, "failed", remark=str(error)))

    def _record_result(self, run: PendingRun, result: Result) -> None:
        self.results[run.position] = result
        self.table.end_run(run.position, result)

    def _checkpoint_time(self, run: PendingRun) -> int:
        """When the checkpoint of a run was written, in nanoseconds; 0 if there is none."""
        with suppress(OSError):
            return (self.store.folder(run.spec) / "checkpoint.pt").stat().st_mtime_ns
        return 0


def describe_exit(code: int) -> str:
    """Describe how a process ended without finishing its run."""
    if code == 0:
        return "its process ended by itself (asked to stop, or os._exit)"
    if code > 0:
        return f"its process ended with exit code {code}"
    hint = signal.Signals(-code).name
    if -code == signal.SIGKILL:
        hint = "out of memory?"
    return f"its process was killed by signal {-code} ({hint})"
