"""Several processes in one run: each computes a shard of every batch, and all stay equal.

``torchrun --nproc-per-node N -m sdgbench run ...`` starts the processes. The recipe's batch is
the whole batch. Without torchrun there is one process, which has the whole batch.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from sdgbench.errors import UserError

BARRIER_TIMEOUT = timedelta(seconds=60)  # how much later than the first others may end a run
GROUP_TIMEOUT = timedelta(hours=12)  # the first process may prepare data meanwhile
STEP_TIMEOUT = timedelta(minutes=10)  # how long a process waits for the others within a step
REPORT_SECONDS = 10.0  # how much later than the first others may notice that one does not answer
VOTE_SECONDS = 0.25  # between two votes on whether to stop, about

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
    names: Sequence[str] = ("process 0",)  # of all processes, for messages
    step_group: Any = None  # torch's group for tensors of the device, with the step's timeout
    paced_group: Any = None  # the same for Python objects and votes, on the CPU
    control_group: Any = None  # for what only the first process does, which may take hours


_process_group = _ProcessGroup()


class NotAnsweringError(RuntimeError):
    """A process hangs or died; the message names it."""


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
    """This process's shard of the current batch, or None where it has the whole batch.

    With the whole batch each process computes the same, and no gradients are exchanged.
    """
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
    _process_group.step_group = dist.new_group(timeout=STEP_TIMEOUT)
    _process_group.paced_group = dist.new_group(backend="gloo", timeout=STEP_TIMEOUT)
    _process_group.control_group = dist.new_group(backend="gloo", timeout=GROUP_TIMEOUT)
    name = f"process {rank()} (pid {os.getpid()} on {socket.gethostname()})"
    _process_group.names = all_gather(name)
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
    with answered():
        dist.all_gather_object(values, value, group=_process_group.paced_group)
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


@contextmanager
def answered() -> Iterator[None]:
    """Wait for other processes inside of this; one that does not answer is named in the error."""
    try:
        yield
    except RuntimeError as error:
        raise NotAnsweringError(_describe_missing()) from error


def _describe_missing() -> str:
    """Say which processes do not report, in each of those that noticed it."""
    names = _process_group.names
    try:
        store = dist.distributed_c10d._get_default_store()
        store.set_timeout(timedelta(seconds=REPORT_SECONDS))
        store.set(f"sdgbench/noticed/{rank()}", "1")
        deadline = time.monotonic() + REPORT_SECONDS
        missing = list(range(len(names)))
        while missing and time.monotonic() < deadline:
            missing = [n for n in missing if not store.check([f"sdgbench/noticed/{n}"])]
            time.sleep(0.1)
    except RuntimeError:  # the first process keeps the store
        missing = [0]
    who = " and ".join(names[n] for n in missing) or "a process"
    seconds = STEP_TIMEOUT.total_seconds()
    return (
        f"{who} ended, or did not answer the others for {seconds:.0f} seconds. The run ends here; "
        "the same command continues it."
    )


class AnyRank:
    """A condition that holds in all processes as soon as it holds in one.

    All processes must call it equally often. Where there are several, they vote about every
    ``VOTE_SECONDS``, and hear the result one vote later, so that nobody waits. A vote also agrees
    on the number of calls until the next one. Once the condition is true, it stays true.
    """

    def __init__(self, condition: Callable[[], bool]) -> None:
        self.condition, self.holds = condition, False
        self._pending: Any = None
        self._calls, self._interval, self._voted_at = 0, 1, time.monotonic()

    def __call__(self) -> bool:
        """Test the condition here, and return whether it held in any process."""
        if _process_group.size == 1:
            return self.condition()
        self._calls += 1
        if not self.holds and self._calls >= self._interval:
            if self._pending:
                with answered():
                    self._pending.wait()
                self.holds = bool(self._votes[0] > 0)
                self._interval = int(-self._votes[1])
            if not self.holds:
                self._vote()
        return self.holds

    def _vote(self) -> None:
        now = time.monotonic()
        pace = (now - self._voted_at) / self._calls
        calls = min(max(1, int(VOTE_SECONDS / max(pace, 1e-6))), 2 * self._interval)
        # The largest of both: whether any wants to stop, and minus the smallest number of calls.
        self._votes = torch.tensor([float(self.condition()), -float(calls)])
        self._calls, self._voted_at = 0, now
        self._pending = dist.all_reduce(
            self._votes, dist.ReduceOp.MAX, group=_process_group.paced_group, async_op=True
        )


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
    """The weight of this process's mean in the mean over the batch."""
    return _process_group.shard.weight if _process_group.shard else 1.0


def all_reduce_sum(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The sums over all processes, in one message; differentiable any number of times."""
    flat: Tensor = _Sum.apply(torch.cat([tensor.reshape(-1) for tensor in tensors]))
    sums = flat.split([tensor.numel() for tensor in tensors])
    return [summed.view_as(tensor) for summed, tensor in zip(sums, tensors, strict=True)]


class _Sum(torch.autograd.Function):
    """The sum over processes; each process's result counts, so gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return sum_in_place(tensor.clone())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        result: Tensor = _Sum.apply(grad)
        return result


def sum_in_place(tensor: Tensor) -> Tensor:
    """Replace a tensor by its sum over all processes."""
    with answered():
        dist.all_reduce(tensor, group=_process_group.step_group)
    return tensor


def start_sum(tensor: Tensor) -> Callable[[], None]:
    """Begin to replace a tensor by its sum over all processes; call the result to wait for it."""
    work = dist.all_reduce(tensor, group=_process_group.step_group, async_op=True)

    def wait() -> None:
        with answered():
            work.wait()

    return wait


def gather_rows(row: Tensor) -> Tensor:
    """A tensor with a row of each process."""
    rows = [torch.empty_like(row) for _ in range(_process_group.size)]
    with answered():
        dist.all_gather(rows, row, group=_process_group.step_group)
    return torch.stack(rows)


def wait_for_all() -> None:
    """Wait until every process is here."""
    if _process_group.size > 1:
        with answered():
            dist.barrier(_process_group.paced_group)


def copy_from_rank_zero(tensors: Sequence[Tensor]) -> None:
    """Give these tensors the first process's values, in place."""
    kinds = {(tensor.dtype, tensor.device) for tensor in tensors}
    for kind in sorted(kinds, key=str):
        same = [tensor for tensor in tensors if (tensor.dtype, tensor.device) == kind]
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in same])
        # What lives on the CPU beside a GPU, such as counts of an optimiser, takes the other group.
        on_host = kind[1].type == "cpu"
        group = _process_group.paced_group if on_host else _process_group.step_group
        with answered():
            dist.broadcast(flat, 0, group=group)
        with torch.no_grad():
            for tensor, values in zip(same, flat.split([t.numel() for t in same]), strict=True):
                tensor.copy_(values.view_as(tensor))
