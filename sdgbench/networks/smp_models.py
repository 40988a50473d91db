"""Segmentation networks of segmentation-models-pytorch, by architecture and encoder."""

from typing import Any

import torch
from torch import Tensor

from sdgbench.errors import UserError, unknown
from sdgbench.networks.encoder import EncoderNetwork
from sdgbench.registry import register_network

ARCHITECTURES = (
    "deeplabv3",
    "deeplabv3plus",
    "fpn",
    "linknet",
    "manet",
    "pan",
    "pspnet",
    "segformer",
    "unet",
    "unetplusplus",
    "upernet",
)  # those whose decoder gives one map, from which the logits follow


@register_network("smp", task="segmentation", examples=("smp:fpn-resnet34", "smp:unet-resnet18"))
class SmpNetwork(EncoderNetwork):
    """smp:ARCHITECTURE-ENCODER: a network of segmentation-models-pytorch.

    Features are the decoder's last map, the head is the segmentation head: logits at input size.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.encoder, self.decoder = model.encoder, model.decoder
        self.segmentation_head = model.segmentation_head

    @classmethod
    def encoder_name(cls, variant: str) -> str:
        """What follows the architecture."""
        return variant.partition("-")[2]

    @classmethod
    def check(cls, variant: str, size: tuple[int, int]) -> None:
        """Refuse an unknown architecture or encoder, and sides that do not fit."""
        architecture, dash, _ = variant.partition("-")
        if architecture not in ARCHITECTURES:
            raise unknown("architecture", architecture, ARCHITECTURES)
        if not dash:
            raise UserError(f"smp:{variant} names no encoder. Use such as smp:{variant}-resnet34.")
        super().check(variant, size)

    @classmethod
    def create(cls, variant: str, classes: int, size: tuple[int, int]) -> "SmpNetwork":
        """A network with the architecture and encoder that its name says."""
        import segmentation_models_pytorch as smp  # slow to import, so only here

        architecture, _, encoder = variant.partition("-")
        try:
            network = cls(
                smp.create_model(architecture, encoder, encoder_weights=None, classes=classes)
            )
            network.eval()
            with torch.no_grad():
                network.head(network.embed(torch.zeros(1, 3, *size)))
        except (ValueError, RuntimeError, TypeError, KeyError) as error:
            raise UserError(f"smp:{variant} cannot be built: {error}") from error
        return network.train()

    def embed(self, x: Tensor) -> Tensor:
        """The decoder's last map."""
        z: Tensor = self.decoder(self.encoder(x))
        return z

    def head(self, z: Tensor) -> Tensor:
        """A score per pixel of the input."""
        logits: Tensor = self.segmentation_head(z)
        return logits
