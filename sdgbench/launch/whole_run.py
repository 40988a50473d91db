"""How far a whole run is, and how long it will still take, from its plan and its pace so far."""

import time
from collections.abc import Sequence

from sdgbench.reporter import PlannedStage


class WholeRun:
    """Adds up the stages of a run by their expected cost.

    The time left follows the measured pace of each kind of stage. For a kind that has not begun,
    it is the mean pace so far, in seconds per unit of expected cost.
    """

    def __init__(self) -> None:
        self.stages: Sequence[PlannedStage] = ()
        self.index = -1  # of the current stage
        self._in_plan = False  # whether what is done now is the current stage
        self._fraction = self._first = self._began = 0.0  # of the current stage
        self._measured: dict[str, tuple[float, float]] = {}  # by label: seconds and cost

    def plan(self, stages: Sequence[PlannedStage], over: int) -> None:
        """Take over the stages of the run, of which the first ``over`` are over."""
        self.stages, self.index, self._in_plan = stages, over - 1, False
        self._fraction = 1.0

    def begin(self, label: str, total: int, done: int) -> None:
        """Go on to the next stage, if this is one of the plan."""
        self._keep_pace()
        following = self.stages[self.index + 1 : self.index + 2]
        self._in_plan = any(stage.label == label for stage in following)
        if self._in_plan:
            self.index += 1
            self._fraction = self._first = done / total if total else 1.0
            self._began = time.monotonic()

    def update(self, done: int, total: int) -> None:
        """Set how much of the current stage is done."""
        if self._in_plan and total:
            self._fraction = min(1.0, done / total)

    def share(self) -> float | None:
        """The share of the run that is done, by expected cost; None before its plan is known."""
        whole = sum(stage.cost for stage in self.stages)
        if not whole:
            return None
        over = sum(stage.cost for stage in self.stages[: max(0, self.index)])
        current = self.stages[self.index].cost if self.index >= 0 else 0.0
        return (over + self._fraction * current) / whole

    def position(self) -> str:
        """The number of the current stage, such as 4/13; empty if there is only one."""
        in_plan = len(self.stages) > 1 and self.index >= 0
        return f"{self.index + 1}/{len(self.stages)}" if in_plan else ""

    def seconds_left(self) -> float | None:
        """Seconds to the end of the run; None before its first steps."""
        measured = dict(self._measured)
        if self._in_plan:
            label = self.stages[self.index].label
            measured[label] = self._with_current(label)
        seconds = sum(seconds for seconds, _ in measured.values())
        cost = sum(cost for _, cost in measured.values())
        if not cost:
            return None
        left = 0.0
        for index, stage in enumerate(self.stages[max(0, self.index) :], max(0, self.index)):
            rest = stage.cost * (1 - self._fraction if index == self.index else 1)
            stage_seconds, stage_cost = measured.get(stage.label, (0.0, 0.0))
            left += rest * (stage_seconds / stage_cost if stage_cost else seconds / cost)
        return left

    def _keep_pace(self) -> None:
        if self._in_plan:
            label = self.stages[self.index].label
            self._measured[label] = self._with_current(label)

    def _with_current(self, label: str) -> tuple[float, float]:
        """Seconds and cost of this kind of stage in this process, the current stage included."""
        seconds, cost = self._measured.get(label, (0.0, 0.0))
        done = (self._fraction - self._first) * self.stages[self.index].cost
        return seconds + time.monotonic() - self._began, cost + done
