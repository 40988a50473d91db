"""FCN-32s: an encoder of stride 32, a 1x1 scoring layer, one 32-fold upsampling."""

import torch
from torch import Tensor, nn

from sdgbench.networks.encoder import EncoderNetwork
from sdgbench.registry import register_network


@register_network(
    "fcn32",
    task="segmentation",
    examples=("fcn32-resnet50", "fcn32-resnet18", "fcn32-tu-resnet10t"),
)
class FCN32(EncoderNetwork):
    """fcn32-ENCODER: FCN-32s on any encoder of segmentation-models-pytorch.

    Features are the encoder's last map (2048 x h/32 x w/32 for ResNet-50).
    """

    def __init__(self, classes: int, encoder: str = "resnet50") -> None:
        super().__init__()
        from segmentation_models_pytorch import encoders  # slow to import, so only here

        self.encoder = encoders.get_encoder(encoder, weights=None)
        self.score = nn.Conv2d(self.encoder.out_channels[-1], classes, 1)
        self.upsample = nn.ConvTranspose2d(classes, classes, 64, 32, 16, bias=False)
        with torch.no_grad():  # start as bilinear interpolation of each class
            ramp = 1 - (torch.arange(64) - 31.5).abs() / 32
            self.upsample.weight.zero_()
            self.upsample.weight[range(classes), range(classes)] = ramp[:, None] * ramp[None]

    @classmethod
    def encoder_name(cls, variant: str) -> str:
        """The variant is the encoder."""
        return variant

    @classmethod
    def create(cls, variant: str, classes: int, size: tuple[int, int]) -> "FCN32":
        """A network with the encoder that its name says."""
        return cls(classes, variant)

    def embed(self, x: Tensor) -> Tensor:
        """The last map of the encoder."""
        z: Tensor = self.encoder(x)[-1]
        return z

    def head(self, z: Tensor) -> Tensor:
        """A score per pixel of the input (whose sides must be multiples of 32)."""
        logits: Tensor = self.upsample(self.score(z))
        return logits
