"""A worker process as its parent sees it: started early, so that both load torch at once."""

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from typing import Any

from sdgbench.launch.cpu_count import available_cpus

EXIT_SECONDS = 10.0  # for a process that should end to do so, before it is killed


class WorkerProcess:
    """One process of a pool, with the connection to it and the file that it prints to."""

    def __init__(self, processes: int) -> None:
        self.connection, far = Pipe()
        self._shown = 0  # bytes of the output that printed_lines has returned
        # A file, not a pipe: what a method prints must neither block it nor break with its reader.
        self.output = tempfile.TemporaryFile()  # noqa: SIM115
        start = f"import sys; sys.path[:] = {sys.path!r}\nfrom sdgbench.launch.worker import main"
        threads, columns = str(threads_per_process(processes)), shutil.get_terminal_size().columns
        with far:
            self.process = subprocess.Popen(
                [sys.executable, "-c", f"{start}\nmain({far.fileno()})"],
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": threads,
                    "MKL_NUM_THREADS": threads,
                    "COLUMNS": str(columns),
                    "PYTHONUNBUFFERED": "1",
                    "PYTHONFAULTHANDLER": "1",
                },
                start_new_session=True,  # a terminal's Ctrl-C is the parent's to pass on
            )

    def send(self, value: object) -> None:
        """Send the setup or a run. If the process is dead this does nothing: see ``receive``."""
        with suppress(OSError):
            self.connection.send_bytes(pickle.dumps(value))

    def send_stop(self) -> None:
        """Ask the process to save its run at the next step and to end."""
        with suppress(OSError):
            self.connection.send_bytes(b"")

    def receive(self) -> list[tuple[Any, ...]] | None:
        """All events that have come; None once the process is dead and all its events are read."""
        events = []
        ended = self.process.poll() is not None  # checked first: what it sent before is then here
        try:
            while self.connection.poll():
                events.append(self.connection.recv())
        except (EOFError, OSError):  # in the middle of a message, too
            self.wait()
            ended = True
        return events if events or not ended else None

    def printed_lines(self) -> list[str]:
        """Whole lines that the process printed since the last call; all when it has ended."""
        text = os.pread(self.output.fileno(), 1 << 20, self._shown)
        if self.process.poll() is None:
            text = text[: text.rfind(b"\n") + 1]
        self._shown += len(text)
        return [line for line in text.decode(errors="replace").splitlines() if line.strip()]

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()

    def wait(self) -> int:
        """Wait for the process to end, kill it if it does not, and return its exit code."""
        try:
            return self.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def close(self) -> None:
        """Close the connection, at which the process saves its run and ends, and the output."""
        self.connection.close()
        self.output.close()


@contextmanager
def prestart(processes: int) -> Iterator[list[WorkerProcess]]:
    """Start worker processes before their runs are known; none of them outlives the block."""
    workers = [WorkerProcess(processes) for _ in range(processes)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.process.wait()
            worker.close()


def threads_per_process(processes: int) -> int:
    """Threads of the libraries of each process: its share of the CPUs, at most OMP_NUM_THREADS.

    A run on a CPU computes with its own number of threads, whatever the share is.
    """
    share = max(1, available_cpus() // processes)
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(allowed)) if allowed.isdigit() and int(allowed) else share
