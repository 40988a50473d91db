"""How the steps of a phase are executed: plainly, compiled, or as a CUDA graph."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from sdgbench.method import Method, Phase
from sdgbench.training import checkpoint, distributed, optimisation
from sdgbench.training.cost import ImageCounter
from sdgbench.training.cuda_graphs import GraphBackend, StepProbe, Work
from sdgbench.training.gpu_memory import GpuMemory

WARM_UP = 3  # steps before a capture: they create what an optimiser keeps; the last is watched
MEMORY_SHARE = 0.5  # of the free memory that larger batches may take
MOST_TOGETHER = 64  # beyond which a GPU has been busy for long

Batch = Sequence[Tensor]
Note = Callable[[str], object]


class StepRunner:
    """Executes the steps of one phase.

    ``reseed`` seeds the current step again, for one that must be done twice.
    """

    def __init__(
        self,
        method: Method,
        phase: Phase,
        counter: ImageCounter,
        reseed: Callable[[], None],
        note: Note,
    ) -> None:
        self.method, self.counter, self.reseed = method, counter, reseed
        self.name = f"{phase.name}_step"
        self._step: Callable[..., Any] = getattr(method, self.name)
        self._shapes: set[tuple[torch.Size, ...]] = set()  # that were compiled in this phase
        self._reads, self._note = phase.reads, note
        alone = distributed.size() == 1
        self._memory = method.device.memory if alone and method.any_batch(phase) else None
        self._measured = False
        self._together = 1  # steps that are done as one
        backend = method.device.graphs
        self._captured = CapturedStep(self, backend, note) if backend else None

    def __call__(self, batch: Batch) -> Tensor | None:
        """Do one step, or several as one; returns its loss, if it has one."""
        if self._memory and self._together > 1:
            return self._larger(batch, self._memory)
        if self._memory and not self._measured:
            self._measured = True
            loss, used = self._memory.measure(lambda: self.plain(batch))
            self._together = batches_that_fit(
                used, self._memory.free() // self.method.device.sharing
            )
            return loss
        return self._captured(batch) if self._captured else self.plain(batch)

    def together(self, left: int) -> int:
        """How many steps the next call should do as one, of those that are left in the phase.

        It is more than one on a GPU, for steps whose result does not depend on the batch.
        """
        return min(left, self._together)

    def _larger(self, batch: Batch, memory: GpuMemory) -> Tensor | None:
        """Do several steps as one; without memory for that, one after another."""
        method, images = self.method, len(self.method.pool)
        try:
            with memory.uncounted():
                return self.plain(batch)
        except torch.OutOfMemoryError:
            if len(method.pool) > images:
                raise
        self._together = 1
        self._note(f"{self.name}: no memory for larger batches, so it goes on with the usual ones")
        memory.release()
        sizes = [read.batch or method.recipe.batch for read in self._reads for _ in range(2)]
        parts = zip(*(t.split(size) for t, size in zip(batch, sizes, strict=True)), strict=True)
        losses = [self.plain(part) for part in parts]
        return losses[-1]

    def plain(self, batch: Batch) -> Tensor | None:
        """Do one step without a graph, compiled where that works."""
        compilation = self.method.device.compilation
        if not compilation.enabled:
            return self.call(batch)
        if self.name in compilation.given_up:
            with compilation.suspended():
                return self.call(batch)
        shapes = tuple(tensor.shape for tensor in batch)
        if shapes in self._shapes:
            return self.call(batch)
        # New shapes are compiled, and what fails then is done again without compilation.
        self._shapes.add(shapes)
        undo = self.snapshot()
        try:
            return self.call(batch)
        except Exception as error:
            if self._together > 1 and isinstance(error, torch.OutOfMemoryError):
                raise  # not the compiler's fault: the batch is large
            undo()
            with compilation.suspended():
                loss = self.call(batch)  # where the compiler is not at fault, this fails, too
            compilation.give_up(self.name, error)
            return loss

    def call(self, batch: Batch) -> Tensor | None:
        """Call the method's step."""
        loss: Tensor | None = self._step(*batch)
        return loss

    def snapshot(self) -> Callable[[], None]:
        """A function that undoes what is done from now on."""
        method, counts = self.method, self.counter.totals()
        before, pool = deepcopy(checkpoint.capture(method)), method.pool.snapshot()

        def undo() -> None:
            checkpoint.restore(method, before)
            method.pool.roll_back(pool)
            self.counter.exclude_since(counts)
            self.reseed()

        return undo


def batches_that_fit(used: int, free: int) -> int:
    """How many batches to do as one, if one needs ``used`` bytes: a power of two."""
    together = 1
    while used and together < MOST_TOGETHER and 2 * together * used <= MEMORY_SHARE * free:
        together *= 2
    return together


class CapturedStep:
    """Does the first steps of a phase plainly, captures one, and replays it from then on."""

    def __init__(self, runner: StepRunner, backend: GraphBackend, note: Note) -> None:
        self.runner, self.backend, self.note = runner, backend, note
        self.method, self.counter = runner.method, runner.counter
        self.seen = 0  # steps so far
        self._inputs: list[Tensor] = []
        self._loss: Tensor | None = None
        self._replay: Work | None = None
        self._updates, self._images = 0, (0, 0)  # of each step
        self._given_up = False
        if distributed.size() > 1:
            self._give_up("is shared by several processes")
        optimisation.make_capturable(
            checkpoint.optimisers(self.method), self.method.optimizer, self.method.device
        )

    def __call__(self, batch: Batch) -> Tensor | None:
        """Do one step."""
        if self._given_up:
            return self.runner.plain(batch)
        self.seen += 1
        if self._replay:
            return self._replayed(batch)
        if self.seen < WARM_UP:
            return self.backend.warm_up(lambda: self.runner.plain(batch))  # type: ignore[no-any-return]
        if self.seen == WARM_UP:
            return self.backend.warm_up(lambda: self._watched(batch))  # type: ignore[no-any-return]
        return self._capture(batch)

    def _watched(self, batch: Batch) -> Tensor | None:
        probe = StepProbe(self.method.device.kind)
        once = None if self.method.recipe.schedule == "constant" else 1
        loss: Tensor | None = probe.run(self.method, lambda: self.runner.plain(batch), once)
        if probe.reasons:
            self._give_up(" and ".join(probe.reasons))
        return loss

    def _capture(self, batch: Batch) -> Tensor | None:
        method, undo = self.method, self.runner.snapshot()
        self._inputs = [tensor.clone() for tensor in batch]
        updates, images = method.updates, self.counter.totals()
        self._set_learning_rate()
        try:
            with method.device.capture():
                replay, self._loss = self.backend.capture(lambda: self.runner.plain(self._inputs))
        except Exception as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            self._give_up(f"failed to be captured ({reason[:200]})")
            with suppress(RuntimeError):  # what was queued before the failure
                method.device.synchronise()
            undo()
            return self.runner.plain(batch)
        total = self.counter.totals()
        self._updates = method.updates - updates
        self._images = total[0] - images[0], total[1] - images[1]
        self._replay = replay
        if self.runner.name not in method.device.captured:
            method.device.captured.append(self.runner.name)
        replay()
        return self._loss

    def _replayed(self, batch: Batch) -> Tensor | None:
        if [t.shape for t in batch] != [t.shape for t in self._inputs]:
            return self.runner.plain(batch)  # such as the last batch of a sweep
        for static, tensor in zip(self._inputs, batch, strict=True):
            static.copy_(tensor)
        self._set_learning_rate()
        assert self._replay
        self._replay()
        self.method.updates += self._updates
        self.counter.add(self._images)
        return self._loss

    def _set_learning_rate(self) -> None:
        optimisation.set_learning_rate(self.method.optimizer, self.method.learning_rate())

    def _give_up(self, reason: str) -> None:
        self._given_up = True
        reasons = self.method.device.not_captured
        if reasons.get(self.runner.name) != reason:
            self.note(f"{self.runner.name}: no CUDA graph, since it {reason}")
            reasons[self.runner.name] = reason
