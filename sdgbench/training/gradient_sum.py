"""Sums gradients over processes while the backward pass still computes the others."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sdgbench.training import distributed

BUCKET_BYTES = 1 << 20  # gradients that travel in one message, about


class GradientSum:
    """Make it before a backward pass, and call ``finish`` after it.

    Gradients are complete about in reverse order of their weights. They are sent in buckets of
    that order, which is the same in all processes: each when it and those before it are complete.
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self._buckets = _buckets(weights)
        self._bucket_of = {id(w): n for n, bucket in enumerate(self._buckets) for w in bucket}
        self._missing = [len(bucket) for bucket in self._buckets]
        self._sent: list[tuple[list[Tensor], Tensor, Callable[[], None]]] = []
        self._hooks = [w.register_post_accumulate_grad_hook(self._note) for w in weights]

    def _note(self, weight: Tensor) -> None:
        """A gradient is complete."""
        self._missing[self._bucket_of[id(weight)]] -= 1
        # The last bucket waits for the loss.
        while len(self._sent) < len(self._buckets) - 1 and not self._missing[len(self._sent)]:
            self._send()

    def _send(self, *more: Tensor) -> None:
        bucket = self._buckets[len(self._sent)]
        grads = [weight.grad for weight in bucket if weight.grad is not None]
        flat = torch.cat([tensor.reshape(-1) for tensor in (*grads, *more)] or [torch.zeros(0)])
        self._sent.append((grads, flat, distributed.start_sum(flat)))

    def finish(self, loss: Tensor) -> Tensor:
        """Replace all gradients by their sums; returns the sum of the losses."""
        for hook in self._hooks:
            hook.remove()
        while len(self._sent) < len(self._buckets) - 1:  # weights that the loss does not reach
            self._send()
        self._send(loss.to(self._buckets[-1][0].dtype).reshape(1))
        for grads, flat, wait in self._sent:
            wait()
            parts = flat[: sum(grad.numel() for grad in grads)].split([g.numel() for g in grads])
            for grad, summed in zip(grads, parts, strict=True):
                grad.copy_(summed.view_as(grad))
        return self._sent[-1][1][-1]


def _buckets(weights: Sequence[Tensor]) -> list[list[Tensor]]:
    """Weights from the last to the first, in lists of one type."""
    buckets: list[list[Tensor]] = []
    size = BUCKET_BYTES
    for weight in reversed(weights):
        bytes_ = weight.numel() * weight.element_size()
        if size + bytes_ > BUCKET_BYTES or buckets[-1][0].dtype != weight.dtype:
            buckets.append([])
            size = 0
        buckets[-1].append(weight)
        size += bytes_
    return buckets
