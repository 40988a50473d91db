"""Runs a matrix in several processes of this machine: no failure and no kill stops the rest."""

import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from typing import Any

import joblib
import torch
from rich.console import Console

from sdgbench import registry
from sdgbench.device import Device
from sdgbench.errors import UserError
from sdgbench.launch.board import Board, Row
from sdgbench.launch.hands import Hands, threads_of_each
from sdgbench.launch.here import run_here
from sdgbench.launch.one import Order, Result, without_running
from sdgbench.launch.summary import conclude
from sdgbench.launch.worker import Setup
from sdgbench.progress import Lines
from sdgbench.record import Store
from sdgbench.runner import StopSignal
from sdgbench.spec import RunSpec

RESTARTS = 3  # of a run whose process died, in a row and without a new checkpoint
TICK = 0.2  # seconds


class WorkerDied(RuntimeError):
    """The process of a run died again and again."""


@dataclass
class Job:
    """A run of the matrix that is not at its end."""

    position: int
    spec: RunSpec
    starts: int = 0
    deaths: int = 0  # since the last sign of progress
    checkpoint: int = 0  # when it was written, in nanoseconds, as the latest start found it


def run_in_processes(
    specs: Sequence[RunSpec], order: Order, jobs: int | None, spare: Sequence[Hands] = ()
) -> int:
    """Run what is missing in ``jobs`` processes (None: as many as the machine suggests).

    ``spare`` are so many processes that were started in advance.
    """
    places = share_out(Device(order.device, order.execution), jobs, len(specs))
    if len(places) == 1:
        return run_here(specs, order)
    Store(order.runs).check(writable=True)
    console = Console(highlight=False)
    with StopSignal() as stop, Board(console, len(specs)) as board:
        crew = Crew(order, places, board, spare if len(spare) == len(places) else ())
        try:
            results = crew.run(specs, stop)
        except KeyboardInterrupt:
            crew.kill()
            raise
        finally:
            crew.dismiss()
    return conclude(results, console, order.runs)


def share_out(device: Device, jobs: int | None, runs: int) -> list[str]:
    """The device of each process.

    Neither their number nor their threads depend on which runs are still missing: on a CPU,
    another number of threads may give other last bits, and a resumed run must not.
    """
    devices = [str(device.torch)]
    if device.kind == "cuda" and device.torch.index is None:
        devices = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if jobs is None:
        jobs = joblib.cpu_count() if device.kind == "cpu" else len(devices)
    return [devices[index % len(devices)] for index in range(min(jobs, runs))]


class Worker:
    """One process, which does a run at a time; torch loads once for all of them."""

    def __init__(self, setup: Setup, hands: Hands) -> None:
        self.hands, self.process, self.line = hands, hands.process, hands.line
        self.job: Job | None = None
        self.reporter: Row | Lines | None = None
        self.shown = 0
        self.send(pickle.dumps(setup))

    def send(self, letter: bytes) -> None:
        """Send a run, or nothing for a stop. To the dead in vain, which ``receive`` finds out."""
        with suppress(OSError):
            self.line.send_bytes(letter)

    def receive(self) -> list[tuple[Any, ...]] | None:
        """All news that have come; None once the process is gone and all its news are read."""
        news = []
        ended = self.process.poll() is not None  # asked first: what it sent before is then here
        try:
            while self.line.poll():
                news.append(self.line.recv())
        except (EOFError, OSError):  # in the middle of a message, too
            self.hands.await_end()
            ended = True
        return news if news or not ended else None

    def printed(self) -> list[str]:
        """Whole lines that the process printed since the last call; all when it has ended."""
        text = os.pread(self.hands.output.fileno(), 1 << 20, self.shown)
        if self.process.poll() is None:
            text = text[: text.rfind(b"\n") + 1]
        self.shown += len(text)
        return [line for line in text.decode(errors="replace").splitlines() if line.strip()]


class Crew:
    """The processes and who does what."""

    def __init__(
        self, order: Order, places: Sequence[str], board: Board, spare: Sequence[Hands]
    ) -> None:
        self.order, self.store, self.board = order, Store(order.runs), board
        # What is finished or failed is settled here, once: after a death a run must go on.
        quiet = replace(order, redo=False, retry=True)
        threads, plugins = threads_of_each(len(places)), tuple(registry.plugins())
        beside = len(places) - 1
        self.setups = [Setup(quiet, place, threads, plugins, beside) for place in places]
        self.workers: dict[int, Worker] = {}  # by place
        self.spare = list(spare)
        self.waiting: deque[Job] = deque()
        self.results: dict[int, Result] = {}  # by position
        self.stopping = False

    def run(self, specs: Sequence[RunSpec], stop: Callable[[], bool]) -> list[Result]:
        """Run all; the results come in the order of the runs."""
        self.waiting.extend(Job(position, spec) for position, spec in enumerate(specs, 1))
        while len(self.results) < len(specs):
            if stop() and not self.stopping:
                self._stop()
            for place in range(len(self.setups)):
                self._employ(place)
            wait([worker.line for worker in self.workers.values()], TICK)
            for place, worker in list(self.workers.items()):
                self._attend(place, worker)
            self.board.refresh()
        return [self.results[position] for position in sorted(self.results)]

    def kill(self) -> None:
        """End all processes at once."""
        for worker in self.workers.values():
            worker.process.kill()

    def dismiss(self) -> None:
        """End all processes; whoever still works saves first."""
        for worker in self.workers.values():
            if worker.job is None:
                worker.process.kill()  # it has nothing to save, and torch takes a second to go
            worker.line.close()
        for worker in self.workers.values():
            worker.hands.await_end()
            worker.hands.close()

    def _stop(self) -> None:
        self.stopping = True
        for worker in self.workers.values():
            worker.send(b"")
        while self.waiting:
            job = self.waiting.popleft()
            self._settle(job, Result(job.spec, "stopped" if job.starts else "not started"))

    def _employ(self, place: int) -> None:
        """Give a free place the next run that needs work."""
        worker = self.workers.get(place)
        while self.waiting and (worker is None or worker.job is None):
            job = self.waiting.popleft()
            if not job.starts and (result := self._without_running(job.spec)):
                self._settle(job, result)
                continue
            if worker is None:
                hands = self.spare.pop() if self.spare else Hands(len(self.setups))
                worker = Worker(self.setups[place], hands)
                self.workers[place] = worker
            job.starts, job.checkpoint = job.starts + 1, self._checkpoint(job)
            worker.job, worker.reporter = job, self.board.open(job.position, job.spec)
            worker.send(pickle.dumps(job.spec))

    def _without_running(self, spec: RunSpec) -> Result | None:
        try:
            return without_running(spec, self.order)
        except UserError as error:
            return Result(spec, "refused", remark=str(error))

    def _attend(self, place: int, worker: Worker) -> None:
        news = worker.receive()
        for line in worker.printed():
            if worker.reporter:
                worker.reporter.note(line)
        for name, *values in news or ():
            if name == "result":
                self._end(worker, values[0])
            elif name == "crash":
                self.board.console.print(values[0], markup=False, highlight=False, end="")
            else:
                getattr(worker.reporter, name)(*values)
        if news is None:
            del self.workers[place]
            if worker.job:
                self._lost(worker, death(worker.hands.await_end()))
            worker.hands.close()

    def _end(self, worker: Worker, result: Result) -> None:
        assert worker.job
        if result.outcome in ("stopped", "not started") and not self.stopping:
            return  # somebody else told it to: it will end, and the run go on in another process
        if result.outcome == "finished before":  # it died between its record and this message
            result.outcome = "done"
        self._settle(worker.job, result)
        worker.job = worker.reporter = None

    def _lost(self, worker: Worker, reason: str) -> None:
        """The process of a run is gone: start the run again from its checkpoint, or give up."""
        job, reporter = worker.job, worker.reporter
        assert job
        assert reporter
        worker.job = worker.reporter = None
        job.deaths = 1 if self._checkpoint(job) != job.checkpoint else job.deaths + 1
        if self.stopping:
            self._settle(job, Result(job.spec, "stopped", remark=reason))
        elif job.deaths <= RESTARTS:
            reporter.note(f"{reason}; starting it again")
            self.board.rows.pop(job.position)
            self.waiting.appendleft(job)
        else:
            error = WorkerDied(f"{reason}, {job.deaths} times in a row without progress")
            with suppress(UserError):  # the summary has it in any case
                self.store.fail(job.spec, error)
            self._settle(job, Result(job.spec, "failed", remark=str(error)))

    def _settle(self, job: Job, result: Result) -> None:
        self.results[job.position] = result
        self.board.close(job.position, result)

    def _checkpoint(self, job: Job) -> int:
        with suppress(OSError):
            return (self.store.folder(job.spec) / "checkpoint.pt").stat().st_mtime_ns
        return 0


def death(code: int) -> str:
    """How a process died, in words."""
    if code == 0:  # it ends by itself only when a signal asks it to
        return "its process was told to stop"
    if code > 0:
        return f"its process ended with exit code {code}"
    hint = signal.Signals(-code).name
    if -code == signal.SIGKILL:
        hint = "out of memory?"
    return f"its process was killed by signal {-code} ({hint})"
