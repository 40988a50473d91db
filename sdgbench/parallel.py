"""Several processes in one run: each takes its part of every batch, and all stay equal.

``torchrun --nproc-per-node N -m sdgbench run ...`` starts the processes. The recipe's batch is
the whole batch. Without torchrun everything here is a matter of course: one process, all of it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from sdgbench.errors import UserError

PATIENCE = timedelta(seconds=60)  # how much later than the first others may end a run
LONG = timedelta(hours=12)  # the first process may prepare data meanwhile

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """Which images of a batch are this process's."""

    start: int
    stop: int
    total: int

    @property
    def weight(self) -> float:
        """What a mean over this part counts in the mean over the batch."""
        return (self.stop - self.start) / self.total

    def of(self, whole: Any) -> Any:
        """Cut this part out of something that has a row per image."""
        return whole[self.start : self.stop]

    def count(self, images: int) -> int:
        """How many images of all processes stand behind so many here."""
        return images * self.total // (self.stop - self.start)


@dataclass
class _World:
    rank: int = 0
    size: int = 1
    part: Part | None = None  # of the step at hand; None: every process has the whole batch
    told: Any = None  # the group for small things, which are told by CPUs


_world = _World()


def size() -> int:
    """How many processes share the run."""
    return _world.size


def rank() -> int:
    """Which of them this is."""
    return _world.rank


def is_first() -> bool:
    """Say whether this is the process that prints, locks and writes."""
    return _world.rank == 0


def part() -> Part | None:
    """This process's part of the batch at hand, or None where it has the whole."""
    return _world.part


# Joining and leaving ---------------------------------------------------------------------------


def is_launched() -> bool:
    """Say whether torchrun started several processes, of which this is one."""
    launched = all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"))
    return launched and int(os.environ["WORLD_SIZE"]) > 1


@contextmanager
def joined(device: str) -> Iterator[str]:
    """Join the processes that torchrun started, if it did; gives the name of our own device."""
    if not is_launched():
        yield device
        return
    own = own_device(device, int(os.environ.get("LOCAL_RANK", 0)))
    on_gpu = own.startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(own)
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=LONG)
    _world.rank, _world.size = dist.get_rank(), dist.get_world_size()
    _world.told = dist.new_group(backend="gloo", timeout=LONG)
    try:
        yield own
    finally:
        _world.__init__()  # type: ignore[misc]
        dist.destroy_process_group()


def own_device(name: str, place: int) -> str:
    """The device of the process at a place on its machine."""
    if name.startswith("cuda:") or name == "mps":
        raise UserError(f"Several processes cannot share {name}. Use --device auto, cuda or cpu.")
    if name == "cpu" or not torch.cuda.is_available():
        return name
    if place >= torch.cuda.device_count():
        raise UserError(
            f"There are more processes than GPUs here ({torch.cuda.device_count()}). "
            "Lower --nproc-per-node."
        )
    return f"cuda:{place}"


# Agreement -------------------------------------------------------------------------------------


def gathered(value: T) -> list[T]:
    """Everybody's value, in order of rank."""
    if _world.size == 1:
        return [value]
    found: list[Any] = [None] * _world.size
    dist.all_gather_object(found, value, group=_world.told)
    return cast(list[T], found)


def from_first(work: Callable[[], T]) -> T:
    """Let the first process do it, the others wait; all get its result, or its error."""
    if _world.size == 1:
        return work()
    outcome: list[Any] = [None, None]
    if is_first():
        try:
            outcome = [work(), None]
        except Exception as error:
            outcome = [None, error]
    dist.broadcast_object_list(outcome, src=0, group=_world.told)
    if outcome[1] is not None:
        raise outcome[1]
    return cast(T, outcome[0])


def all_same(value: object, complaint: str) -> None:
    """Refuse to go on where processes differ."""
    if any(other != value for other in gathered(value)):
        raise UserError(complaint)


def meet() -> bool:
    """Wait for the others at the end of a run, and say whether they came."""
    if _world.size > 1:
        try:
            dist.monitored_barrier(_world.told, timeout=PATIENCE)
        except RuntimeError:
            return False
    return True


class Agreed:
    """A question whose answer is yes for all as soon as it is for one.

    All must ask equally often. Where there are several, the answer is a call old: so nobody waits
    for it. Once it is yes, it stays.
    """

    def __init__(self, asked: Callable[[], bool]) -> None:
        self.asked, self.yes = asked, False
        self._pending: Any = None
        self._votes = torch.zeros(1)

    def __call__(self) -> bool:
        """Ask."""
        if _world.size == 1:
            return self.asked()
        if not self.yes:
            if self._pending:
                self._pending.wait()
                self.yes = bool(self._votes > 0)
            if not self.yes:
                self._votes.fill_(self.asked())
                self._pending = dist.all_reduce(self._votes, group=_world.told, async_op=True)
        return self.yes


# Batches and gradients -------------------------------------------------------------------------


@contextmanager
def sharing(part: Part | None) -> Iterator[None]:
    """For one step, this process works on a part of the batch."""
    _world.part = part
    try:
        yield
    finally:
        _world.part = None


def part_of(total: int) -> Part | None:
    """This process's part of a batch; None: too few images, so all do all of them."""
    if _world.size == 1 or total < _world.size:
        return None
    ends = np.cumsum([len(some) for some in np.array_split(np.arange(total), _world.size)])
    return Part(int(ends[_world.rank - 1]) if _world.rank else 0, int(ends[_world.rank]), total)


def weight() -> float:
    """What this process's mean counts in that of all: its part, or as much as the others'."""
    return _world.part.weight if _world.part else 1 / _world.size


def total(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The sums over all processes, in one message; derivatives of any order go through it."""
    flat: Tensor = _Sum.apply(torch.cat([tensor.reshape(-1) for tensor in tensors]))
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [some.view_as(tensor) for some, tensor in zip(parts, tensors, strict=True)]


class _Sum(torch.autograd.Function):
    """The sum over processes; each one's result counts, so the slopes are summed as well."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        tensor = tensor.clone()
        dist.all_reduce(tensor)
        return tensor

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        result: Tensor = _Sum.apply(slope)
        return result


# Batch norm ------------------------------------------------------------------------------------


class _SharedNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm with the statistics of the whole batch; torch's own has no second derivative."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise; running statistics follow as in torch's."""
        part = _world.part
        if part is None or not self.training:
            return super().forward(x)
        plain = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        dims = [0, *range(2, x.dim())]
        shape = [1, -1] + [1] * (x.dim() - 2)
        count = part.count(len(x)) * (x.numel() // len(x) // x.shape[1])
        mean = total([plain.sum(dims)])[0] / count
        centred = plain - mean.view(shape)
        variance = total([centred.square().sum(dims)])[0] / count
        if self.track_running_stats and self.num_batches_tracked is not None:
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                step = self.momentum or 1 / float(self.num_batches_tracked)
                news = (
                    (self.running_mean, mean),
                    (self.running_var, variance * count / (count - 1)),
                )
                for running, new in news:
                    assert running is not None
                    running.lerp_(new.to(running.dtype), step)
        result = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(x.dtype)


_SHARED: dict[type[nn.Module], type[nn.Module]] = {
    plain: type(f"Shared{plain.__name__}", (_SharedNorm, plain), {})
    for plain in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
}


def share_statistics(module: nn.Module) -> None:
    """Let batch norm see the whole batch, in place: weights and names stay."""
    for layer in module.modules() if _world.size > 1 else ():
        layer.__class__ = _SHARED.get(type(layer), type(layer))
