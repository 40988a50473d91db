"""The auto-encoders that M-ADA publishes for its datasets, and their discriminators."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn


class WAE(nn.Module):
    """An encoder of images, and a decoder back to pixels in (0, 1)."""

    def __init__(self, encoder: nn.Sequential, decoder: nn.Sequential) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, x: Tensor) -> Tensor:
        """Reconstruct images."""
        reconstruction: Tensor = self.decoder(self.encoder(x))
        return reconstruction


def build(kind: str, shape: Sequence[int]) -> tuple[WAE, nn.Module]:
    """An auto-encoder and its discriminator, of the kind published for a dataset."""
    return {"digits": _digits, "cifar": _cifar, "synthia": _synthia}[kind](shape)


def _digits(shape: Sequence[int]) -> tuple[WAE, nn.Module]:
    pixels, latent = math.prod(shape), 20
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(pixels, 400), nn.ReLU(), nn.Linear(400, latent))
    decoder = nn.Sequential(
        nn.Linear(latent, 400),
        nn.ReLU(),
        nn.Linear(400, pixels),
        nn.Sigmoid(),
        nn.Unflatten(1, tuple(shape)),
    )
    return WAE(encoder, decoder), _perceptron(latent, 128, 1)


def _cifar(shape: Sequence[int]) -> tuple[WAE, nn.Module]:
    channels, height, width = shape
    latent, grid = 512, (32, height // 4, width // 4)
    encoder = nn.Sequential(
        _conv(channels, 16, 3, 1),
        _conv(16, 32, 3, 2),
        _conv(32, 32, 3, 1),
        _conv(32, 32, 3, 2),
        nn.Flatten(),
        _full(math.prod(grid), 1024),
        nn.Linear(1024, latent),
        nn.BatchNorm1d(latent),
    )
    decoder = nn.Sequential(
        _full(latent, 1024),
        _full(1024, math.prod(grid)),
        nn.Unflatten(1, grid),
        _deconv(32, 32, 3, 2),
        _deconv(32, 32, 3, 1),
        _deconv(32, 16, 3, 2),
        nn.ConvTranspose2d(16, channels, 3, 1, 1),
        nn.Sigmoid(),
    )
    return WAE(encoder, decoder), _perceptron(latent, 128, 1)


def _synthia(shape: Sequence[int]) -> tuple[WAE, nn.Module]:
    # At 192x320 the hidden layer has the published 3840 = 64 x 6 x 10 units. Kernels and strides
    # are not published: 4, 4 and 2 lead from there to the image.
    channels, height, width = shape
    latent, grid = 512, (64, height // 32, width // 32)
    hidden = math.prod(grid)
    encoder = nn.Sequential(
        _conv(channels, 32, 4, 2),
        _conv(32, 64, 8, 4),
        _conv(64, 128, 8, 4),
        nn.Flatten(),
        _full(2 * hidden, hidden),
        nn.Linear(hidden, latent),
        nn.BatchNorm1d(latent),
    )
    decoder = nn.Sequential(
        _full(latent, hidden),
        nn.Unflatten(1, grid),
        _deconv(64, 64, 8, 4),
        _deconv(64, 32, 8, 4),
        nn.ConvTranspose2d(32, channels, 4, 2, 1),
        nn.Sigmoid(),
    )
    return WAE(encoder, decoder), _perceptron(latent, 512, 512, 1)


def _perceptron(*widths: int) -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _full(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU())


def _conv(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Module:
    padding = (kernel - stride + 1) // 2
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())


def _deconv(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Module:
    padding = (kernel - stride + 1) // 2
    extra = stride - kernel + 2 * padding  # so that the side is exactly ``stride`` times longer
    conv = nn.ConvTranspose2d(inputs, outputs, kernel, stride, padding, extra)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())
