"""Classification networks of timm, by their names there."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sdgbench.errors import UserError, unknown
from sdgbench.networks.base import Network
from sdgbench.networks.weights import HubAddress, Match, WeightsFile, copy_into, match
from sdgbench.registry import register_network

MIN_STAGE_STRIDE = 4  # maps of a lower stride are the stem's


@register_network("timm", examples=("timm:resnet18", "timm:vit_small_patch16_224"))
class TimmNetwork(Network):
    """timm:NAME: any classification model of timm, such as timm:resnet18.

    Features are its pooled features before the classifier. Images are normalised as the model's
    configuration says. A model for one input size is built for recipe.image_size, and images of
    another size are resized to it.
    """

    def __init__(self, model: Any, size: tuple[int, int], variant: str) -> None:
        super().__init__(model.pretrained_cfg["mean"], model.pretrained_cfg["std"])
        self.model, self.size, self.variant = model, size, variant
        self.fixed = bool(model.pretrained_cfg.get("fixed_input_size"))
        self._stage_names: tuple[str, ...] | None = None

    @classmethod
    def check(cls, variant: str, size: tuple[int, int]) -> None:
        """Refuse a name that timm does not know."""
        import timm  # slow to import, so only here

        name, _, tag = variant.partition(".")
        if not timm.is_model(name):
            raise unknown("timm model", name, timm.list_models(), "All: timm.list_models()")
        tags = [known.partition(".")[2] for known in timm.list_pretrained(f"{name}.*")]
        if tag and tag not in tags:
            raise unknown(f"pretrained tag of timm:{name} called", tag, tags)

    @classmethod
    def create(cls, variant: str, classes: int, size: tuple[int, int]) -> "TimmNetwork":
        """The model for this number of classes and input size."""
        network = cls(new_model(variant, classes, size), size, variant).eval()
        try:
            with torch.no_grad():
                logits = network.head(network.embed(torch.zeros(1, 3, *size)))
                same = torch.allclose(logits, network.model(torch.zeros(1, 3, *size)))
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            raise _cannot(variant, size, error) from error
        if not same or logits.shape != (1, classes):
            raise UserError(
                f"timm:{variant} cannot be used: its output is not one classifier on its features."
            )
        return network.train()

    @classmethod
    def hub_address(cls, variant: str) -> HubAddress | None:
        """The weights that timm names for the model."""
        return hub_address(variant)

    def embed(self, x: Tensor) -> Tensor:
        """The pooled features."""
        if self.fixed and x.shape[2:] != self.size:
            x = F.interpolate(x, self.size, mode="bilinear", align_corners=False)
        z: Tensor = self.model.forward_head(self.model.forward_features(x), pre_logits=True)
        return z

    def head(self, z: Tensor) -> Tensor:
        """The model's classifier."""
        classifier = self.model.get_classifier()
        if isinstance(classifier, nn.Conv2d):  # on a map of one pixel
            z = z[:, :, None, None]
        logits: Tensor = classifier(z)
        return logits.flatten(1)

    def stage_names(self) -> tuple[str, ...]:
        """What timm calls the features of the model from stride 4 on; none in a transformer."""
        if self._stage_names is None:
            self._stage_names = tuple(f"model.{name}" for name in self._find_stages())
        return self._stage_names

    def _find_stages(self) -> list[str]:
        known = getattr(self.model, "feature_info", None) or []
        stages = {
            info["module"]: info["num_chs"]
            for info in known
            if info["reduction"] >= MIN_STAGE_STRIDE
        }
        shapes: dict[str, torch.Size] = {}
        handles = [
            self.model.get_submodule(name).register_forward_hook(
                lambda _, inputs, output, name=name: shapes.update({name: output.shape})
            )
            for name in stages
        ]
        modes = [(module, module.training) for module in self.modules()]
        try:
            self.eval()  # no statistics of a blank image, no random numbers
            with torch.no_grad():
                self.embed(self.mean.new_zeros(1, 3, *self.size))
        finally:
            for module, mode in modes:
                module.training = mode
            for handle in handles:
                handle.remove()
        # Tokens of a transformer, and maps with their channels last, are not what methods expect.
        maps = [n for n, c in stages.items() if len(shapes[n]) == 4 and shapes[n][1] == c]
        return maps if len(maps) == len(stages) else []

    def loadable(self) -> tuple[nn.Module, Sequence[str]]:
        """The model, and its classifier."""
        return self.model, _classifier(self.model)

    def load_weights(self, file: WeightsFile) -> Match:
        """Start from the weights in a file; timm resizes what depends on the input size."""
        if not self.fixed or self.size == _native_size(self.model):
            return super().load_weights(file)
        # Only names and shapes are needed, but most versions of timm cannot build on "meta".
        with torch.random.fork_rng(devices=[]):
            native = new_model(self.variant, self.model.num_classes, _native_size(self.model))
        found = match(native.state_dict(), _classifier(native), file)
        tensors = {name: file.tensors[theirs] for name, theirs in found.pairs.items()}
        model = new_model(
            self.variant,
            self.model.num_classes,
            self.size,
            pretrained=True,
            pretrained_cfg_overlay={"state_dict": tensors},
        )
        model.pretrained_cfg.pop("state_dict", None)
        state = model.state_dict()
        resized = [name for name, t in tensors.items() if state[name].shape != t.shape]
        rest = {n: t for n, t in found.pairs.items() if n not in resized}
        copy_into(model, Match(rest, found.how, found.new, found.unused), file)
        # The classifier keeps the values that it would have without pretrained weights.
        own = self.model.state_dict()
        with torch.no_grad():
            for name in found.new:
                state[name].copy_(own[name])
        self.model = model
        return found


def new_model(name: str, classes: int, size: tuple[int, int], **options: Any) -> Any:
    """A model of timm with random weights, for an input size if it depends on that."""
    import timm

    settings = timm.get_pretrained_cfg(name)
    if settings is not None and settings.fixed_input_size:
        options["img_size"] = size
    try:
        return timm.create_model(name, num_classes=classes, **options)
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        raise _cannot(name, size, error) from error


def hub_address(name: str) -> HubAddress | None:
    """Where the hub has timm's weights of a model; None: nowhere."""
    import timm

    settings = timm.get_pretrained_cfg(name)
    if settings is None or not settings.hf_hub_id or not settings.tag:
        return None
    return HubAddress(settings.hf_hub_id, settings.hf_hub_filename or "model.safetensors")


def _native_size(model: Any) -> tuple[int, int]:
    height, width = model.pretrained_cfg["input_size"][1:]
    return height, width


def _classifier(model: Any) -> list[str]:
    """The names of the classifier's tensors."""
    classifier = model.get_classifier()
    prefix = next((n for n, m in model.named_modules() if m is classifier), "")
    return [f"{prefix}.{name}" for name in classifier.state_dict()] if prefix else []


def _cannot(name: str, size: tuple[int, int], error: Exception) -> UserError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return UserError(
        f"timm:{name} cannot be built for images of {size[0]} x {size[1]}: {reason[:200]} "
        "Set another recipe.image_size or recipe.network."
    )
