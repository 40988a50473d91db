"""One of two processes that share ERM's batches: ``python processes.py NETWORK``, see RANK.

In turn, one process alone does steps, both do them as commit 9eedc93 did (two messages per batch
norm and direction, one message with all gradients after the backward pass, a vote at each step),
and both do them as the harness does now. The first process prints medians as JSON.
"""

import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist
from helpers import RECIPE, erm, make
from torch import nn

from sdgbench.training import distributed, optimisation
from sdgbench.training.device import keep_freed_memory
from sdgbench.training.sync_batch_norm import sync_batch_norm

STEPS, ROUNDS, BATCH = 3, 7, 32


class BatchNormBefore(nn.BatchNorm2d):
    """Statistics by two sums over processes, each with a gradient of its own."""

    def forward(self, x):
        if distributed.current_shard() is None:
            return super().forward(x)
        count = BATCH * x.shape[2] * x.shape[3]
        mean = distributed.all_reduce_sum([x.sum((0, 2, 3))])[0] / count
        centred = x - mean.view(1, -1, 1, 1)
        variance = distributed.all_reduce_sum([centred.square().sum((0, 2, 3))])[0] / count
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * count / (count - 1), self.momentum)
        result = centred * (variance + self.eps).rsqrt().view(1, -1, 1, 1)
        return result * self.weight.view(1, -1, 1, 1) + self.bias.view(1, -1, 1, 1)


class SumBefore:
    """All gradients in one message, after the backward pass."""

    def __init__(self, weights):
        self.weights = weights

    def finish(self, loss):
        *sums, loss = distributed.all_reduce_sum([*(w.grad for w in self.weights), loss])
        for weight, summed in zip(self.weights, sums, strict=True):
            weight.grad.copy_(summed)
        return loss


class VoteBefore:
    """A vote at each step."""

    pending = None

    def __call__(self):
        if self.pending:
            self.pending.wait()
        group = distributed._process_group.paced_group
        self.pending = dist.all_reduce(torch.zeros(1), group=group, async_op=True)


def main(network: str) -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    folder = Path(tempfile.mkdtemp())
    recipe = replace(RECIPE, network=network, batch=BATCH, optimiser="sgd", momentum=0.9)
    x, y = torch.rand(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))
    with distributed.joined("cpu"):
        alone, before, now = (make(erm(), folder / str(n), recipe) for n in range(3))
        for layer in before.network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.__class__ = BatchNormBefore
        sync_batch_norm(now.network)
        votes = {"before": VoteBefore(), "now": distributed.AnyRank(lambda: False)}
        times = {"alone": [], "before": [], "now": []}

        def steps(name, method, shard):
            batch = (shard.take(x), shard.take(y)) if shard else (x, y)
            distributed.wait_for_all()
            began = time.perf_counter()
            if shard or distributed.is_rank_zero():
                with distributed.shard_scope(shard):
                    for _ in range(STEPS):
                        method.train_step(*batch)
                        if shard:
                            votes[name]()
            times[name].append((time.perf_counter() - began) / STEPS)
            distributed.wait_for_all()

        for _ in range(ROUNDS + 1):
            steps("alone", alone, None)
            with patch.object(optimisation, "GradientSum", SumBefore):
                steps("before", before, distributed.shard_of(BATCH))
            steps("now", now, distributed.shard_of(BATCH))
        rounds = list(zip(*(times[name][1:] for name in times), strict=True))
        if distributed.is_rank_zero():
            ratios = {
                "before / alone": statistics.median(b / a for a, b, _ in rounds),
                "now / alone": statistics.median(n / a for a, _, n in rounds),
                "now / before": statistics.median(n / b for _, b, n in rounds),
            }
            print(json.dumps({name: round(value, 3) for name, value in ratios.items()}))


if __name__ == "__main__":
    main(sys.argv[1])
