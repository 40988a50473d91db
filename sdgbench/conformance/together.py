"""Checks on several datasets at once, each dataset in a process of its own."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import joblib

from sdgbench import registry
from sdgbench.conformance.checks import CHECKS
from sdgbench.conformance.outcome import Check, Result, examine, not_checked
from sdgbench.conformance.world import World

ONCE = [check for check in CHECKS if check.once]
EACH = [check for check in CHECKS if not check.once]


def examine_all(
    worlds: Sequence[World], begin: Callable[[Check], object]
) -> Iterator[list[Result]]:
    """Run all checks; for each, its results on all datasets. ``begin`` is told before each."""
    roots: dict[str, str] = {}
    with ExitStack() as stack:
        alone = len(worlds) == 1 or joblib.cpu_count() == 1
        # The others load torch while the checks that are made once run here.
        others = [] if alone else [stack.enter_context(_Elsewhere(world)) for world in worlds]
        once = examine(ONCE, worlds[0], roots)
        for check in ONCE:
            begin(check)
            yield [next(once)]
        streams = [other.results(roots) for other in others] or [
            examine(EACH, world, dict(roots)) for world in worlds
        ]
        for check in EACH:
            begin(check)
            yield [next(stream) for stream in streams]


class _Elsewhere:
    """Another process that checks on one dataset."""

    def __init__(self, world: World) -> None:
        self.world = world
        spawn = get_context("spawn")  # threads of torch do not survive a fork
        self.ours, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_work, args=(theirs, world, registry.plugins()))
        self.process.start()
        theirs.close()  # so that its end is seen here

    def __enter__(self) -> "_Elsewhere":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.join()

    def results(self, roots: dict[str, str]) -> Iterator[Result]:
        """Hand over what failed so far, and wait for each result."""
        with suppress(OSError):  # it is dead already, which the first result will tell
            self.ours.send(roots)
        for position, check in enumerate(EACH):
            try:
                yield self.ours.recv()
            except (EOFError, OSError):
                self.process.join()
                name = self.world.dataset_name
                died = f"The process of this check died (exit code {self.process.exitcode})."
                yield Result(check, name, "failed", died)
                for unseen in EACH[position + 1 :]:
                    yield not_checked(unseen, name, check.name)
                return


def _work(parent: Connection, world: World, plugins: Sequence[Path]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    import torch

    from sdgbench.device import keep_freed_memory

    torch.set_num_threads(1)
    keep_freed_memory()
    for file in plugins:
        registry.add_plugin(file)
    for result in examine(EACH, world, parent.recv()):
        parent.send(result)
