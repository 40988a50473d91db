"""The Digits ConvNet of GUD and M-ADA: 4,547,466 parameters at width 64."""

import torch
from torch import Tensor, nn

from sdgbench.errors import UserError
from sdgbench.networks.base import Network
from sdgbench.networks.layers import FirstConv2d, Linear
from sdgbench.registry import register_network

MIN_SIDE = 16  # in pixels; less is nothing after two convolutions with pooling


@register_network("convnet", examples=("convnet", "convnet-16"))
class ConvNet(Network):
    """convnet[-WIDTH]: two 5x5 convolutions with pooling, two hidden layers; width 64.

    Features are the second hidden layer after ReLU.
    """

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

    @classmethod
    def check(cls, variant: str, size: tuple[int, int]) -> None:
        """Refuse a width that is no number above 0, and images that are too small."""
        if variant and (not variant.isdecimal() or int(variant) < 1):
            raise UserError(f'There is no convnet-{variant}: use a width, such as "convnet-16".')
        if min(size) < MIN_SIDE:
            raise UserError(
                f"convnet needs images of {MIN_SIDE} x {MIN_SIDE} pixels or more, not "
                f"{size[0]} x {size[1]}. Raise recipe.image_size."
            )

    @classmethod
    def create(cls, variant: str, classes: int, size: tuple[int, int]) -> "ConvNet":
        """A network of the width that its name says."""
        return cls(classes, size, width=int(variant or 64))

    def embed(self, x: Tensor) -> Tensor:
        """The last hidden layer."""
        if x.device.type == "cpu":  # in this layout its pooling is ten times faster
            x = x.contiguous(memory_format=torch.channels_last)
        z: Tensor = self.body(x)
        return z

    def stage_names(self) -> tuple[str, ...]:
        """The two convolutions, after pooling."""
        return ("body.2", "body.5")

    def head(self, z: Tensor) -> Tensor:
        """The linear classifier."""
        logits: Tensor = self.classifier(z)
        return logits
