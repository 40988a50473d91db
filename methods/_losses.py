"""Losses that several methods share."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def entropy(logits: Tensor) -> Tensor:
    """The entropy of each image's prediction in nats; the mean over its pixels, if it has some."""
    log_p = logits.float().log_softmax(1)
    return -(log_p.exp() * log_p).sum(1).reshape(len(logits), -1).mean(1)


def js_divergence(logits: Sequence[Tensor], floor: float = 1e-7) -> Tensor:
    """The Jensen-Shannon divergence of the predictions for several views of each image.

    It is the mean over the views of KL(p_i || p), where p is the mean of all p_i, clamped at
    ``floor``; then the mean over images, or over pixels where each has a prediction.
    """
    log_p = torch.stack(list(logits)).log_softmax(2)  # (view, image, class, ...)
    p = log_p.exp()
    log_mixture = p.mean(0).clamp(min=floor).log()
    return (p * (log_p - log_mixture)).sum(2).mean()


def supervised_contrast(z: Tensor, labels: Tensor, temperature: float = 0.07) -> Tensor:
    """The supervised contrastive loss (Khosla et al., NeurIPS 2020) of normalised embeddings.

    Each image attracts the others of its class; the mean of their log probabilities among all
    other images. An image that is alone in its class counts as 0.
    """
    z = F.normalize(z.float(), dim=1)
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    similarity = (z @ z.T / temperature).masked_fill(itself, float("-inf"))
    log_p = similarity.log_softmax(1).masked_fill(itself, 0.0)
    positives = (labels[:, None] == labels) & ~itself
    return -((log_p * positives).sum(1) / positives.sum(1).clamp(min=1)).mean()
