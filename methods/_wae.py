"""Wasserstein auto-encoders (Tolstikhin et al., ICLR 2018), as M-ADA uses them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sdgbench.method import Method, Phase, Read
from sdgbench.settings import param

MMD_SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


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
        nn.Linear(latent, 400), nn.ReLU(), nn.Linear(400, pixels), nn.Sigmoid(),
        nn.Unflatten(1, tuple(shape)),
    )  # fmt: skip
    return WAE(encoder, decoder), _perceptron(latent, 128, 1)


def _cifar(shape: Sequence[int]) -> tuple[WAE, nn.Module]:
    channels, height, width = shape
    latent, grid = 512, (32, height // 4, width // 4)
    encoder = nn.Sequential(
        _conv(channels, 16, 3, 1), _conv(16, 32, 3, 2), _conv(32, 32, 3, 1), _conv(32, 32, 3, 2),
        nn.Flatten(), _full(math.prod(grid), 1024), nn.Linear(1024, latent),
        nn.BatchNorm1d(latent),
    )  # fmt: skip
    decoder = nn.Sequential(
        _full(latent, 1024), _full(1024, math.prod(grid)), nn.Unflatten(1, grid),
        _deconv(32, 32, 3, 2), _deconv(32, 32, 3, 1), _deconv(32, 16, 3, 2),
        nn.ConvTranspose2d(16, channels, 3, 1, 1), nn.Sigmoid(),
    )  # fmt: skip
    return WAE(encoder, decoder), _perceptron(latent, 128, 1)


def _synthia(shape: Sequence[int]) -> tuple[WAE, nn.Module]:
    # At 192x320 the hidden layer has the published 3840 = 64 x 6 x 10 units. Kernels and strides
    # are not published: 4, 4 and 2 lead from there to the image.
    channels, height, width = shape
    latent, grid = 512, (64, height // 32, width // 32)
    hidden = math.prod(grid)
    encoder = nn.Sequential(
        _conv(channels, 32, 4, 2), _conv(32, 64, 8, 4), _conv(64, 128, 8, 4), nn.Flatten(),
        _full(2 * hidden, hidden), nn.Linear(hidden, latent), nn.BatchNorm1d(latent),
    )  # fmt: skip
    decoder = nn.Sequential(
        _full(latent, hidden), nn.Unflatten(1, grid), _deconv(64, 64, 8, 4), _deconv(64, 32, 8, 4),
        nn.ConvTranspose2d(32, channels, 4, 2, 1), nn.Sigmoid(),
    )  # fmt: skip
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


class AutoEncoding(Method):
    """A method that owns a WAE, trained in phases called "wae", each time from scratch."""

    @dataclass(frozen=True)
    class Params:
        """Published values for Digits."""

        relaxation: Literal["wae", "ae", "pixel", "literal"] = param(
            "wae", "wae: V(x) - V(x+) (code); ae: V without prior; pixel: x - x+; "
            "literal: x+ - V(x+) (paper's formula)",
        )  # fmt: skip
        wae: Literal["digits", "cifar", "synthia"] = param("digits", "architecture of V")
        wae_prior: Literal["gan", "mmd"] = param("gan", "how codes are drawn to the prior")
        wae_weight: float = param(100.0, "weight of the prior term (lambda)")
        wae_offset: bool = param(True, "add the prior's log density to the logits (code)")
        wae_loss: Literal["cross-entropy", "squares"] = param(
            "cross-entropy", "reconstruction, summed (code: cross-entropy; paper: squares)"
        )
        wae_lr: float = param(1e-3, "Adam learning rate of V and its discriminator")
        wae_epochs: int = param(20, "passes over the newest domain per training of V")

    def setup(self) -> None:
        """V, its discriminator and their optimisers."""
        auto_encoder, critic = build(self.params.wae, self.pool.image_shape)
        self.wae, self.critic = auto_encoder.to(self.device.torch), critic.to(self.device.torch)
        self.wae_optimizer, self.critic_optimizer = (
            torch.optim.Adam(module.parameters(), self.params.wae_lr, fused=True)
            for module in (self.wae, self.critic)
        )

    def wae_phase(self, read: Read, images: int) -> Phase:
        """Train V on a domain of so many images."""
        steps = self.params.wae_epochs * max(1, images // self.recipe.batch)
        return Phase("wae", steps, (read,))

    def begin(self, phase: Phase) -> None:
        """Every training of V starts anew."""
        if phase.name == "wae":
            AutoEncoding.setup(self)

    def wae_step(self, x: Tensor, y: Tensor) -> Tensor:
        """Reconstruct, with codes that are drawn to N(0, I)."""
        p = self.params
        codes = self.wae.encoder(x)
        loss = reconstruction_loss(self.wae.decoder(codes), x, p.wae_loss)
        prior = torch.randn_like(codes)
        if p.relaxation == "ae":
            return self.optimise(loss, self.wae_optimizer)
        if p.wae_prior == "mmd":
            return self.optimise(loss + p.wae_weight * mmd(codes, prior), self.wae_optimizer)
        offset = log_density(prior) if p.wae_offset else 0.0
        told_apart = discrimination_loss(
            self.critic(prior) + offset, self.critic(codes.detach()) + offset
        )
        self.optimise(p.wae_weight * told_apart, self.critic_optimizer)
        deceived = deception_loss(self.critic(codes) + offset)
        return self.optimise(loss + p.wae_weight * deceived, self.wae_optimizer)


# Losses --------------------------------------------------------------------------------------


def reconstruction_loss(output: Tensor, x: Tensor, kind: str) -> Tensor:
    """Summed over images and pixels. Cross-entropy needs targets in [0, 1]: they are clamped."""
    if kind == "cross-entropy":
        return F.binary_cross_entropy(output, x.clamp(0, 1), reduction="sum")
    return F.mse_loss(output, x, reduction="sum")


def log_density(z: Tensor) -> Tensor:
    """The log density of N(0, I) at each row, as a column."""
    return -0.5 * (z.square().sum(1, keepdim=True) + z.shape[1] * math.log(2 * math.pi))


def discrimination_loss(prior_logits: Tensor, code_logits: Tensor) -> Tensor:
    """What the discriminator minimises: prior samples are 1, codes are 0."""
    return F.binary_cross_entropy_with_logits(
        prior_logits, torch.ones_like(prior_logits)
    ) + F.binary_cross_entropy_with_logits(code_logits, torch.zeros_like(code_logits))


def deception_loss(code_logits: Tensor) -> Tensor:
    """What the encoder minimises: its codes should pass for prior samples."""
    return F.binary_cross_entropy_with_logits(code_logits, torch.ones_like(code_logits))


def mmd(codes: Tensor, prior: Tensor) -> Tensor:
    """Unbiased squared maximum mean discrepancy, inverse multiquadratic kernels of all scales."""
    count, latent = codes.shape
    both = torch.cat([codes, prior])
    square = (both[:, None] - both[None]).square().sum(2)
    kernel = sum(2 * latent * scale / (2 * latent * scale + square) for scale in MMD_SCALES)
    assert isinstance(kernel, Tensor)
    off_diagonal = 1 - torch.eye(count, device=codes.device)
    pairs = count * (count - 1)
    within = (kernel[:count, :count] + kernel[count:, count:]) * off_diagonal
    return within.sum() / pairs - 2 * kernel[:count, count:].mean()
