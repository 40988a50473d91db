"""Stops a run on Ctrl-C, SIGTERM or another signal: at the next step, with its state saved."""

import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

from sdgbench.training import distributed

STOPPING = "Stopping after this step and saving; Ctrl-C again to stop at once."


def print_stopping() -> None:
    """Say that a stop was requested, on a line of its own."""
    print(f"\n{STOPPING}", file=sys.stderr)


class StopSignal:
    """Ctrl-C and SIGTERM request a stop at the next step; a second Ctrl-C stops at once.

    ``also`` are more signals that request it; ``number`` is the signal that came last.
    ``announce`` tells the user: it is called once, from the handler of the signal.
    """

    def __init__(
        self, *also: signal.Signals, announce: Callable[[], object] = print_stopping
    ) -> None:
        self._announce = announce
        self.requested = False
        self.number: int | None = None
        # SIGHUP: the terminal was closed. Windows has none; nohup asks to ignore it.
        hangup = getattr(signal, "SIGHUP", None)
        closing = (hangup,) if hangup and signal.getsignal(hangup) != signal.SIG_IGN else ()
        self._numbers = (signal.SIGINT, signal.SIGTERM, *closing, *also)
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Whether a stop was requested."""
        return self.requested

    def __enter__(self) -> Self:
        for number in self._numbers:
            with suppress(ValueError):  # not in the main thread: the caller owns the signals
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # Among several processes one must not stop at once: the others would wait for it.
        if self.requested and number == signal.SIGINT and distributed.size() == 1:
            raise KeyboardInterrupt
        first, self.requested, self.number = not self.requested, True, number
        if first and distributed.is_rank_zero():
            with suppress(OSError):  # the terminal is gone
                self._announce()
