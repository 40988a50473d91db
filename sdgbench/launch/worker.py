"""What a worker process does: one run after another for its parent (``worker_pool``)."""

import os
import pickle
import signal
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdgbench.launch.attempt import RunOptions
    from sdgbench.spec.run_spec import RunSpec


@dataclass(frozen=True)
class WorkerSetup:
    """What a worker must know before its first run."""

    options: "RunOptions"
    device: str
    plugins: tuple[Path, ...]
    other_processes: int = 0  # how many run at the same time
    on_device: int = 1  # how many of them, and this one, use the same GPU
    share_folder: Path | None = None  # where they agree on who has it alone


class ParentConnection:
    """The worker's end of the connection: runs come in, events go out.

    A thread fills the inbox, so that a step costs nothing to check for a stop. The connection
    also breaks when the parent dies, however it died: then the worker saves its run and ends, too.
    """

    def __init__(self, handle: int) -> None:
        self.connection: Connection[Any, Any] = Connection(handle)
        self.inbox: SimpleQueue[bytes] = SimpleQueue()  # pickled; empty bytes: stop
        self.stop_requested = False
        threading.Thread(target=self._fill_inbox, daemon=True).start()

    def _fill_inbox(self) -> None:
        with suppress(EOFError, OSError):
            while message := self.connection.recv_bytes():
                self.inbox.put(message)
        self.stop()

    def stop(self, *_: object) -> None:
        """Save at the next step and do no more runs."""
        self.stop_requested = True
        self.inbox.put(b"")

    def send(self, *event: object) -> None:
        """Send an event: its name and its values. If the parent is gone, the thread notices."""
        with suppress(OSError):
            self.connection.send(event)

    def sender(self, name: str) -> Callable[..., None]:
        """A function that sends its arguments as the event of this name."""
        return lambda *values: self.send(name, *values)


class PipeReporter:
    """A reporter that sends each call to the parent, as an event with the method's name."""

    def __init__(self, parent: ParentConnection) -> None:
        self.plan, self.begin = parent.sender("plan"), parent.sender("begin")
        self.update = parent.sender("update")
        self.end, self.note = parent.sender("end"), parent.sender("note")


def main(handle: int) -> None:
    """Execute runs until there are no more, a stop is requested, or the parent is gone."""
    parent = ParentConnection(handle)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, parent.stop)
    import torch

    from sdgbench import registry
    from sdgbench.launch.attempt import Result, run_one
    from sdgbench.training.device import CONCURRENT_RUNS, Device
    from sdgbench.training.sharing import DeviceShare

    if not (message := parent.inbox.get()):
        return
    setup: WorkerSetup = pickle.loads(message)
    os.environ[CONCURRENT_RUNS] = str(setup.other_processes)
    for file in setup.plugins:
        registry.add_plugin(file)
    device = Device(setup.device, setup.options.execution)
    if device.kind == "cuda":
        torch.cuda.set_device(device.torch)
    if setup.share_folder:
        device.share = DeviceShare(setup.share_folder, setup.device, setup.on_device)

    def should_stop() -> bool:
        if device.share:
            device.share.pause_if_asked(device.synchronise)
        return parent.stop_requested

    while message := parent.inbox.get():
        spec = pickle.loads(message)
        result = Result(spec, "not started")
        if not parent.stop_requested:
            with device.share.working() if device.share else nullcontext():
                result = run_one(
                    spec,
                    setup.options,
                    device,
                    nullcontext(PipeReporter(parent)),
                    should_stop,
                    partial(_send_crash, parent, spec),
                )
        parent.send("result", result)


def _send_crash(parent: ParentConnection, spec: "RunSpec", error: Exception) -> None:
    from sdgbench.launch.crash import describe_crash

    parent.send("crash", describe_crash(error, spec))
