"""Recipes: what all methods share on a dataset at a preset."""

from dataclasses import dataclass
from typing import Any, Literal

from sdgbench.spec import augmentations
from sdgbench.spec.parameters import param
from sdgbench.spec.search import Around

PRESETS = ("paper", "quick", "smoke")
SEARCHABLE = ("lr", "momentum", "weight_decay")  # the rest is what makes runs comparable
LATER_FIELDS = ("weights", "weights_sha256")  # records from before they existed lack them


@dataclass(frozen=True)
class Recipe:
    """What all methods share on a dataset at a preset."""

    network: str = param("convnet", "network: convnet, wrn-16-4, timm:resnet18, smp:fpn-resnet34")
    pretrained: bool = param(False, "start from the hub's weights, where the network has some")
    image_size: tuple[int, int] = param((32, 32), "height and width of the network's input")
    optimiser: Literal["adam", "sgd"] = param("adam", "optimiser of the task network")
    lr: float = param(1e-4, "initial learning rate", search=Around(10))
    momentum: float = param(0.0, "momentum of sgd (Nesterov's when above 0)")
    weight_decay: float = param(0.0, "weight decay")
    schedule: Literal["constant", "linear", "cosine", "step"] = param(
        "constant", "learning-rate schedule; step: a tenth of it in the second half"
    )
    steps: int = param(0, "length in steps; 0: given by epochs")
    epochs: int = param(0, "length in passes over the source; 0: given by steps")
    batch: int = param(32, "source images per step")
    augment: str = param(
        "none",
        f"input augmentation of the source, a list of: {', '.join(augmentations.AUGMENTATIONS)}",
    )
    validations: int = param(10, "how often the source validation set is scored during training")
    eval_batch: int = param(256, "images per forward pass in evaluation")
    test_images: int | None = param(None, "maximum number of images per target; none: all")
    reduced: str = param("", "what is smaller than in the paper; empty: nothing")
    weights: str = param("", "file of weights to start from (.safetensors, .pt); empty: none")
    weights_sha256: str = param("", "hash of that file; by default computed from it")

    def __post_init__(self) -> None:
        if bool(self.steps) == bool(self.epochs):
            raise ValueError("the recipe needs either steps or epochs above 0, and not both")
        for name in ("batch", "eval_batch", "lr"):
            if getattr(self, name) <= 0:
                raise ValueError(f"recipe.{name} must be above 0, not {getattr(self, name)}")
        for name in ("steps", "epochs", "validations", "momentum", "weight_decay"):
            if getattr(self, name) < 0:
                raise ValueError(f"recipe.{name} must not be below 0, not {getattr(self, name)}")
        augmentations.parse(self.augment)
        if self.test_images is not None and self.test_images < 1:
            raise ValueError("recipe.test_images must be above 0, or none for all")

    @staticmethod
    def without_defaults_of_later_fields(values: dict[str, Any]) -> dict[str, Any]:
        """The same recipe, as it was written before fields were added that it does not use.

        So the ids of runs and the protocols of records do not change when a field is added.
        """
        return {k: v for k, v in values.items() if v or k not in LATER_FIELDS}

    def total_steps(self, source_size: int) -> int:
        """The length in steps; an epoch drops the last partial batch."""
        return self.steps or self.epochs * max(1, source_size // self.batch)
