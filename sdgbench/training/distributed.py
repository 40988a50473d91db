"""Several processes in one run: each computes a shard of every batch, and all stay equal.

``torchrun --nproc-per-node N -m sdgbench run ...`` starts the processes. The recipe's batch is
the whole batch. Without torchrun there is one process, which has the whole batch.
"""

import os
import time
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

BARRIER_TIMEOUT = timedelta(seconds=60)  # how much later than the first others may end a run
GROUP_TIMEOUT = timedelta(hours=12)  # the first process may prepare data meanwhile

T = TypeVar("T")
Rows = TypeVar("Rows", Tensor, np.ndarray, list[Any])


@dataclass(frozen=True)
class BatchShard:
    """Which images of a batch are this process's."""

    start: int
    stop: int
    total: int

    @property
    def weight(self) -> float:
        """The weight of a mean over this shard in the mean over the batch."""
        return (self.stop - self.start) / self.total

    def take(self, batch: Rows) -> Rows:
        """This shard's rows of an array that has a row per image of the batch."""
        return batch[self.start : self.stop]

    def global_count(self, images: int) -> int:
        """The number of images in all processes that correspond to ``images`` in this one."""
        return images * self.total // (self.stop - self.start)


@dataclass
class _ProcessGroup:
    rank: int = 0
    size: int = 1
    shard: BatchShard | None = None  # of the current step; None: every process has the whole batch
    control_group: Any = None  # torch's group for Python objects and votes, on the CPU


_process_group = _ProcessGroup()


def size() -> int:
    """The number of processes that share the run."""
    return _process_group.size


def rank() -> int:
    """The number of this process, from 0."""
    return _process_group.rank


def is_rank_zero() -> bool:
    """Say whether this is the first process: the one that prints, locks and writes."""
    return _process_group.rank == 0


def current_shard() -> BatchShard | None:
    """This process's shard of the current batch, or None where it has the whole batch."""
    return _process_group.shard


# Joining and leaving ---------------------------------------------------------------------------


def is_launched() -> bool:
    """Say whether torchrun started several processes, of which this is one."""
    launched = all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"))
    return launched and int(os.environ["WORLD_SIZE"]) > 1


def prints() -> bool:
    """Say whether this process is the one that prints, before and after the others join it."""
    return not is_launched() or os.environ["RANK"] == "0"


@contextmanager
def joined(device: str) -> Iterator[str]:
    """Join the processes that torchrun started, if it did; yields this process's device."""
    if not is_launched():
        yield device
        return
    local_device = device_of_rank(device, int(os.environ.get("LOCAL_RANK", 0)))
    on_gpu = local_device.startswith("cuda")
    if on_gpu:
        torch.cuda.set_device(local_device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=GROUP_TIMEOUT)
    _process_group.rank, _process_group.size = dist.get_rank(), dist.get_world_size()
    _process_group.control_group = dist.new_group(backend="gloo", timeout=GROUP_TIMEOUT)
    try:
        yield local_device
    finally:
        _process_group.__init__()  # type: ignore[misc]
        # Before torch 2.8 the next line deadlocks while a thread of torch still frees a tensor.
        time.sleep(0.5)
        dist.destroy_process_group()


def device_of_rank(name: str, local_rank: int) -> str:
    """The device of a process, by its rank among the processes on its machine."""
    if name.startswith("cuda:") or name == "mps":
        raise UserError(f"Several processes cannot share {name}. Use --device auto, cuda or cpu.")
    if name == "cpu" or not torch.cuda.is_available():
        return name
    if local_rank >= torch.cuda.device_count():
        raise UserError(
            f"There are more processes than GPUs here ({torch.cuda.device_count()}). "
            "Lower --nproc-per-node."
        )
    return f"cuda:{local_rank}"


# Communication ---------------------------------------------------------------------------------


def all_gather(value: T) -> list[T]:
    """The values of all processes, in order of rank."""
    if _process_group.size == 1:
        return [value]
    values: list[Any] = [None] * _process_group.size
    dist.all_gather_object(values, value, group=_process_group.control_group)
    return cast(list[T], values)


def on_rank_zero(work: Callable[[], T]) -> T:
    """Do the work in the first process while the others wait; all get its result, or its error."""
    if _process_group.size == 1:
        return work()
    result_and_error: list[Any] = [None, None]
    if is_rank_zero():
        try:
            result_and_error = [work(), None]
        except Exception as error:
            result_and_error = [None, error]
    dist.broadcast_object_list(result_and_error, src=0, group=_process_group.control_group)
    result, failure = result_and_error
    if failure is not None:
        raise failure
    return cast(T, result)


def all_same(value: object, message: str) -> None:
    """Raise a UserError with this message where the processes' values differ."""
    if any(other != value for other in all_gather(value)):
        raise UserError(message)


def barrier() -> bool:
    """Wait for all processes at the end of a run; False: one of them did not arrive in time."""
    if _process_group.size > 1:
        try:
            dist.monitored_barrier(_process_group.control_group, timeout=BARRIER_TIMEOUT)
        except RuntimeError:
            return False
    return True


class AnyRank:
    """A condition that holds in all processes as soon as it holds in one.

    All processes must call it equally often. Where there are several, a call returns what was
    known at the call before, so that nobody waits. Once it is true, it stays true.
    """

    def __init__(self, condition: Callable[[], bool]) -> None:
        self.condition, self.holds = condition, False
        self._pending: Any = None
        self._votes = torch.zeros(1)

    def __call__(self) -> bool:
        """Test the condition here, and return whether it held in any process."""
        if _process_group.size == 1:
            return self.condition()
        if not self.holds:
            if self._pending:
                self._pending.wait()
                self.holds = bool(self._votes > 0)
            if not self.holds:
                self._votes.fill_(self.condition())
                group = _process_group.control_group
                self._pending = dist.all_reduce(self._votes, group=group, async_op=True)
        return self.holds


# Batches and gradients -------------------------------------------------------------------------


class shard_scope:  # noqa: N801  # a generator's context takes three times as long, each step
    """While this lasts, this process works on a shard of the batch."""

    def __init__(self, shard: BatchShard | None) -> None:
        self.shard = shard

    def __enter__(self) -> None:
        _process_group.shard = self.shard

    def __exit__(self, *_: object) -> None:
        _process_group.shard = None


def shard_of(total: int) -> BatchShard | None:
    """This process's shard of a batch; None: too few images, so every process does all of them."""
    rank, size = _process_group.rank, _process_group.size
    if size == 1 or total < size:
        return None
    ends = np.cumsum([len(shard) for shard in np.array_split(np.arange(total), size)])
    return BatchShard(int(ends[rank - 1]) if rank else 0, int(ends[rank]), total)


def weight() -> float:
    """The weight of this process's mean in the mean over all processes."""
    return _process_group.shard.weight if _process_group.shard else 1 / _process_group.size


def all_reduce_sum(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The sums over all processes, in one message; differentiable any number of times."""
    flat: Tensor = _Sum.apply(torch.cat([tensor.reshape(-1) for tensor in tensors]))
    sums = flat.split([tensor.numel() for tensor in tensors])
    return [summed.view_as(tensor) for summed, tensor in zip(sums, tensors, strict=True)]


class _Sum(torch.autograd.Function):
    """The sum over processes; each process's result counts, so gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        tensor = tensor.clone()
        dist.all_reduce(tensor)
        return tensor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        result: Tensor = _Sum.apply(grad)
        return result


# Batch norm ------------------------------------------------------------------------------------


class _SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm with the statistics of all processes; torch's own has no second derivative."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise by the whole batch, and update running statistics as torch does."""
        shard = _process_group.shard
        if shard is None or not self.training:
            return super().forward(x)
        plain = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        dims = [0, *range(2, x.dim())]
        shape = [1, -1] + [1] * (x.dim() - 2)
        count = shard.global_count(len(x)) * (x.numel() // len(x) // x.shape[1])
        mean = all_reduce_sum([plain.sum(dims)])[0] / count
        centred = plain - mean.view(shape)
        variance = all_reduce_sum([centred.square().sum(dims)])[0] / count
        if self.track_running_stats and self.num_batches_tracked is not None:
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                step = self.momentum or 1 / float(self.num_batches_tracked)
                updates = (
                    (self.running_mean, mean),
                    (self.running_var, variance * count / (count - 1)),
                )
                for running, new in updates:
                    assert running is not None
                    running.lerp_(new.to(running.dtype), step)
        result = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(x.dtype)


_SYNCED: dict[type[nn.Module], type[nn.Module]] = {
    plain: type(f"Sync{plain.__name__}", (_SyncBatchNorm, plain), {})
    for plain in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
}


class _SyncBatchNormAct(_SyncBatchNorm):
    """The same for timm's batch norm that contains the activation which follows it."""

    drop: nn.Module
    act: nn.Module

    def forward(self, x: Tensor) -> Tensor:
        """Normalise by the whole batch, then activate."""
        if _process_group.shard is None or not self.training:
            return super().forward(x)
        result: Tensor = self.act(self.drop(super().forward(x)))
        return result


def _synced(kind: type[nn.Module]) -> type[nn.Module]:
    """The class of a layer that uses the statistics of all processes."""
    if kind not in _SYNCED and kind.__name__ == "BatchNormAct2d":
        _SYNCED[kind] = type(f"Sync{kind.__name__}", (_SyncBatchNormAct, kind), {})
    known = kind in _SYNCED or issubclass(kind, _SyncBatchNorm)
    if issubclass(kind, nn.modules.batchnorm._BatchNorm) and not known:
        raise UserError(
            f"The batch norm {kind.__name__} of this network cannot share its statistics between "
            "processes. Use one process, or another recipe.network."
        )
    return _SYNCED.get(kind, kind)


def sync_batch_norm(module: nn.Module) -> None:
    """Let batch norm use the statistics of all processes, in place: weights and names stay."""
    for layer in module.modules() if _process_group.size > 1 else ():
        layer.__class__ = _synced(type(layer))
