"""The base class of task networks: features, a head, stages, and a count of images."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sdgbench.errors import UserError
from sdgbench.networks.weights import (
    HubAddress,
    Match,
    WeightsFile,
    WeightsOrigin,
    copy_into,
    match,
)

StageHook = Callable[[Tensor, int], Tensor]  # the map of a stage and its number -> the map to use


class Network(nn.Module):
    """``forward`` is ``head(features(x))``; ``features`` takes pixels in [0, 1].

    A convolutional network has stages, numbered from 0 at the input. A ``stage_hook`` gets the
    feature map (N, C, H, W) of each, and the network continues with the map that it returns.
    """

    mean: Tensor
    std: Tensor
    origin: WeightsOrigin | None = None  # of the initial weights; None: random

    def __init__(
        self,
        mean: tuple[float, float, float] | None = None,
        std: tuple[float, float, float] = (1.0, 1.0, 1.0),
    ) -> None:
        super().__init__()
        self.normalises = mean is not None
        for name, value in (("mean", mean or (0.0, 0.0, 0.0)), ("std", std)):
            self.register_buffer(name, torch.tensor(value).view(1, 3, 1, 1), persistent=False)
        self.images_forward = 0
        self.images_with_gradient = 0  # those of them that were recorded for a backward pass

    def features(self, x: Tensor, stage_hook: StageHook | None = None) -> Tensor:
        """The embedding in which methods measure distances."""
        if not torch.compiler.is_compiling():  # a count would fix the batch size of an export
            self.images_forward += len(x)
            if torch.is_grad_enabled():
                self.images_with_gradient += len(x)
        x = (x - self.mean) / self.std if self.normalises else x
        if stage_hook is None:
            return self.embed(x)
        # Compiled code does not notice hooks that are added later.
        embed: Callable[[Network, Tensor], Tensor] = inspect.unwrap(type(self).embed)
        with self._hooked(stage_hook):
            return embed(self, x)

    def forward(self, x: Tensor, stage_hook: StageHook | None = None) -> Tensor:
        """Logits with the classes in dimension 1."""
        return self.head(self.features(x, stage_hook))

    def embed(self, x: Tensor) -> Tensor:
        """Features of normalised images."""
        raise NotImplementedError

    def head(self, z: Tensor) -> Tensor:
        """Logits from features."""
        raise NotImplementedError

    def embedding_modules(self) -> list[nn.Module]:
        """The modules that ``features`` uses, for methods that classify in a way of their own."""
        module, names = self.loadable()
        if next(module.parameters(recurse=False), None) is not None:
            return [module]  # it has weights outside of its submodules, such as a class token
        head = {id(weight) for name, weight in module.named_parameters() if name in names}
        children = module.children()
        return [c for c in children if not any(id(weight) in head for weight in c.parameters())]

    # By name ---------------------------------------------------------------------------------

    @classmethod
    def check(cls, variant: str, size: tuple[int, int]) -> None:
        """Refuse a variant (what follows the name) or an image size that cannot be built."""
        if variant:
            raise UserError(f'"{variant}" is no variant of this network, which has none.')

    @classmethod
    def create(cls, variant: str, classes: int, size: tuple[int, int]) -> "Network":
        """A network with random weights."""
        return cls(classes, size)  # type: ignore[arg-type]

    @classmethod
    def hub_address(cls, variant: str) -> HubAddress | None:
        """Where pretrained weights are; None: there are none."""
        return None

    def loadable(self) -> tuple[nn.Module, Sequence[str]]:
        """The module that files of weights are for, and the names of its classifier's tensors."""
        classifier = [name for name in self.state_dict() if name.startswith("classifier.")]
        return self, classifier

    def load_weights(self, file: WeightsFile) -> Match:
        """Start from the weights in a file."""
        module, classifier = self.loadable()
        found = match(module.state_dict(), classifier, file)
        copy_into(module, found, file)
        return found

    # Stages ----------------------------------------------------------------------------------

    def stage_names(self) -> Sequence[str]:
        """The submodules whose outputs are the stages' maps, from the input on; none: empty."""
        return ()

    def stages(self, x: Tensor) -> list[Tensor]:
        """The feature map of each stage."""
        maps: list[Tensor] = []

        def keep(feature_map: Tensor, _: int) -> Tensor:
            maps.append(feature_map)
            return feature_map

        self.features(x, keep)
        return maps

    def check_stages(self, numbers: Sequence[int]) -> None:
        """Refuse numbers of stages that this network does not have."""
        count = len(self.stage_names())
        if not count:
            raise UserError(
                "This network has no stages of feature maps, which the method needs. Use a "
                "convolutional network, such as recipe.network=wrn-16-4."
            )
        for number in numbers:
            if not 0 <= number < count:
                raise UserError(
                    f"This network has no stage {number}: its stages are 0 to {count - 1}."
                )

    @contextmanager
    def _hooked(self, stage_hook: StageHook) -> Iterator[None]:
        self.check_stages(())
        handles = []
        try:
            for number, name in enumerate(self.stage_names()):
                # Hooks last for one call: a copy of the network must not act for the original.
                handles.append(
                    self.get_submodule(name).register_forward_hook(
                        lambda _, inputs, output, number=number: stage_hook(output, number)
                    )
                )
            yield
        finally:
            for handle in handles:
                handle.remove()


def modules_that_return(
    encoder: nn.Module, run: Callable[[], Sequence[Tensor]], images: Tensor
) -> list[str]:
    """The submodules that returned the maps that ``run`` returns for these images.

    Maps of a stride below 4 are omitted: they are the image itself, or the stem's.
    """
    returned: dict[int, str] = {}  # by the identity of the output; the outermost module is last
    outputs = []  # keeps them alive, so that identities stay unique

    def note(name: str, inputs: tuple[object, ...], output: object) -> None:
        if all(output is not given for given in inputs):  # as an identity's would be
            outputs.append(output)
            returned[id(output)] = name

    handles = [
        module.register_forward_hook(
            lambda _, inputs, output, name=name: note(name, inputs, output)
        )
        for name, module in encoder.named_modules()
        if name
    ]
    modes = [(module, module.training) for module in encoder.modules()]
    try:
        encoder.eval()  # no statistics of these images, no random numbers
        with torch.no_grad():
            maps = run()
    finally:
        for module, mode in modes:
            module.training = mode
        for handle in handles:
            handle.remove()
    deep = [m for m in maps if m.dim() == 4 and images.shape[-1] >= 4 * m.shape[-1]]
    names = [returned.get(id(feature_map), "") for feature_map in deep]
    return names if all(names) else []
