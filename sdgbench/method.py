"""Methods: ways to learn from the one source domain."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sdgbench import networks, parallel
from sdgbench.dataset import Recipe
from sdgbench.device import LEAST_SCALE, Device
from sdgbench.errors import UserError
from sdgbench.pool import Pool
from sdgbench.seeds import derive
from sdgbench.task import Task


@dataclass(frozen=True)
class Read:
    """One stream of batches of a phase."""

    what: Literal["source", "pool", "source+pool"] = "source"
    batch: int | None = None  # None: the recipe's
    augment: bool = True  # apply the recipe's input augmentation to it
    only: tuple[tuple[int, int], ...] | None = None  # stretches of the pool; None: all of it
    images: int | None = None  # exactly so many in this phase, whatever the batch; None: endless


@dataclass(frozen=True)
class Phase:
    """A homogeneous stretch of steps: ``<name>_step`` is called ``steps`` times.

    The step gets images and labels of each read in turn: ``step(x, y)`` for one read,
    ``step(x, y, x2, y2)`` for two. Phases called "train" are the ones that the learning-rate
    schedule spans and that source validation follows.
    """

    name: str
    steps: int
    reads: tuple[Read, ...] = (Read(),)
    part: int = 0  # for methods with several networks or domains: which one it is about

    @classmethod
    def sweep(cls, name: str, read: Read, batch: int, part: int = 0) -> "Phase":
        """Go once through ``read.images`` images; the last step may have fewer."""
        assert read.images is not None
        return cls(name, math.ceil(read.images / batch), (replace(read, batch=batch),), part)


@dataclass(frozen=True)
class Setting:
    """Everything a method is handed. There is no way from here to a target domain."""

    params: Any
    task: Task
    recipe: Recipe
    device: Device
    seed: int
    source_size: int
    pool: Pool


class Method:
    """What a contributor of a method writes: at the least, a ``train_step``.

    Everything that a method keeps in its attributes is saved and restored with the run: modules,
    optimisers, tensors, numbers, text, and lists or dicts of these. What can be computed again
    goes into attributes that begin with an underscore, which are not saved.
    """

    name: ClassVar[str]
    per_dataset: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    flags: ClassVar[frozenset[str]] = frozenset()  # such as extra_data, corruption_overlap
    skips: ClassVar[Mapping[str, str]] = {}  # kind of task: why the method makes no sense there

    @dataclass(frozen=True)
    class Params:
        """This method has no parameters."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.network = self.new_network()
        self.optimizer = self.new_optimizer(self.network)
        self.scaler = self.device.new_scaler()
        self.updates = 0
        torch.manual_seed(derive(self.seed, "init", "method"))
        self.setup()

    @classmethod
    def skip(cls, task: Task) -> str | None:
        """Say why the method makes no sense for a task, or None where it does."""
        return cls.skips.get(task.kind)

    def setup(self) -> None:
        """Make what the method owns beside the task network and its optimiser."""

    def plan(self) -> Sequence[Phase]:
        """The phases, as a pure function of parameters and recipe."""
        return [Phase("train", self.train_steps)]

    def begin(self, phase: Phase) -> None:
        """Prepare for a phase; called once, before its first step."""

    def predict(self, x: Tensor) -> Tensor:
        """Logits for images in [0, 1]. Pure: no update, no statistics of the batch."""
        logits: Tensor = self.network(x)
        return logits

    def inference_modules(self) -> Sequence[nn.Module]:
        """What ``predict`` needs, and so what counts as its size."""
        return [self.network]

    def adapt_step(self, x: Tensor, y: Tensor, optimizer: Optimizer) -> Tensor:
        """One step of few-shot adaptation, on a copy of the trained method; returns the loss.

        Only ``sdgbench adapt`` calls it. The optimiser holds what ``inference_modules`` names.
        """
        loss = self.task.loss(self.predict(x), y)
        if not loss.requires_grad:
            raise UserError(
                f'"{self.name}" predicts without gradient, so it cannot be fine-tuned like this. '
                "Give it an adapt_step(x, y, optimizer) of its own."
            )
        return self.optimise(loss, optimizer)

    def shardable(self, phase: Phase) -> bool:
        """Say whether several processes may do the phase's steps on parts of their batches.

        True where the losses are means over the images, a pool gets what is made of each image
        for itself, nothing else of the batch is kept, and random numbers are drawn by
        ``randn_like`` or not at all. Else each process does the whole step: right, but no faster.
        """
        return False

    # What methods build on -----------------------------------------------------------------

    @property
    def params(self) -> Any:
        """The resolved parameters."""
        return self._setting.params

    @property
    def task(self) -> Task:
        """Loss and decision of the task at hand."""
        return self._setting.task

    @property
    def recipe(self) -> Recipe:
        """What all methods share on this dataset."""
        return self._setting.recipe

    @property
    def pool(self) -> Pool:
        """Images that this method generated, on disk and part of the checkpoint."""
        return self._setting.pool

    @property
    def device(self) -> Device:
        """Where the tensors live."""
        return self._setting.device

    @property
    def seed(self) -> int:
        """The run's seed. Random numbers need no care: every step starts freshly seeded."""
        return self._setting.seed

    @property
    def source_size(self) -> int:
        """How many source images there are to train on."""
        return self._setting.source_size

    @property
    def train_steps(self) -> int:
        """The recipe's length in steps."""
        return self.recipe.total_steps(self.source_size)

    def new_network(self, member: int = 0) -> networks.Network:
        """A task network with the seed's initial weights (member 0 has the ones all share)."""
        place = ("init", member) if member else ("init",)
        torch.manual_seed(derive(self.seed, *place))
        recipe = self.recipe
        network = networks.build(
            recipe.network, self.task.classes, recipe.image_size, recipe.pretrained
        )
        network = self.device.place(network)
        self.device.compile(network, ("embed", "head"))
        return network

    def new_optimizer(self, network: nn.Module) -> Optimizer:
        """The recipe's optimiser for a network."""
        recipe = self.recipe
        if recipe.optimiser == "adam":
            return torch.optim.Adam(
                network.parameters(), recipe.lr, weight_decay=recipe.weight_decay, fused=True
            )
        return torch.optim.SGD(
            network.parameters(),
            recipe.lr,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
            nesterov=recipe.momentum > 0,
            fused=True,
        )

    def learning_rate(self) -> float:
        """The schedule's learning rate at the current update."""
        recipe, progress = self.recipe, min(1.0, self.updates / max(1, self.train_steps))
        if recipe.schedule == "linear":
            return recipe.lr * (1 - progress)
        if recipe.schedule == "cosine":
            return recipe.lr * 0.5 * (1 + torch.cos(torch.tensor(torch.pi * progress)).item())
        return recipe.lr

    def optimise(
        self,
        loss: Tensor,
        optimizer: Optimizer | None = None,
        also: Sequence[tuple[Tensor, Tensor]] = (),
    ) -> Tensor:
        """Backward and step; returns the detached loss.

        Without an ``optimizer`` it is the task network's, which follows the schedule. ``also`` are
        tensors, weights among them, with gradients that reach them from elsewhere.
        """
        if optimizer is None:
            optimizer = self.optimizer
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate()
            self.updates += 1
        optimizer.zero_grad(set_to_none=True)
        inner = [(tensor, gradient) for tensor, gradient in also if not tensor.is_leaf]
        with self.device.exact():
            for tensor, gradient in also:
                if tensor.is_leaf:  # not a copy: the rest is added to it in place
                    tensor.grad = _laid_out_like(tensor, self._weighed(gradient))
            torch.autograd.backward(
                [self._weighed(loss), *(tensor for tensor, _ in inner)],
                [None, *(self._weighed(gradient) for _, gradient in inner)],
            )
        if parallel.size() > 1:
            loss = self._sum_up(loss, optimizer)
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.advance(optimizer)
        return loss.detach()

    def gradients(
        self,
        loss: Tensor,
        weights: Sequence[Tensor],
        create_graph: bool = False,
        retain_graph: bool = False,
        times: float = 1.0,
    ) -> list[Tensor]:
        """The gradients that ``optimise`` would step along, with ``torch.autograd.grad``'s options.

        They are those of the whole batch, however many processes share it, ``times`` a number:
        given to the loss, it costs nothing; fp16 has too few small numbers for that.
        """
        with self.device.exact():
            found: Sequence[Tensor] = torch.autograd.grad(
                self._weighed(loss), weights, None if self.scaler else torch.full_like(loss, times),
                create_graph=create_graph, retain_graph=retain_graph or create_graph,
            )  # fmt: skip
            if parallel.size() > 1:
                found = parallel.total(found)
            if self.scaler:
                found = torch._foreach_mul(list(found), times / self.scaler.get_scale())
        return list(found)

    def pixel_gradient(self, value: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The gradient of each image's own value with respect to its pixels."""
        scale = self.scaler.get_scale() / len(x) if self.scaler else 1.0
        while True:
            total = value(x).sum()
            with self.device.exact():
                (slope,) = torch.autograd.grad(total * scale if self.scaler else total, x)
            if self.scaler is None:
                return slope
            if slope.isfinite().all() or scale < LEAST_SCALE:
                return slope / scale
            scale /= 16  # it overflowed

    def randn_like(self, x: Tensor) -> Tensor:
        """Normal numbers for each image, the same ones however many processes share the batch."""
        part = parallel.part()
        if part is None:
            return torch.randn_like(x)
        whole = torch.randn(part.total, *x.shape[1:], dtype=x.dtype, device=x.device)
        drawn: Tensor = part.of(whole)
        return drawn

    def as_mean(self, summed: Tensor) -> Tensor:
        """A loss that sums over the images, for ``optimise``, to which a loss is a mean."""
        part = parallel.part()
        return summed / part.weight if part else summed

    def _sum_up(self, loss: Tensor, optimizer: Optimizer) -> Tensor:
        """Make the gradients those of all processes; gives the loss of all."""
        slopes = [
            w.grad
            for group in optimizer.param_groups
            for w in group["params"]
            if w.grad is not None
        ]
        own = (loss.detach() * parallel.weight()).to(slopes[0].dtype)
        *summed, whole = parallel.total([*slopes, own])
        for slope, new in zip(slopes, summed, strict=True):
            slope.copy_(new)
        return whole

    def _weighed(self, value: Tensor) -> Tensor:
        """A loss or a gradient, as it counts among the processes and at the scale of fp16."""
        if parallel.size() > 1:
            value = value * parallel.weight()
        return self.scaler.scale(value) if self.scaler else value


def _laid_out_like(weight: Tensor, gradient: Tensor) -> Tensor:
    """Fused optimisers want the two in the same memory layout."""
    same = gradient.stride() == weight.stride()
    return gradient if same else torch.empty_like(weight).copy_(gradient)
