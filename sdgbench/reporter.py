"""How long work reports its progress: the interface, and a reporter that shows nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class PlannedStage:
    """A stage that a run will have."""

    label: str
    cost: float  # expected, in any unit that all stages of the run share


class Reporter(Protocol):
    """Receives the progress of downloads, training and evaluation, one stage after another."""

    def plan(self, stages: Sequence[PlannedStage], over: int = 0) -> None:
        """Announce the stages of a whole run, of which the first ``over`` are over."""

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Start a stage of ``total`` steps, of which ``done`` were done by an earlier process."""

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """Report the steps done so far, the latest loss and the images per second."""

    def end(self) -> None:
        """End the stage."""

    def note(self, text: str) -> None:
        """Show a message on a line of its own."""


class Silent:
    """A reporter that shows nothing."""

    def plan(self, stages: Sequence[PlannedStage], over: int = 0) -> None:
        """Ignore the plan."""

    def begin(self, label: str, total: int, done: int = 0) -> None:
        """Ignore the start of a stage."""

    def update(self, done: int, loss: float | None, rate: float) -> None:
        """Ignore the progress."""

    def end(self) -> None:
        """Ignore the end of a stage."""

    def note(self, text: str) -> None:
        """Ignore the message."""
