"""Task networks by name. Pixels come in [0, 1]; each network normalises inside itself."""

import re

from sdgbench.errors import unknown
from sdgbench.networks.base import Network

EXAMPLES = ("convnet", "convnet-16", "wrn-16-4", "wrn-16-1", "fcn32-resnet50", "fcn32-resnet18")

__all__ = ["EXAMPLES", "Network", "build"]


def build(name: str, classes: int, size: tuple[int, int], pretrained: bool = False) -> Network:
    """Make a network: ``convnet[-WIDTH]``, ``wrn-DEPTH-WIDTH`` or ``fcn32-ENCODER``."""
    if match := re.fullmatch(r"convnet(?:-(\d+))?", name):
        from sdgbench.networks.convnet import ConvNet

        return ConvNet(classes, size, width=int(match[1] or 64))
    if match := re.fullmatch(r"wrn-(\d+)-(\d+)", name):
        from sdgbench.networks.wrn import WideResNet

        return WideResNet(classes, depth=int(match[1]), width=int(match[2]))
    if match := re.fullmatch(r"fcn32-(.+)", name):
        from sdgbench.networks.fcn import FCN32

        return FCN32(classes, encoder=match[1], pretrained=pretrained)
    raise unknown("network", name, EXAMPLES, f"Examples: {', '.join(EXAMPLES)}.")
