"""Processes that are started to be killed."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    """Made for each call: SLURM_CONF comes with the cluster."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


class Command:
    """A command in a session of its own, which prints into a file.

    It is a fork of this process, which has loaded torch: many more kills in a minute. Its workers
    and jobs are ordinary processes.
    """

    def __init__(self, arguments: list[str], log: Path) -> None:
        self.log = log
        log.write_bytes(b"")
        self.fork = multiprocessing.get_context("fork").Process(target=self._main, args=[arguments])
        self.fork.start()
        assert self.fork.pid
        self.pid = self.fork.pid

    def _main(self, arguments: list[str]) -> None:
        os.setsid()
        os.environ.update(environment())
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for number in (1, 2):
            os.dup2(os.open(self.log, os.O_WRONLY | os.O_APPEND), number)
        if arguments[0] == "--standalone":
            from torch.distributed.run import main
        else:
            from sdgbench.cli.app import main
        main(arguments)

    def poll(self) -> int | None:
        return self.fork.exitcode

    def kill(self) -> None:
        """Kill this process alone; those that it has started live on."""
        self.fork.kill()

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def tail(self) -> str:
        return self.text()[-2000:]


def preload() -> float:
    """Load here what forks need; return how long a process takes to load it."""
    began = time.monotonic()
    import torch
    import torch.distributed.run

    import sdgbench.cli.app
    import sdgbench.launch.execute
    import sdgbench.launch.local
    import sdgbench.launch.worker_pool  # noqa: F401

    torch.set_num_threads(1)
    torch.optim.Adam([torch.zeros(1)])  # the first one loads torch's compiler
    return time.monotonic() - began


def born(pid: int) -> int | None:
    """When a process was started, in ticks: a number of a process is used again; None: it ended."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    return None


def words_of(pid: int) -> str:
    """The command line of a process; empty if there is none."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def descendants(pid: int) -> dict[int, int | None]:
    """The processes that a process has started, and theirs, with the time of their births."""
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parent = int(file.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(file.parent.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return {child: born(child) for child in found}


def kill(pid: int, birth: int | None) -> None:
    """Kill the process of this number that was started then, and no other."""
    if birth is not None and born(pid) == birth:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end_all(command: Command) -> None:
    """Kill a command and all processes that it has started: workers have sessions of their own."""
    if command.poll() is None:
        below = descendants(command.pid)
        command.kill()
        for pid, birth in below.items():
            kill(pid, birth)
        wait_until(lambda: command.poll() is not None, 60.0)


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Poll until it holds; False: it did not within this time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
