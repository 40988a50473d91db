"""Task networks by name. Pixels come in [0, 1]; each network normalises inside itself.

A name is that of a registered network, alone or with a variant: ``convnet``, ``wrn-16-4``,
``timm:resnet18``.
"""

from pathlib import Path

from sdgbench import registry
from sdgbench.errors import UserError, unknown
from sdgbench.networks.base import Network, StageHook
from sdgbench.networks.weights import WeightsOrigin, fetch, hash_of, read

__all__ = ["Network", "StageHook", "WeightsOrigin", "build", "check", "examples", "find", "load"]


def examples() -> list[str]:
    """Full names of networks, for messages."""
    entries = registry.entries("network").items()
    return [name for key, entry in entries for name in entry.details.get("examples", (key,))]


def find(name: str) -> tuple[registry.Entry, str]:
    """The entry of a network, and the rest of its name: the variant."""
    entries = registry.entries("network")
    for key in sorted(entries, key=len, reverse=True):
        if name == key or name.startswith((f"{key}-", f"{key}:")):
            return entries[key], name[len(key) + 1 :]
    raise unknown("network", name, examples(), f"Examples: {', '.join(examples())}.")


def load(name: str) -> tuple[type[Network], str]:
    """The class of a network, and the variant in its name."""
    entry, variant = find(name)
    return entry.load(), variant


def check(
    name: str,
    size: tuple[int, int],
    task: str | None = None,
    pretrained: bool = False,
    weights: str = "",
) -> None:
    """Refuse a name that is not a network's, and what the network cannot do; builds nothing."""
    entry, variant = find(name)
    kind = entry.details.get("task", "classification")
    if task is not None and kind != task:
        fitting = [
            example
            for other in registry.entries("network").values()
            if other.details.get("task", "classification") == task
            for example in other.details.get("examples", (other.name,))
        ]
        raise UserError(
            f"{name} is for {kind}, and the dataset's task is {task}. "
            f"Use such as recipe.network={fitting[0]}."
        )
    cls: type[Network] = entry.load()
    cls.check(variant, size)
    if pretrained and weights:
        raise UserError(
            "recipe.pretrained and recipe.weights both say where weights come from. Set one."
        )
    if pretrained and cls.hub_address(variant) is None:
        raise UserError(
            f"There are no pretrained weights of {name}. Set recipe.pretrained=false, name a file "
            "of weights (recipe.weights=FILE), or use a network that has some, such as "
            "recipe.network=timm:resnet18."
        )


def build(
    name: str,
    classes: int,
    size: tuple[int, int],
    pretrained: bool = False,
    weights: str = "",
) -> Network:
    """Create a network with random weights, those of the hub, or those of a file."""
    check(name, size, pretrained=pretrained, weights=weights)
    cls, variant = load(name)
    address = cls.hub_address(variant) if pretrained else None
    network = cls.create(variant, classes, size)
    if address or weights:
        path = fetch(address, name) if address else Path(weights)
        found = network.load_weights(read(path))
        network.origin = WeightsOrigin(
            address.name if address else path.name,
            hash_of(path),
            found.how,
            len(found.pairs),
            found.new,
        )
    return network
