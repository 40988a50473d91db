"""The training loop: phases, batches, the curve, validation, checkpoints."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from copy import deepcopy
from itertools import accumulate
from pathlib import Path
from typing import Any

from sdgbench.data.domain import Domain
from sdgbench.errors import Damaged, Interrupted, UserError
from sdgbench.evaluation.evaluator import score_domain
from sdgbench.method import Method, Phase
from sdgbench.reporter import PlannedStage, Reporter
from sdgbench.spec.seeds import Seeder, seed_everything
from sdgbench.training import checkpoint, distributed, saved_state
from sdgbench.training.cost import Clock, ImageCounter
from sdgbench.training.curve import POINTS_PER_PHASE, Curve, LossMean
from sdgbench.training.event_log import EventLog
from sdgbench.training.feeds import Feed
from sdgbench.training.saved_state import Position
from sdgbench.training.steps import StepRunner
from sdgbench.training.streaming import open_images
from sdgbench.training.sync_batch_norm import sync_batch_norm


def phase_key(index: int, phase: Phase) -> str:
    """The key of a phase's seconds in ``Position.seconds``."""
    return f"{index} {phase.name}"


class Trainer:
    """Trains a method through its plan, from the start or from its checkpoint."""

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
        later: Sequence[PlannedStage] = (),  # what the run does after training, for its progress
        log: EventLog | None = None,  # gets the points of the curve, too
    ) -> None:
        self.method, self.folder, self.run_id, self.reporter = method, folder, run_id, reporter
        self.checkpoint_seconds, self.should_stop = checkpoint_seconds, should_stop
        self.later = later
        self.opened_files: Callable[[], Sequence[str]] = tuple  # of the data folder, by the method
        self.device, self.recipe, self.seed = method.device, method.recipe, method.seed
        self.source = open_images(source, self.device)
        self.validation = open_images(validation, self.device)
        self.plan = list(method.plan())
        train_steps = [phase.steps if phase.name == "train" else 0 for phase in self.plan]
        self.trained_before = [0, *accumulate(train_steps)]  # steps of "train" before each phase
        self.train_total = sum(train_steps)
        self.feeds: dict[str, Feed] = {}
        self.position = Position()
        self._clock = Clock(self.position.seconds, self.device)
        self.saved_at = time.monotonic()
        self._counter = ImageCounter(method)
        self._curve = Curve(folder / "train.jsonl", self.device.kind == "cuda", log)
        if not any(phase.steps for phase in self.plan):
            raise UserError(f'Method "{method.name}" plans no steps. Return phases from plan().')
        for phase in self.plan:
            if not hasattr(method, f"{phase.name}_step"):
                raise UserError(
                    f'Method "{method.name}" plans a phase "{phase.name}" but has no '
                    f"{phase.name}_step."
                )

    # The loop ------------------------------------------------------------------------------

    def run(self) -> Position:
        """Train to the end of the plan; returns the final position."""
        with closing(self.source), closing(self.validation):
            self._restore()
            self.position.starts += 1
            self.reporter.plan([*self._planned_stages(), *self.later], self.position.phase)
            if self.device.describe() not in self.position.machines[-1:]:
                self.position.machines.append(self.device.describe())
            while self.position.phase < len(self.plan):
                phase = self.plan[self.position.phase]
                self._run_phase(phase)
                self.position.phase, self.position.step = self.position.phase + 1, 0
                if not self._continues(phase):
                    self.method.pool.end_domain()
                self._save(finished=self.position.phase == len(self.plan))
        return self.position

    def _planned_stages(self) -> list[PlannedStage]:
        """The phases with their expected cost, in images of plain training."""
        stages = []
        for phase in self.plan:
            batch = sum(read.batch or self.recipe.batch for read in phase.reads)
            images = phase.steps * (batch or self.recipe.batch)
            stages.append(PlannedStage(phase.name, images * self.method.cost_per_image(phase)))
        return stages

    def _run_phase(self, phase: Phase) -> None:
        feeds = self._feeds_of(phase)
        scaler, several = self.method.scaler, distributed.size() > 1
        log_every = max(1, phase.steps // POINTS_PER_PHASE)
        mean = LossMean(self.position.loss_sum, self.position.loss_count)
        kind = phase_key(self.position.phase, phase)
        seed_step = Seeder(self.seed, "method", self.position.phase)
        shown, shown_seconds, images = time.perf_counter(), self._clock.seconds(kind), 0
        self.reporter.begin(phase.name, phase.steps, self.position.step)
        undivided = several and not self.method.shardable(phase)
        if undivided:
            self.reporter.note(
                f"{phase.name}: its batches cannot be divided, so each of the "
                f"{distributed.size()} processes does all of them"
            )
        if self.position.step == 0:
            seed_everything(self.seed, "begin", self.position.phase)
            self.method.begin(phase)
            for feed in feeds:
                feed.begin()
        step_of = StepRunner(
            self.method,
            phase,
            self._counter,
            lambda: seed_step(self.position.step),
            self.reporter.note,
        )
        self._collect_image_counts()
        for module in checkpoint.modules(self.method).values():
            sync_batch_norm(module)
        self._training_mode(True)
        autocast = self.device.autocast()
        self._clock.start(kind)
        while self.position.step < phase.steps:
            seed_step(self.position.step)
            pool_size = len(self.method.pool)
            shard = self._shard(phase, feeds) if several else None
            together = step_of.together(phase.steps - self.position.step)
            for feed in feeds:
                feed.together = together
            batch = [tensor for feed in feeds for tensor in feed.next(shard)]
            with autocast, distributed.shard_scope(shard):
                loss = step_of(batch)
            if several:
                self._collect_image_counts(shard)
            if feeds and len(self.method.pool) > pool_size:
                self.method.pool.record_sources(pool_size, feeds[0].source_indices)
            self.position.step += together
            images += shard.total if shard else batch[0].shape[0] if batch else 0
            del batch  # the next one takes its memory, which is still in the cache
            if loss is not None:
                mean.add(loss, scaler.skipped if scaler else None)
            if self.position.step % log_every < together or self.position.step == phase.steps:
                self._log(phase, mean)
                mean = LossMean()
            self.position.loss_sum, self.position.loss_count = mean.total, mean.count
            if self._validation_is_due(phase):
                with self._clock.switched_to("validation"):
                    self._validate()
            stop = self.should_stop()
            if stop or time.monotonic() - self.saved_at > self.checkpoint_seconds:
                with self._clock.switched_to("checkpoint"):
                    self._save()
            if stop:
                raise Interrupted(f"at {self._progress()}")
            if time.perf_counter() - shown > 0.25 or self.position.step == phase.steps:
                seconds = self._clock.seconds(kind)
                rate = images / (seconds - shown_seconds)
                self.reporter.update(self.position.step, self._curve.recent, rate)
                shown, shown_seconds, images = time.perf_counter(), seconds, 0
        if undivided:  # kernels that are not deterministic may have led to other roundings
            distributed.copy_from_rank_zero(checkpoint.tensors(self.method))
        self._clock.stop()
        self.reporter.end()

    def _continues(self, phase: Phase) -> bool:
        """Whether the next phase continues this one: several phases may generate one domain."""
        following = self.plan[self.position.phase : self.position.phase + 1]
        return any((next_.name, next_.part) == (phase.name, phase.part) for next_ in following)

    def _shard(self, phase: Phase, feeds: list[Feed]) -> distributed.BatchShard | None:
        """This process's shard of the next step; None: every process does the whole step."""
        sizes = {feed.next_size() for feed in feeds}
        if len(sizes) != 1 or not self.method.shardable(phase):
            return None  # batches of different sizes would be cut in different proportions
        return distributed.shard_of(sizes.pop())

    def _feeds_of(self, phase: Phase) -> list[Feed]:
        """The streams of a phase; phases of one name share them, such as all of "train"."""
        feeds = []
        for number, read in enumerate(phase.reads):
            key = f"{phase.name}/{number}"
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

    def _log(self, phase: Phase, mean: LossMean) -> None:
        point = {
            "phase": self.position.phase,
            "name": phase.name,
            "step": self.position.step,
            "lr": self.method.learning_rate(),
            "seconds": round(self._clock.seconds(phase_key(self.position.phase, phase)), 3),
        }
        self.position.curve_bytes += self._curve.add(point, mean)
        if self.position.step == phase.steps:
            self.position.curve_bytes += self._curve.flush()
        if self.method.scaler and self._curve.recent is None:
            self.method.scaler.check()

    def _progress(self) -> str:
        """The position in words, for messages."""
        if self.position.phase == len(self.plan):
            return "trained"
        phase = self.plan[self.position.phase]
        return f"{phase.name} step {self.position.step}/{phase.steps}"

    def _train_steps_done(self) -> int:
        return self.trained_before[self.position.phase] + self.position.step

    def _validation_is_due(self, phase: Phase) -> bool:
        if not self.recipe.validations or phase.name != "train":
            return False
        done, validations = self._train_steps_done(), self.recipe.validations
        due = done * validations // self.train_total
        return due > (done - 1) * validations // self.train_total

    def _validate(self) -> None:
        counts = self._counter.totals()
        self._training_mode(False)
        result, _ = score_domain(
            self.method, self.validation, self.recipe.eval_batch, "held-out source"
        )
        self._training_mode(True)
        score = result.score(self.method.task.metric)
        self.position.last_score = score
        if self.position.best is None or score >= self.position.best["score"]:
            weights = checkpoint.copy_weights(self.method)
            step = self._train_steps_done()
            self.position.best = {"step": step, "score": score, "weights": weights}
        point = {
            "phase": self.position.phase,
            "name": "validation",
            "step": self.position.step,
            "train_step": self._train_steps_done(),
            "score": score,
        }
        self.position.curve_bytes += self._curve.flush() + self._curve.append(point)
        self._counter.exclude_since(counts)

    def _collect_image_counts(self, shard: distributed.BatchShard | None = None) -> None:
        """Add the images since the last call, of all processes if they were a shard's."""
        forward, gradient = self._counter.collect()
        if shard:
            forward, gradient = shard.global_count(forward), shard.global_count(gradient)
        self.position.images_forward += forward
        self.position.images_with_gradient += gradient

    # Checkpoints ---------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The checkpoint file of the run."""
        return self.folder / "checkpoint.pt"

    def _save(self, finished: bool = False) -> None:
        self._collect_image_counts()
        self.position.curve_bytes += self._curve.flush()
        if distributed.is_rank_zero():
            self._write(finished)
        self.saved_at = time.monotonic()

    def _write(self, finished: bool) -> None:
        self._curve.sync()
        opened = dict.fromkeys([*self.position.opened_data, *self.opened_files()])
        self.position.opened_data = list(opened)
        self.position.curve_sha256 = self._curve.sha256
        checkpoint.save(
            self.path,
            {
                "run": self.run_id,
                "position": dict(vars(self.position)),
                "feeds": {key: feed.state_dict() for key, feed in self.feeds.items()},
                "pool": self.method.pool.state_dict(),
                # Nothing will step again after the end, and optimisers are two thirds of the file.
                "method": checkpoint.capture(self.method, optimisers=not finished),
            },
        )

    def _restore(self) -> None:
        """Go on from the last checkpoint that is whole; without any, from the start."""
        paths = [self.path, checkpoint.earlier(self.path)]
        existing = distributed.on_rank_zero(lambda: [path for path in paths if path.exists()])
        initial = deepcopy(checkpoint.capture(self.method)) if existing else {}
        for path in existing:
            try:
                self._go_on_from(path)
                break
            except Damaged as error:
                self.reporter.note(f"{str(error).partition('. Delete')[0]}: it is not used")
                self.position, self.feeds = Position(), {}
                checkpoint.restore(self.method, initial)
        else:
            if existing:
                self.reporter.note("no checkpoint is whole, so the run starts again")
            self.method.pool.load_state_dict({"count": 0})
            self._clock = Clock(self.position.seconds, self.device)
            self._curve.check(0, None)
        self._curve.cut(self.position.curve_bytes)
        distributed.all_same(
            (self.position.phase, self.position.step, len(self.method.pool)),
            f"Not all processes see the same files in {self.folder}. Use a runs folder that is "
            "shared by all machines.",
        )
        self.saved_at = time.monotonic()

    def _go_on_from(self, path: Path) -> None:
        """Restore a checkpoint; Damaged if it, the pool or the curve is not what was written."""
        state = checkpoint.load(path, self.device.torch)
        saved_state.check(state, path, self.method, self.plan, self.run_id)
        # The files that only the first process writes are its to check, and all hear of it.
        distributed.on_rank_zero(lambda: self._check_files(state))
        self.position = Position(**state["position"])
        self._clock = Clock(self.position.seconds, self.device)
        saved_state.apply(state, path, self.method)
        for phase in self.plan:
            for feed in self._feeds_of(phase):
                if feed.key in state["feeds"]:
                    feed.load_state_dict(state["feeds"][feed.key])
        self.reporter.note(f"going on from its checkpoint ({self._progress()})")

    def _check_files(self, state: dict[str, Any]) -> None:
        self.method.pool.check(state["pool"])
        position = state["position"]
        self._curve.check(position["curve_bytes"], position.get("curve_sha256"))
