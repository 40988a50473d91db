"""Task networks by name. Pixels come in [0, 1]; each network normalises inside itself."""

import re

from sdgbench.errors import unknown
from sdgbench.networks.base import Network

EXAMPLES = ("convnet", "convnet-16", "wrn-16-4", "wrn-16-1", "fcn32-resnet50", "fcn32-resnet18")

FORMS = {
    "convnet": re.compile(r"convnet(?:-([1-9]\d*))?"),
    "wrn": re.compile(r"wrn-(\d+)-([1-9]\d*)"),
    "fcn32": re.compile(r"fcn32-(.+)"),
}

__all__ = ["EXAMPLES", "Network", "build", "check"]


def check(name: str) -> re.Match[str]:
    """Refuse a name that cannot be a network's, before anything is loaded."""
    for form in FORMS.values():
        if match := form.fullmatch(name):
            return match
    raise unknown("network", name, EXAMPLES, f"Examples: {', '.join(EXAMPLES)}.")


def build(name: str, classes: int, size: tuple[int, int], pretrained: bool = False) -> Network:
    """Make a network: ``convnet[-WIDTH]``, ``wrn-DEPTH-WIDTH`` or ``fcn32-ENCODER``."""
    match = check(name)
    if match.re is FORMS["convnet"]:
        from sdgbench.networks.convnet import ConvNet

        return ConvNet(classes, size, width=int(match[1] or 64))
    if match.re is FORMS["wrn"]:
        from sdgbench.networks.wrn import WideResNet

        return WideResNet(classes, depth=int(match[1]), width=int(match[2]))
    from sdgbench.networks.fcn import FCN32

    return FCN32(classes, encoder=match[1], pretrained=pretrained)
