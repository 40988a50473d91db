"""The losses of L2D: the likelihood and CLUB of codes, and the class-conditional MMD."""

import torch
from torch import Tensor
from torch.nn import functional as F

KERNELS, FACTOR = 5, 2.0  # RBF kernels of the MMD, and the ratio of their bandwidths (code)


def negative_likelihood(mu: Tensor, logvar: Tensor, z: Tensor) -> Tensor:
    """How unlikely codes are under normal distributions, up to constants."""
    return ((mu - z).square() / logvar.exp() + logvar).mean()


def club(mu: Tensor, logvar: Tensor, z: Tensor, other: Tensor) -> Tensor:
    """A sample of CLUB (Cheng et al., ICML 2020), an upper bound of the mutual information.

    ``z[other]`` are codes of other images.
    """
    own, foreign = ((mu - code).square() / logvar.exp() for code in (z, z[other]))
    return (foreign - own).sum(1).mean() / 2


def conditional_mmd(first: Tensor, second: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The squared maximum mean discrepancy within each class, as a mean over all classes.

    A class's bandwidths are its mean squared distance, times 1/4 to 4. A class that does not occur
    counts as 0.
    """
    count = len(first)
    both, labels = torch.cat([first, second]), labels.repeat(2)
    square = (both[:, None] - both).square().sum(2)
    member = F.one_hot(labels, classes).to(square)
    size = member.sum(0)  # of each class, in both halves
    with torch.no_grad():
        total = (member * (square @ member)).sum(0)
        bandwidth = (total / (size.square() - size).clamp(min=1)).clamp(min=1e-12)[labels]
    kernel = torch.zeros_like(square)
    for power in range(KERNELS):
        kernel = kernel + (-square / (bandwidth * FACTOR ** (power - KERNELS // 2))).exp()
    sign = torch.ones_like(bandwidth)
    sign[count:] = -1
    weight = (member @ member.T) * sign * sign[:, None] / (size[labels] / 2).square()
    return (kernel * weight).sum() / classes
