"""FCN-32s: an encoder of stride 32, a 1x1 scoring layer, one 32-fold upsampling."""

import torch
from torch import Tensor, nn

from sdgbench.errors import UserError, unknown
from sdgbench.networks.base import Network

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class FCN32(Network):
    """Features: the encoder's last map (2048 x h/32 x w/32 for ResNet-50)."""

    def __init__(self, classes: int, encoder: str = "resnet50", pretrained: bool = False) -> None:
        super().__init__(IMAGENET_MEAN, IMAGENET_STD)
        from segmentation_models_pytorch import encoders  # slow to import, so only here

        try:
            self.encoder = encoders.get_encoder(encoder, weights="imagenet" if pretrained else None)
        except KeyError:
            raise unknown("encoder", encoder, encoders.get_encoder_names()) from None
        except OSError as error:
            raise UserError(
                f"The ImageNet weights of {encoder} could not be fetched ({error}). "
                "Connect, or leave recipe.pretrained=false."
            ) from error
        self.score = nn.Conv2d(self.encoder.out_channels[-1], classes, 1)
        self.upsample = nn.ConvTranspose2d(classes, classes, 64, 32, 16, bias=False)
        with torch.no_grad():  # start as bilinear interpolation, each class for itself
            ramp = 1 - (torch.arange(64) - 31.5).abs() / 32
            self.upsample.weight.zero_()
            self.upsample.weight[range(classes), range(classes)] = ramp[:, None] * ramp[None]

    def embed(self, x: Tensor) -> Tensor:
        """The last map of the encoder."""
        z: Tensor = self.encoder(x)[-1]
        return z

    def head(self, z: Tensor) -> Tensor:
        """A score per pixel of the input (whose sides must be multiples of 32)."""
        logits: Tensor = self.upsample(self.score(z))
        return logits
