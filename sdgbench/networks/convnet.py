"""The Digits ConvNet of GUD and M-ADA: 4,547,466 parameters at width 64."""

import torch
from torch import Tensor, nn

from sdgbench.networks.base import Network
from sdgbench.networks.layers import FirstConv2d, Linear


class ConvNet(Network):
    """Two 5x5 convolutions with pooling, two hidden layers; features: the second, after ReLU."""

    def __init__(self, classes: int, size: tuple[int, int], width: int = 64) -> None:
        super().__init__()
        height, breadth = (((side - 4) // 2 - 4) // 2 for side in size)
        hidden = 16 * width
        self.body = nn.Sequential(
            FirstConv2d(3, width, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            Linear(2 * width * height * breadth, hidden),
            nn.ReLU(),
            Linear(hidden, hidden),
            nn.ReLU(),
        )
        self.classifier = Linear(hidden, classes)

    def embed(self, x: Tensor) -> Tensor:
        """The last hidden layer."""
        if x.device.type == "cpu":  # in this layout its pooling is ten times faster
            x = x.contiguous(memory_format=torch.channels_last)
        z: Tensor = self.body(x)
        return z

    def head(self, z: Tensor) -> Tensor:
        """The linear classifier."""
        logits: Tensor = self.classifier(z)
        return logits
