"""What segmentation networks share that have an encoder of segmentation-models-pytorch."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from sdgbench.errors import UserError, unknown
from sdgbench.networks.base import Network, modules_that_return
from sdgbench.networks.weights import HubAddress

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
STRIDE = 32  # of the encoders
TIMM = "tu-"  # encoders with this prefix are timm's


class EncoderNetwork(Network):
    """Names, weights and stages of an encoder; images are normalised as for ImageNet."""

    encoder: Any

    def __init__(self) -> None:
        super().__init__(IMAGENET_MEAN, IMAGENET_STD)
        self._stage_names: tuple[str, ...] | None = None

    @classmethod
    def encoder_name(cls, variant: str) -> str:
        """The encoder in a network's name."""
        raise NotImplementedError

    @classmethod
    def check(cls, variant: str, size: tuple[int, int]) -> None:
        """Refuse an unknown encoder, and sides that are no multiples of its stride."""
        from segmentation_models_pytorch import encoders

        encoder = cls.encoder_name(variant)
        if encoder.startswith(TIMM):
            import timm

            if not timm.is_model(encoder.removeprefix(TIMM)):
                names = [f"{TIMM}{name}" for name in timm.list_models()]
                raise unknown(
                    "encoder",
                    encoder,
                    names,
                    "All: python -c 'import timm; print(timm.list_models())'",
                )
        elif encoder not in encoders.encoders:
            raise unknown("encoder", encoder, encoders.get_encoder_names())
        if size[0] % STRIDE or size[1] % STRIDE:
            nearest = [max(STRIDE, round(side / STRIDE) * STRIDE) for side in size]
            raise UserError(
                f"This network needs images whose sides are multiples of {STRIDE}, not "
                f"{size[0]} x {size[1]}. Set recipe.image_size={nearest[0]},{nearest[1]}."
            )

    @classmethod
    def hub_address(cls, variant: str) -> HubAddress | None:
        """The ImageNet weights of the encoder, where the hub has them."""
        from segmentation_models_pytorch import encoders

        encoder = cls.encoder_name(variant)
        if encoder.startswith(TIMM):
            from sdgbench.networks.timm_models import hub_address

            return hub_address(encoder.removeprefix(TIMM))
        settings = encoders.encoders[encoder]["pretrained_settings"].get("imagenet")
        return settings and HubAddress(settings["repo_id"], revision=settings["revision"])

    def loadable(self) -> tuple[nn.Module, Sequence[str]]:
        """The encoder; it has no classifier."""
        return self.encoder, ()

    def stage_names(self) -> tuple[str, ...]:
        """The encoder's stages from stride 4 on: layer1 to layer4 of a ResNet."""
        if self._stage_names is None:
            blank = self.mean.new_zeros(1, 3, 2 * STRIDE, 2 * STRIDE)
            names = modules_that_return(self.encoder, lambda: self.encoder(blank), blank)
            self._stage_names = tuple(f"encoder.{name}" for name in names)
        return self._stage_names
