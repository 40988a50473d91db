"""The far side of ``processes``: a process that does one run after another for its parent."""

import os
import pickle
import signal
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sdgbench.launch.one import Order


@dataclass(frozen=True)
class Setup:
    """What a worker must know before its first run."""

    order: "Order"
    device: str
    threads: int
    plugins: tuple[Path, ...]
    beside: int = 0  # how many other processes run at the same time


class Parent:
    """The line to the parent: runs come in, news go out.

    A thread listens, so that a step costs nothing to ask whether to stop. The line also breaks
    when the parent dies, however it died: then the worker saves its run and ends, too.
    """

    def __init__(self, handle: int) -> None:
        self.line: Connection[Any, Any] = Connection(handle)
        self.letters: SimpleQueue[bytes] = SimpleQueue()
        self.stop_asked = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while letter := self.line.recv_bytes():
                self.letters.put(letter)
        self.stop()

    def stop(self, *_: object) -> None:
        """Save at the next step and do no more runs."""
        self.stop_asked = True
        self.letters.put(b"")

    def tell(self, *news: object) -> None:
        """Send news; if nobody listens any more, the thread will notice."""
        with suppress(OSError):
            self.line.send(news)

    def news(self, name: str) -> Callable[..., None]:
        """A function that sends its arguments under a name."""
        return lambda *values: self.tell(name, *values)


class Told:
    """A reporter that tells the parent."""

    def __init__(self, parent: Parent) -> None:
        self.begin, self.update = parent.news("begin"), parent.news("update")
        self.end, self.note = parent.news("end"), parent.news("note")


def main(handle: int) -> None:
    """Work until there is no more, a stop is asked for, or the parent is gone."""
    parent = Parent(handle)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, parent.stop)
    import torch

    from sdgbench import registry
    from sdgbench.device import BESIDE, Device
    from sdgbench.launch.one import Result, run_one

    if not (letter := parent.letters.get()):
        return
    setup: Setup = pickle.loads(letter)
    os.environ[BESIDE] = str(setup.beside)
    torch.set_num_threads(setup.threads)
    for file in setup.plugins:
        registry.add_plugin(file)
    device = Device(setup.device, setup.order.execution)
    if device.kind == "cuda":
        torch.cuda.set_device(device.torch)
    while letter := parent.letters.get():
        spec = pickle.loads(letter)
        result = Result(spec, "not started")
        if not parent.stop_asked:
            result = run_one(
                spec, setup.order, device, nullcontext(Told(parent)), lambda: parent.stop_asked,
                lambda error: parent.tell("crash", _traceback()),
            )  # fmt: skip
        parent.tell("result", result)


def _traceback() -> str:
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as printed:
        console.print_exception(max_frames=8)
    return printed.get()
