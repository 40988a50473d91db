"""The training loop: phases, batches, the curve, validation, checkpoints."""

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from sdgbench import checkpoint, parallel
from sdgbench.dataset import Domain
from sdgbench.device import Device
from sdgbench.errors import Interrupted, UserError, explain_os_errors
from sdgbench.evaluate import score_domain
from sdgbench.feed import Feed
from sdgbench.method import Method, Phase
from sdgbench.networks import Network
from sdgbench.progress import Reporter
from sdgbench.seeds import seed_everything
from sdgbench.stream import open_images

POINTS_PER_PHASE = 200  # of the curve


class Diverged(RuntimeError):
    """The loss is no longer a number; going on would waste the user's time."""


@dataclass
class Position:
    """Where a run stands. All of it is in the checkpoint."""

    phase: int = 0
    step: int = 0  # within the phase
    curve_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # per kind of work
    images_forward: int = 0
    images_with_gradient: int = 0
    starts: int = 0
    machines: list[dict[str, Any]] = field(default_factory=list)  # that it ran on, in turn
    best: dict[str, Any] | None = None  # source validation's choice: step, score, weights
    last_score: float | None = None  # source validation at its last turn
    loss_sum: Tensor | float = 0.0
    loss_count: int = 0


def phase_key(index: int, phase: Phase) -> str:
    """What a phase's seconds are counted under."""
    return f"{index} {phase.name}"


class Clock:
    """Adds up the seconds of each kind of work; one kind runs at a time."""

    def __init__(self, spent: dict[str, float], device: Device) -> None:
        self.spent, self.device, self.kind, self.since = spent, device, "", 0.0

    def start(self, kind: str) -> None:
        """Work of this kind begins."""
        self.kind, self.since = kind, time.perf_counter()

    def stop(self) -> None:
        """The work is done, on the device too."""
        self.device.synchronise()
        self.spent[self.kind] = self.seconds(self.kind)
        self.kind = ""

    def seconds(self, kind: str) -> float:
        """Seconds of this kind so far."""
        running = time.perf_counter() - self.since if kind == self.kind else 0.0
        return self.spent.get(kind, 0.0) + running

    @contextmanager
    def aside(self, kind: str) -> Iterator[None]:
        """Let other work be counted for itself."""
        main = self.kind
        self.stop()
        self.start(kind)
        yield
        self.stop()
        self.start(main)


class Trainer:
    """Carries a method through its plan, from wherever it stands."""

    def __init__(
        self,
        method: Method,
        source: Domain,
        validation: Domain,
        folder: Path,
        run_id: str,
        reporter: Reporter,
        checkpoint_seconds: float = 300.0,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.method, self.folder, self.run_id, self.reporter = method, folder, run_id, reporter
        self.checkpoint_seconds, self.should_stop = checkpoint_seconds, should_stop
        self.device, self.recipe, self.seed = method.device, method.recipe, method.seed
        self.source = open_images(source, self.device)
        self.validation = open_images(validation, self.device)
        self.plan = list(method.plan())
        self.train_total = sum(phase.steps for phase in self.plan if phase.name == "train")
        self.feeds: dict[str, Feed] = {}
        self.at = Position()
        self._clock = Clock(self.at.seconds, self.device)
        self.saved_at = time.monotonic()
        self._counted = (0, 0)
        for phase in self.plan:
            if not hasattr(method, f"{phase.name}_step"):
                raise UserError(f'Method "{method.name}" plans a phase "{phase.name}" but has no '
                                f"{phase.name}_step.")  # fmt: skip

    # The loop ------------------------------------------------------------------------------

    def run(self) -> Position:
        """Train to the end of the plan; returns the final position."""
        with closing(self.source), closing(self.validation):
            self._restore()
            self.at.starts += 1
            if self.device.describe() not in self.at.machines[-1:]:
                self.at.machines.append(self.device.describe())
            while self.at.phase < len(self.plan):
                phase = self.plan[self.at.phase]
                self._run_phase(phase)
                self.at.phase, self.at.step = self.at.phase + 1, 0
                if not self._goes_on(phase):
                    self.method.pool.end_domain()
                self._save(finished=self.at.phase == len(self.plan))
        return self.at

    def _run_phase(self, phase: Phase) -> None:
        step_of = getattr(self.method, f"{phase.name}_step")
        feeds = self._feeds_of(phase)
        scaler, untried, several = self.method.scaler, self.device.compiling, parallel.size() > 1
        log_every = max(1, phase.steps // POINTS_PER_PHASE)
        recent: float | None = None
        kind = phase_key(self.at.phase, phase)
        shown, shown_seconds, images = time.perf_counter(), self._clock.seconds(kind), 0
        self.reporter.begin(phase.name, phase.steps, self.at.step)
        if several and not self.method.shardable(phase):
            self.reporter.note(f"{phase.name}: its batches cannot be divided, so each of the "
                               f"{parallel.size()} processes does all of them")  # fmt: skip
        if self.at.step == 0:
            seed_everything(self.seed, "begin", self.at.phase)
            self.method.begin(phase)
            for feed in feeds:
                feed.begin()
        for module in checkpoint.modules(self.method).values():
            parallel.share_statistics(module)
        self._training_mode(True)
        self._clock.start(kind)
        while self.at.step < phase.steps:
            seed_everything(self.seed, "method", self.at.phase, self.at.step)
            in_pool = len(self.method.pool)
            part = self._part(phase, feeds) if several else None
            batch = [tensor for feed in feeds for tensor in feed.next(part)]
            with self.device.autocast(), parallel.sharing(part):
                if untried:
                    loss, untried = self._try_compiled(step_of, batch), False
                else:
                    loss = step_of(*batch)
            if feeds and len(self.method.pool) > in_pool:
                self.method.pool.trace(in_pool, feeds[0].origins)
            self.at.step += 1
            images += part.total if part else len(batch[0]) if batch else 0
            if loss is not None and not (scaler and scaler.skipped):
                self.at.loss_sum = self.at.loss_sum + loss  # stays on the device until it is read
                self.at.loss_count += 1
            if self.at.step % log_every == 0 or self.at.step == phase.steps:
                recent = self._log(phase)
            if self._validation_is_due(phase):
                with self._clock.aside("validation"):
                    self._validate()
            stop = self.should_stop()
            if stop or time.monotonic() - self.saved_at > self.checkpoint_seconds:
                with self._clock.aside("checkpoint"):
                    self._save()
            if stop:
                raise Interrupted(f"at {self._place()}")
            if time.perf_counter() - shown > 0.25 or self.at.step == phase.steps:
                seconds = self._clock.seconds(kind)
                self.reporter.update(self.at.step, recent, images / (seconds - shown_seconds))
                shown, shown_seconds, images = time.perf_counter(), seconds, 0
        self._clock.stop()
        self.reporter.end()

    def _goes_on(self, phase: Phase) -> bool:
        """Whether the next phase does more of the same: one domain may come of several phases."""
        following = self.plan[self.at.phase : self.at.phase + 1]
        return any((next_.name, next_.part) == (phase.name, phase.part) for next_ in following)

    def _part(self, phase: Phase, feeds: list[Feed]) -> parallel.Part | None:
        """What this process does of the next step; None: all of it, as every process."""
        sizes = {feed.size_of_next() for feed in feeds}
        if len(sizes) != 1 or not self.method.shardable(phase):
            return None  # batches of several sizes would be cut in several proportions
        return parallel.part_of(sizes.pop())

    def _try_compiled(self, step_of: Callable[..., Tensor | None], batch: list[Tensor]) -> Any:
        """The first step of a phase; where compiled code cannot do it, the same step without."""
        method, counted = self.method, self._count()
        before, pool = deepcopy(checkpoint.capture(method)), method.pool.state_dict()
        try:
            return step_of(*batch)
        except Exception as error:
            self.device.stop_compiling(error)
            checkpoint.restore(method, before)
            method.pool.load_state_dict(pool)
            self._leave_out_since(counted)
            seed_everything(self.seed, "method", self.at.phase, self.at.step)
            return step_of(*batch)

    def _feeds_of(self, phase: Phase) -> list[Feed]:
        """Phases of one name share their streams, so "train" goes on where it stood."""
        feeds = []
        for position, read in enumerate(phase.reads):
            key = f"{phase.name}/{position}"
            feed = Feed(key, read, self.source, self.method.pool, self.recipe, self.seed)
            if key in self.feeds:
                feed.load_state_dict(self.feeds[key].state_dict())
            self.feeds[key] = feed
            feeds.append(feed)
        return feeds

    def _training_mode(self, on: bool) -> None:
        for module in checkpoint.modules(self.method).values():
            module.train(on)

    # The curve and source validation -------------------------------------------------------

    def _log(self, phase: Phase) -> float | None:
        loss = float(self.at.loss_sum) / self.at.loss_count if self.at.loss_count else None
        self.at.loss_sum, self.at.loss_count = 0.0, 0
        if loss is not None and not math.isfinite(loss):
            raise Diverged(f"the loss became {loss} at {phase.name} step {self.at.step}")
        self._append({
            "phase": self.at.phase, "name": phase.name, "step": self.at.step, "loss": loss,
            "lr": self.method.learning_rate(),
            "seconds": round(self._clock.seconds(phase_key(self.at.phase, phase)), 3),
        })  # fmt: skip
        return loss

    def _append(self, point: dict[str, Any]) -> None:
        if not parallel.is_first():
            return
        path = self.folder / "train.jsonl"
        line = json.dumps(point).encode() + b"\n"
        with explain_os_errors("write", path), path.open("ab") as file:
            file.write(line)
        self.at.curve_bytes += len(line)

    def _place(self) -> str:
        if self.at.phase == len(self.plan):
            return "trained"
        phase = self.plan[self.at.phase]
        return f"{phase.name} step {self.at.step}/{phase.steps}"

    def _trained(self) -> int:
        before = sum(phase.steps for phase in self.plan[: self.at.phase] if phase.name == "train")
        return before + self.at.step

    def _validation_is_due(self, phase: Phase) -> bool:
        if phase.name != "train" or not self.recipe.validations:
            return False
        done, times = self._trained(), self.recipe.validations
        share = done * times // self.train_total
        return share > (done - 1) * times // self.train_total

    def _validate(self) -> None:
        counted = self._count()
        self._training_mode(False)
        result, _ = score_domain(self.method, self.validation, self.recipe.eval_batch)
        self._training_mode(True)
        score = float(result[self.method.task.metric])  # type: ignore[arg-type]
        self.at.last_score = score
        if self.at.best is None or score >= self.at.best["score"]:
            weights = checkpoint.copy_weights(self.method)
            self.at.best = {"step": self._trained(), "score": score, "weights": weights}
        self._append({"phase": self.at.phase, "name": "validation", "step": self.at.step,
                      "train_step": self._trained(), "score": score})  # fmt: skip
        self._leave_out_since(counted)

    # Cost ----------------------------------------------------------------------------------

    def _count(self) -> tuple[int, int]:
        networks = [
            part
            for module in checkpoint.modules(self.method).values()
            for part in module.modules()
            if isinstance(part, Network)
        ]
        return (
            sum(network.images_forward for network in networks),
            sum(network.images_with_gradient for network in networks),
        )

    def _leave_out_since(self, before: tuple[int, int]) -> None:
        """Images since then are no part of the training's cost."""
        forward, gradient = self._count()
        self._counted = (self._counted[0] + forward - before[0],
                         self._counted[1] + gradient - before[1])  # fmt: skip

    def _collect_counts(self) -> None:
        forward, gradient = self._count()
        self.at.images_forward += forward - self._counted[0]
        self.at.images_with_gradient += gradient - self._counted[1]
        self._counted = (forward, gradient)

    # Checkpoints ---------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The one checkpoint of the run."""
        return self.folder / "checkpoint.pt"

    def _save(self, finished: bool = False) -> None:
        self._collect_counts()
        if parallel.is_first():
            self._write(finished)
        self.saved_at = time.monotonic()

    def _write(self, finished: bool) -> None:
        curve = self.folder / "train.jsonl"
        if curve.exists():  # the curve must not be shorter on disk than the checkpoint says
            with explain_os_errors("write", curve), curve.open("rb") as file:
                os.fsync(file.fileno())
        checkpoint.save(self.path, {
            "run": self.run_id,
            "position": dict(vars(self.at)),
            "feeds": {key: feed.state_dict() for key, feed in self.feeds.items()},
            "pool": self.method.pool.state_dict(),
            # Nothing will step again after the end, and optimisers are two thirds of the file.
            "method": checkpoint.capture(self.method, optimisers=not finished),
        })  # fmt: skip

    def _restore(self) -> None:
        curve = self.folder / "train.jsonl"
        if self.path.exists():
            state = checkpoint.load(self.path, self.device.torch)
            if state["run"] != self.run_id:
                raise UserError(f"{self.path} belongs to the run {state['run']}. Delete it.")
            self.at = Position(**state["position"])
            self._clock = Clock(self.at.seconds, self.device)
            checkpoint.restore(self.method, state["method"])
            self.reporter.note(f"going on from its checkpoint ({self._place()})")
            self.method.pool.load_state_dict(state["pool"])
            for phase in self.plan:
                for feed in self._feeds_of(phase):
                    if feed.key in state["feeds"]:
                        feed.load_state_dict(state["feeds"][feed.key])
        else:
            self.method.pool.load_state_dict({"count": 0})
        if curve.exists() and parallel.is_first():
            with explain_os_errors("write", curve):
                os.truncate(curve, self.at.curve_bytes)
        parallel.all_same(
            (self.at.phase, self.at.step, len(self.method.pool)),
            f"Not all processes see the same files in {self.folder}. Use a runs folder that is "
            "shared by all machines.",
        )
        self.saved_at = time.monotonic()
