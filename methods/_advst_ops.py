"""The twelve operations of AdvST, differentiable in their values; one row of values per image."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torchvision.transforms.v2.functional import equalize as equalize_bytes

from sdgbench.methods._advst_warps import rotate, scale, shear, translate
from sdgbench.training.device import to_device

LUMA = (0.299, 0.587, 0.114)
HOLES, HOLE_SIDE = 8, 0.2  # of cutout; the side as a share of the image's


@dataclass(frozen=True)
class Operation:
    """Turns images, learnable values (N, values) and numbers in [0, 1) (N, random) into images."""

    apply: Callable[[Tensor, Tensor, Tensor], Tensor]
    values: int = 1  # learnable ones per image; they start uniform between low and high
    low: float = 0.0
    high: float = 1.0
    clipped: bool = True  # values stay between low and high
    random: int = 0  # numbers per image that are drawn once and not learned


@dataclass
class Link:
    """An operation of a chain, with its values for a batch."""

    operation: Operation
    values: Tensor
    random: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the operation."""
        return self.operation.apply(x, self.values, self.random)

    def clip(self) -> None:
        """Bring the values back into their range."""
        if self.operation.clipped:
            self.values.data.clamp_(self.operation.low, self.operation.high)


def draw_chain(longest: int) -> list[str]:
    """One to ``longest`` operations without repetition; hsv comes first or not at all."""
    length = int(torch.randint(1, longest + 1, ()).item())
    first, *others = torch.randperm(len(OPERATIONS)).tolist()
    names = list(OPERATIONS)
    chain = [names[first], *(names[i] for i in others if names[i] != "hsv")]
    return chain[:length]


def draw_link(name: str, count: int, device: torch.device) -> Link:
    """An operation with values for ``count`` images, drawn on the CPU for any device."""
    operation = OPERATIONS[name]
    spread = operation.high - operation.low
    values = operation.low + spread * torch.rand(count, operation.values)
    random = torch.rand(count, operation.random)
    return Link(operation, to_device(values, device).requires_grad_(), to_device(random, device))


def apply(chain: Sequence[Link], x: Tensor) -> Tensor:
    """Apply a chain of operations. Nothing is clamped at the end."""
    for link in chain:
        x = link(x)
    return x


# Colours -------------------------------------------------------------------------------------


def shift_hsv(x: Tensor, v: Tensor, _: Tensor) -> Tensor:
    """Add to hue, saturation and value; hue is a circle, the others stay in [0, 1]."""
    hue, saturation, value = (rgb_to_hsv(x) + v[:, :, None, None]).unbind(1)
    return hsv_to_rgb(torch.stack([hue % 1, saturation.clamp(0, 1), value.clamp(0, 1)], 1))


def rgb_to_hsv(x: Tensor) -> Tensor:
    """Hue, saturation and value in [0, 1]; grey has hue and saturation 0."""
    red, green, blue = x.unbind(1)
    value, spread = x.amax(1), x.amax(1) - x.amin(1)
    safe = torch.where(spread > 0, spread, 1.0)
    from_green, from_blue = (blue - red) / safe + 2, (red - green) / safe + 4
    sixths = torch.where(value == green, from_green, from_blue)
    sixths = torch.where(value == red, ((green - blue) / safe) % 6, sixths)
    hue = torch.where(spread > 0, sixths / 6, 0.0)
    saturation = spread / torch.where(value > 0, value, 1.0)
    return torch.stack([hue, saturation, value], 1)


def hsv_to_rgb(hsv: Tensor) -> Tensor:
    """Undo ``rgb_to_hsv``."""
    hue, saturation, value = hsv.unbind(1)
    channels = []
    for offset in (5, 3, 1):
        k = (offset + 6 * hue) % 6
        channels.append(value * (1 - saturation * torch.minimum(k, 4 - k).clamp(0, 1)))
    return torch.stack(channels, 1)


def invert(x: Tensor, v: Tensor, _: Tensor) -> Tensor:
    """Subtract the image from a value."""
    return v[:, :, None, None] - x


def contrast(x: Tensor, v: Tensor, _: Tensor) -> Tensor:
    """Scale the distance from the image's mean grey."""
    luma = torch.tensor(LUMA, device=x.device).view(1, 3, 1, 1)
    grey = (x * luma).sum(1, keepdim=True).mean((2, 3), keepdim=True)
    return grey + v[:, :, None, None] * (x - grey)


def sharpness(x: Tensor, v: Tensor, _: Tensor) -> Tensor:
    """Blend with a smooth copy: 0 is that copy, 1 is the image. The border stays."""
    kernel = torch.ones(3, 1, 3, 3, device=x.device) / 13
    kernel[:, :, 1, 1] = 5 / 13
    smooth = x.clone()
    smooth[:, :, 1:-1, 1:-1] = F.conv2d(x, kernel, groups=3)
    return smooth + v[:, :, None, None] * (x - smooth)


def solarize(x: Tensor, v: Tensor, _: Tensor) -> Tensor:
    """Add a value, clamp, and invert what is 0.5 or more."""
    added = (x + v[:, :, None, None]).clamp(0, 1)
    return torch.where(added < 0.5, added, 1 - added)


def equalize(x: Tensor, v: Tensor, _: Tensor) -> Tensor:
    """Equalise the histogram of each channel; its gradient is that of the identity."""
    return _straight_through(x, equalize_bytes(_to_bytes(x)) / 255)


def posterize(x: Tensor, v: Tensor, random: Tensor) -> Tensor:
    """Keep 0 to 8 bits of each channel; its gradient is that of the identity."""
    lost = 8 - (random * 9).long()[:, :, None, None]
    return _straight_through(x, ((_to_bytes(x).long() >> lost) << lost) / 255)


def _to_bytes(x: Tensor) -> Tensor:
    return (x.detach().clamp(0, 1) * 255).round().to(torch.uint8)


def _straight_through(x: Tensor, changed: Tensor) -> Tensor:
    return x + (changed - x).detach()


def cutout(x: Tensor, v: Tensor, random: Tensor) -> Tensor:
    """Fill eight square holes at random places with the image's value for each channel."""
    height, width = x.shape[2:]
    row, column = random.view(len(x), HOLES, 2, 1).unbind(2)
    rows, columns = (
        (_centres(side, x.device) - centre).abs() < HOLE_SIDE / 2
        for side, centre in ((height, row), (width, column))
    )
    holes = (rows[:, :, :, None] & columns[:, :, None, :]).any(1)
    return torch.where(holes[:, None], v[:, :, None, None], x)


def _centres(side: int, device: torch.device) -> Tensor:
    return (torch.arange(side, device=device) + 0.5) / side


OPERATIONS = {
    "hsv": Operation(shift_hsv, 3, -1.0, 1.0),
    "rotate": Operation(rotate, 1, 0.01, 1.0),
    "translate": Operation(translate, 2, -0.1, 0.1),
    "invert": Operation(invert, 1, 0.5, 1.0),
    "shear": Operation(shear, 2, -0.3, 0.3, clipped=False),
    "contrast": Operation(contrast, 1, 0.1, 1.9),
    "sharpness": Operation(sharpness, 1, 0.0, 1.0),
    "solarize": Operation(solarize, 1, -0.499, 0.499),
    "scale": Operation(scale, 1, 0.5, 2.0),
    "equalize": Operation(equalize, 0),
    "posterize": Operation(posterize, 0, random=1),
    "cutout": Operation(cutout, 3, random=2 * HOLES),
}
# Of spec/shifts.py: those that these operations are, or nearly are.
FAMILIES = (
    *("channels", "hue", "invert", "posterize", "solarize", "rotate", "shear", "occlusion"),
)
