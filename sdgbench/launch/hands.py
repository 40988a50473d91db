"""Processes that load torch while their parent still does, and then wait for work."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe

import joblib

PATIENCE = 10.0  # seconds for a process that should end to do so


class Hands:
    """One process of several, with the line to it and the file that it prints to."""

    def __init__(self, processes: int) -> None:
        self.line, far = Pipe()
        # A file, not a pipe: what a method prints must neither block it nor break with its reader.
        self.output = tempfile.TemporaryFile()  # noqa: SIM115
        start = f"import sys; sys.path[:] = {sys.path!r}\nfrom sdgbench.launch.worker import main"
        threads, columns = str(threads_of_each(processes)), shutil.get_terminal_size().columns
        with far:
            self.process = subprocess.Popen(
                [sys.executable, "-c", f"{start}\nmain({far.fileno()})"],
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads,
                     "COLUMNS": str(columns), "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"},
                start_new_session=True,  # a terminal's Ctrl-C is the parent's to pass on
            )  # fmt: skip

    def await_end(self) -> int:
        """Wait for the end of the process, not for ever; return its exit code."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def close(self) -> None:
        """Let go of everything; without its line the process ends."""
        self.line.close()
        self.output.close()


@contextmanager
def in_advance(processes: int) -> Iterator[list[Hands]]:
    """Start processes before it is known for what; in the end none of them is left."""
    started = [Hands(processes) for _ in range(processes)]
    try:
        yield started
    finally:
        for hands in started:
            hands.process.kill()
            hands.process.wait()
            hands.close()


def threads_of_each(processes: int) -> int:
    """How many threads each process may use, no more than the user allows a single one."""
    share = max(1, joblib.cpu_count() // processes)
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(allowed)) if allowed.isdigit() and int(allowed) else share
