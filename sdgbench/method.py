"""Methods: ways to learn from the one source domain. A contributor subclasses ``Method``."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import Optimizer

from sdgbench import networks
from sdgbench.errors import UserError
from sdgbench.networks.layers import second_order
from sdgbench.recipe import Recipe
from sdgbench.spec.parameters import param
from sdgbench.spec.search import Around, Integers, LogUniform, OneOf, Uniform
from sdgbench.spec.seeds import derive
from sdgbench.task import Task
from sdgbench.training import optimisation
from sdgbench.training.device import Device
from sdgbench.training.pool import Pool

__all__ = [
    "Around",
    "Integers",
    "LogUniform",
    "Method",
    "MethodContext",
    "OneOf",
    "Phase",
    "Read",
    "Uniform",
    "param",
]


@dataclass(frozen=True)
class Read:
    """One stream of batches of a phase."""

    what: Literal["source", "pool", "source+pool"] = "source"
    batch: int | None = None  # None: the recipe's
    augment: bool = True  # apply the recipe's input augmentation to it
    only: tuple[tuple[int, int], ...] | None = None  # ranges of the pool; None: all of it
    images: int | None = None  # number of images read in this phase; None: endless
    shuffle: bool = True  # False: in the order of the source, then of the pool


@dataclass(frozen=True)
class Phase:
    """A sequence of equal steps: ``<name>_step`` is called ``steps`` times.

    The step gets images and labels of each read in turn: ``step(x, y)`` for one read,
    ``step(x, y, x2, y2)`` for two. Phases called "train" are the ones that the learning-rate
    schedule spans and that source validation follows.
    """

    name: str
    steps: int
    reads: tuple[Read, ...] = (Read(),)
    part: int = 0  # for methods with several networks or domains: which one this phase is for

    @classmethod
    def sweep(cls, name: str, read: Read, batch: int, part: int = 0) -> "Phase":
        """A phase that reads ``read.images`` images once; the last step may have fewer."""
        assert read.images is not None
        return cls(name, math.ceil(read.images / batch), (replace(read, batch=batch),), part)


@dataclass(frozen=True)
class MethodContext:
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
    recipes: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # its published one, by dataset
    flags: ClassVar[Mapping[str, str]] = {}  # such as reconstruction: why it has this flag
    skips: ClassVar[Mapping[str, str]] = {}  # kind of task: why the method makes no sense there
    families: ClassVar[tuple[str, ...]] = ()  # of spec/shifts.py, that its own augmentation uses

    @dataclass(frozen=True)
    class Params:
        """This method has no parameters."""

    def __init__(self, context: MethodContext) -> None:
        self._context = context
        self.network = self.new_network()
        self.optimizer = self.new_optimizer(self.network)
        self.scaler = self.device.new_scaler()
        self.updates = 0
        torch.manual_seed(derive(self.seed, "init", "method"))
        with self.device.uncompiled():  # what runs once is not worth a compilation
            self.setup()

    @classmethod
    def skip(cls, task: Task) -> str | None:
        """Say why the method makes no sense for a task, or None where it does."""
        return cls.skips.get(task.kind)

    @classmethod
    def scaled(cls, image_size: tuple[int, int]) -> Mapping[str, Any]:
        """Parameters for a dataset that ``per_dataset`` does not know: what depends on its size.

        By default nothing does. State the rule in the docstring.
        """
        return {}

    def setup(self) -> None:
        """Create what the method needs in addition to the task network and its optimiser."""

    def plan(self) -> Sequence[Phase]:
        """The phases, as a pure function of parameters and recipe."""
        return [Phase("train", self.train_steps)]

    def cost_per_image(self, phase: Phase) -> float:
        """How long a phase takes per image, in plain training steps. Only progress depends on it.

        A rough number is enough: once a phase has begun, its measured pace counts.
        """
        return 1.0

    def begin(self, phase: Phase) -> None:
        """Prepare for a phase; called once, before its first step."""

    def predict(self, x: Tensor) -> Tensor:
        """Logits for images in [0, 1]. Pure: no update, no statistics of the batch."""
        logits: Tensor = self.network(x)
        return logits

    def inference_modules(self) -> Sequence[nn.Module]:
        """The modules that ``predict`` uses: they count as the method's size."""
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
        """Say whether several processes may each do a part of the batch in this phase's steps.

        Return True only if all losses are means over the images, each generated image depends on
        its own source image alone, nothing else of the batch is kept, and random numbers for each
        image are drawn by ``randn_like`` or ``rand_per_image``; others are the same in every
        process. Otherwise every process does the whole step: right, but no faster.
        """
        return False

    def any_batch(self, phase: Phase) -> bool:
        """Say whether this phase's steps do the same to each image, however many a batch has.

        Then a GPU does several steps as one, with as many images as its memory allows. It is right
        for steps that only add images to the pool, each made of its own source image without
        random numbers.
        """
        return False

    # What methods use ----------------------------------------------------------------------

    @property
    def params(self) -> Any:
        """The resolved parameters."""
        return self._context.params

    @property
    def task(self) -> Task:
        """The task: its loss, its predictions and its score."""
        return self._context.task

    @property
    def recipe(self) -> Recipe:
        """What all methods share on this dataset."""
        return self._context.recipe

    @property
    def pool(self) -> Pool:
        """Images that this method generated, on disk and part of the checkpoint."""
        return self._context.pool

    @property
    def device(self) -> Device:
        """Where the tensors live."""
        return self._context.device

    @property
    def seed(self) -> int:
        """The run's seed. Random numbers need no care: every step starts freshly seeded."""
        return self._context.seed

    @property
    def source_size(self) -> int:
        """The number of source images to train on."""
        return self._context.source_size

    @property
    def train_steps(self) -> int:
        """The recipe's length in steps."""
        return self.recipe.total_steps(self.source_size)

    def new_network(self, member: int = 0) -> networks.Network:
        """A task network with the seed's initial weights (member 0 has the ones all share)."""
        stream = ("init", member) if member else ("init",)
        torch.manual_seed(derive(self.seed, *stream))
        recipe = self.recipe
        network = networks.build(
            recipe.network,
            self.task.classes,
            recipe.image_size,
            recipe.pretrained,
            recipe.weights,
        )
        network = self.device.prepare_module(network)
        self.device.compile(network, ("embed", "head"))
        return network

    def new_optimizer(self, network: nn.Module) -> Optimizer:
        """The recipe's optimiser for a network."""
        return optimisation.new_optimizer(self.recipe, network.parameters())

    def learning_rate(self) -> float:
        """The schedule's learning rate at the current update."""
        progress = min(1.0, self.updates / max(1, self.train_steps))
        return optimisation.scheduled_lr(self.recipe, progress)

    def optimise(
        self,
        loss: Tensor,
        optimizer: Optimizer | None = None,
        extra_grads: Sequence[tuple[Tensor, Tensor]] = (),
    ) -> Tensor:
        """Backward pass and update; returns the detached loss.

        Without an ``optimizer`` it is the task network's, which follows the schedule.
        ``extra_grads`` are tensors (weights, or what the loss was computed from) with a gradient
        that reaches them in addition to the loss's.
        """
        if optimizer is None:
            optimizer = self.optimizer
            if not self.device.capturing:  # a graph must read it, not set it
                optimisation.set_learning_rate(optimizer, self.learning_rate())
            self.updates += 1
        return optimisation.backward_and_step(
            loss, optimizer, self.device, self.scaler, extra_grads
        )

    def gradients(
        self,
        loss: Tensor,
        weights: Sequence[Tensor],
        create_graph: bool = False,
        retain_graph: bool = False,
        factor: float = 1.0,
    ) -> list[Tensor]:
        """The gradients that ``optimise`` would step along, times ``factor``.

        They are those of the whole batch, however many processes share it. The other options are
        those of ``torch.autograd.grad``.
        """
        return optimisation.gradients(
            loss,
            weights,
            self.device,
            self.scaler,
            create_graph=create_graph,
            retain_graph=retain_graph,
            factor=factor,
        )

    @contextmanager
    def twice_differentiable(self) -> Iterator[None]:
        """Needed around forward passes whose gradient will be differentiated (create_graph).

        Fused kernels of attention have no second derivative; meanwhile plain ones are used. Batch
        norm uses one with a cheaper second derivative, where the network has it.
        """
        with sdpa_kernel(SDPBackend.MATH), second_order():
            yield

    def pixel_gradient(self, value: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The gradient of each image's own value with respect to its pixels."""
        return optimisation.pixel_gradient(value, x, self.device, self.scaler)

    def randn_like(self, x: Tensor) -> Tensor:
        """Normal numbers for each image, the same ones however many processes share the batch."""
        return optimisation.randn_like(x)

    def rand_per_image(self, x: Tensor, count: int) -> Tensor:
        """``count`` uniform float64 numbers for each image, on the CPU whatever the device.

        They are the same ones however many processes share the batch.
        """
        return optimisation.rand_per_image(len(x), count)

    def as_mean(self, summed: Tensor) -> Tensor:
        """Turn a loss that sums over the images into one for ``optimise``, which takes means."""
        return optimisation.as_mean(summed)
