"""Wide residual networks for 32x32 images; WRN-16-4 has 2,748,890 parameters for 10 classes."""

import re

from torch import Tensor, nn
from torch.nn import functional as F

from sdgbench.errors import UserError
from sdgbench.networks.base import Network
from sdgbench.networks.layers import BatchNorm2d
from sdgbench.registry import register_network

CIFAR_MEAN = (125.3 / 255, 123.0 / 255, 113.9 / 255)
CIFAR_STD = (63.0 / 255, 62.1 / 255, 66.7 / 255)


class Block(nn.Module):
    """Pre-activation: BN-ReLU-conv3x3, twice, added to its input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn2 = BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        # The shortcut of a widening block starts from the activated input.
        self.shortcut = (
            nn.Conv2d(inputs, outputs, 1, stride, bias=False) if (inputs != outputs) else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """The input plus the residual."""
        active = F.relu(self.bn1(x))
        residual: Tensor = self.conv2(F.relu(self.bn2(self.conv1(active))))
        return residual + (x if self.shortcut is None else self.shortcut(active))


@register_network("wrn", examples=("wrn-16-4", "wrn-40-2"))
class WideResNet(Network):
    """wrn-DEPTH-WIDTH: a wide residual network for images of about 32 x 32.

    Three groups of blocks at strides 1, 2, 2; features are the pooled vector after BN-ReLU.
    """

    def __init__(self, classes: int, depth: int = 16, width: int = 4) -> None:
        super().__init__(CIFAR_MEAN, CIFAR_STD)
        layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False)]
        self.depth, inputs = depth, 16
        for outputs, stride in ((16 * width, 1), (32 * width, 2), (64 * width, 2)):
            for number in range((depth - 4) // 6):
                layers.append(Block(inputs, outputs, stride if number == 0 else 1))
                inputs = outputs
        self.body = nn.Sequential(*layers, BatchNorm2d(inputs), nn.ReLU())
        self.classifier = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.classifier.bias)

    @classmethod
    def check(cls, variant: str, size: tuple[int, int]) -> None:
        """Refuse a depth that is not 6n + 4, and a width below 1."""
        numbers = re.fullmatch(r"([0-9]+)-([0-9]+)", variant)
        if numbers is None:
            raise UserError(f'There is no network "wrn-{variant}". Use a name such as wrn-16-4.')
        depth, width = int(numbers[1]), int(numbers[2])
        if depth < 10 or (depth - 4) % 6 or width < 1:
            raise UserError(
                f"There is no wrn-{variant}: the depth is 6n + 4 (10, 16, 22, ...), the width at "
                "least 1."
            )

    @classmethod
    def create(cls, variant: str, classes: int, size: tuple[int, int]) -> "WideResNet":
        """A network of the depth and width that its name says."""
        depth, width = map(int, variant.split("-"))
        return cls(classes, depth, width)

    def embed(self, x: Tensor) -> Tensor:
        """The mean over all positions, for any input size."""
        z: Tensor = self.body(x)
        return z.mean((2, 3))

    def stage_names(self) -> tuple[str, ...]:
        """The last block of each group."""
        blocks = (self.depth - 4) // 6
        return tuple(f"body.{group * blocks}" for group in (1, 2, 3))

    def head(self, z: Tensor) -> Tensor:
        """The linear classifier."""
        logits: Tensor = self.classifier(z)
        return logits
