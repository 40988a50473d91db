"""Batch norm over all processes that share a batch; torch's own has no second derivative."""

import torch
from torch import Tensor, nn

from sdgbench.errors import UserError
from sdgbench.networks.batch_norm import Exchange, shared_batch_norm, statistics
from sdgbench.networks.layers import BatchNorm2d
from sdgbench.training import distributed


class _SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm with the statistics of all processes: one message in each direction."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise by the whole batch, and update running statistics as torch does."""
        if distributed.current_shard() is None or not self.training:
            return super().forward(x)
        plain = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        exchange = Exchange(distributed.gather_rows, distributed.sum_in_place)
        with torch.no_grad():
            mean, variance, count = batch = statistics(plain, exchange)
            if self.track_running_stats and self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
                step = self.momentum or 1 / float(self.num_batches_tracked)
                unbiased = variance * (count / (count - 1))
                for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
                    assert running is not None
                    running.lerp_(new.to(running.dtype), step)
        weight = self.weight if self.affine else torch.ones_like(mean)
        bias = self.bias if self.affine else torch.zeros_like(mean)
        return shared_batch_norm(plain, weight, bias, batch, self.eps, exchange).to(x.dtype)


_SYNCED: dict[type[nn.Module], type[nn.Module]] = {
    plain: type(f"Sync{plain.__name__}", (_SyncBatchNorm, plain), {})
    for plain in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, BatchNorm2d)
}


class _SyncBatchNormAct(_SyncBatchNorm):
    """The same for timm's batch norm that contains the activation which follows it."""

    drop: nn.Module
    act: nn.Module

    def forward(self, x: Tensor) -> Tensor:
        """Normalise by the whole batch, then activate."""
        if distributed.current_shard() is None or not self.training:
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
    for layer in module.modules() if distributed.size() > 1 else ():
        layer.__class__ = _synced(type(layer))
