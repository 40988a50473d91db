"""Wasserstein auto-encoders (Tolstikhin et al., ICLR 2018) for M-ADA."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from sdgbench.method import Method, Phase, Read, param
from sdgbench.methods._wae_networks import build

OTHER_WAE = {"wae_lr": 1e-4, "wae_loss": "squares", "wae_offset": False}  # other than Digits
MMD_SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class AutoEncoding(Method):
    """A method that owns a WAE, trained in phases called "wae", each time from scratch."""

    @dataclass(frozen=True)
    class Params:
        """Published values for Digits."""

        relaxation: Literal["wae", "ae", "pixel", "literal"] = param(
            "wae",
            "wae: V(x) - V(x+) (code); ae: V without prior; pixel: x - x+; "
            "literal: x+ - V(x+) (paper's formula)",
        )
        wae: Literal["digits", "cifar", "synthia"] = param("digits", "architecture of V")
        wae_prior: Literal["gan", "mmd"] = param("gan", "how codes are matched with the prior")
        wae_weight: float = param(100.0, "weight of the prior term (lambda)")
        wae_offset: bool = param(True, "add the prior's log density to the logits (code)")
        wae_loss: Literal["cross-entropy", "squares"] = param(
            "cross-entropy", "reconstruction, summed (code: cross-entropy; paper: squares)"
        )
        wae_targets: Literal["clamped", "free"] = param(
            "clamped",
            "pixels outside [0, 1] as targets of the cross-entropy: clamped, or "
            "unchanged (code, with the torch of its time)",
        )
        wae_leak: bool = param(
            False,
            "gan: the gradient of the discriminator's loss also reaches the encoder (code, where "
            "its graph is retained)",
        )
        wae_lr: float = param(1e-3, "Adam learning rate of V and its discriminator")
        wae_epochs: int = param(20, "passes over the newest domain per training of V")
        wae_steps: int | None = param(None, "maximum number of steps per training of V; none: all")

    @classmethod
    def scaled(cls, image_size: tuple[int, int]) -> dict[str, Any]:
        """V is that of Digits up to 32 x 32 pixels, then that of CIFAR, from 128 x 128 SYNTHIA's.

        The last two are convolutional and need sides that are multiples of 4 and of 32; for other
        sizes it is that of Digits, which is large then.
        """
        values = dict(super().scaled(image_size))
        pixels = math.prod(image_size)
        if pixels >= 128**2 and not any(side % 32 for side in image_size):
            values |= {"wae": "synthia", **OTHER_WAE}
        elif pixels > 32**2 and not any(side % 4 for side in image_size):
            values |= {"wae": "cifar", **OTHER_WAE}
        return values

    def setup(self) -> None:
        """Create V, its discriminator and their optimisers."""
        auto_encoder, critic = build(self.params.wae, self.pool.image_shape)
        self.wae = self.device.prepare_module(auto_encoder)
        self.critic = self.device.prepare_module(critic)
        self.wae_optimizer, self.critic_optimizer = (
            torch.optim.Adam(module.parameters(), self.params.wae_lr, fused=True)
            for module in (self.wae, self.critic)
        )

    def wae_phase(self, read: Read, images: int) -> Phase:
        """A training of V on a domain with this number of images."""
        p = self.params
        steps = p.wae_epochs * max(1, images // self.recipe.batch)
        steps = steps if p.wae_steps is None else min(p.wae_steps, steps)
        return Phase("wae", steps, (read,))

    def begin(self, phase: Phase) -> None:
        """Start every training of V from scratch."""
        if phase.name == "wae":
            AutoEncoding.setup(self)

    def wae_step(self, x: Tensor, y: Tensor) -> Tensor:
        """One update of V: reconstruct, with codes that match N(0, I). Always in float32.

        Half precision has too few numbers near 1 for the cross-entropy of probabilities.
        """
        with self.device.no_autocast():
            return self.float32_wae_step(x)

    def float32_wae_step(self, x: Tensor) -> Tensor:
        """One update of the discriminator, if the prior needs one, and one of V."""
        p = self.params
        codes = self.wae.encoder(x)
        summed = reconstruction_loss(self.wae.decoder(codes), x, p.wae_loss, p.wae_targets)
        loss, prior = self.as_mean(summed), self.randn_like(codes)
        if p.relaxation == "ae":
            return self.optimise(loss, self.wae_optimizer)
        if p.wae_prior == "mmd":
            return self.optimise(loss + p.wae_weight * mmd(codes, prior), self.wae_optimizer)
        offset = log_density(prior) if p.wae_offset else 0.0
        detached = codes.detach().requires_grad_(p.wae_leak)
        critic_loss = p.wae_weight * discrimination_loss(
            self.critic(prior) + offset, self.critic(detached) + offset
        )
        leaked = []
        if p.wae_leak:  # before the discriminator's update
            leaked = [(codes, *torch.autograd.grad(critic_loss, detached, retain_graph=True))]
        self.optimise(critic_loss, self.critic_optimizer)
        encoder_loss = p.wae_weight * deception_loss(self.critic(codes) + offset)
        return self.optimise(loss + encoder_loss, self.wae_optimizer, leaked)


# Losses --------------------------------------------------------------------------------------


def reconstruction_loss(output: Tensor, x: Tensor, kind: str, targets: str = "clamped") -> Tensor:
    """Summed over images and pixels. Torch's cross-entropy takes targets in [0, 1] only."""
    if kind == "squares":
        return F.mse_loss(output, x, reduction="sum")
    if targets == "clamped":
        return F.binary_cross_entropy(output, x.clamp(0, 1), reduction="sum")
    epsilon = 1e-12  # that of the old torch, which took any target
    return -(x * (output + epsilon).log() + (1 - x) * (1 - output + epsilon).log()).sum()


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
