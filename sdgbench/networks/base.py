"""What every task network offers: features, a head, and a count of the images it saw."""

import torch
from torch import Tensor, nn

from sdgbench import parallel


class Network(nn.Module):
    """``forward`` is ``head(features(x))``; ``features`` takes pixels in [0, 1]."""

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        mean: tuple[float, float, float] | None = None,
        std: tuple[float, float, float] = (1.0, 1.0, 1.0),
    ) -> None:
        super().__init__()
        self.normalises = mean is not None
        for name, value in (("mean", mean or (0.0, 0.0, 0.0)), ("std", std)):
            self.register_buffer(name, torch.tensor(value).view(1, 3, 1, 1), persistent=False)
        self.images_forward = 0
        self.images_with_gradient = 0  # the part of them that was recorded for a backward pass

    def features(self, x: Tensor) -> Tensor:
        """The embedding in which methods measure distances."""
        part = parallel.part()
        images = part.count(len(x)) if part else len(x)
        self.images_forward += images
        if torch.is_grad_enabled():
            self.images_with_gradient += images
        return self.embed((x - self.mean) / self.std if self.normalises else x)

    def forward(self, x: Tensor) -> Tensor:
        """Logits with the classes in dimension 1."""
        return self.head(self.features(x))

    def embed(self, x: Tensor) -> Tensor:
        """Features of normalised images."""
        raise NotImplementedError

    def head(self, z: Tensor) -> Tensor:
        """Logits from features."""
        raise NotImplementedError
