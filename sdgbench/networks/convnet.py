"""The Digits ConvNet of GUD and M-ADA: 4,547,466 parameters at width 64."""

from torch import Tensor, nn

from sdgbench.networks.base import Network


class ConvNet(Network):
    """Two 5x5 convolutions with pooling, two hidden layers; features: the second, after ReLU."""

    def __init__(self, classes: int, size: tuple[int, int], width: int = 64) -> None:
        super().__init__()
        height, breadth = (((side - 4) // 2 - 4) // 2 for side in size)
        hidden = 16 * width
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * width * height * breadth, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(hidden, classes)

    def embed(self, x: Tensor) -> Tensor:
        """The last hidden layer."""
        z: Tensor = self.body(x)
        return z

    def head(self, z: Tensor) -> Tensor:
        """The linear classifier."""
        logits: Tensor = self.classifier(z)
        return logits
