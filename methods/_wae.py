"""Wasserstein auto-encoders (Tolstikhin et al., ICLR 2018), as M-ADA uses them."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from sdgbench.method import Method, Phase, Read
from sdgbench.methods._wae_networks import build
from sdgbench.settings import param

MMD_SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


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
        wae_targets: Literal["clamped", "free"] = param(
            "clamped", "pixels outside [0, 1] as targets of the cross-entropy: clamped, or as they "
            "are (code, with the torch of its time)",
        )  # fmt: skip
        wae_leak: bool = param(
            False, "gan: the discriminator's gradient reaches the encoder, too (code, where its "
            "graph is retained)",
        )  # fmt: skip
        wae_lr: float = param(1e-3, "Adam learning rate of V and its discriminator")
        wae_epochs: int = param(20, "passes over the newest domain per training of V")
        wae_steps: int | None = param(None, "at most so many steps of it; none: all")

    def setup(self) -> None:
        """V, its discriminator and their optimisers."""
        auto_encoder, critic = build(self.params.wae, self.pool.image_shape)
        self.wae, self.critic = self.device.place(auto_encoder), self.device.place(critic)
        self.wae_optimizer, self.critic_optimizer = (
            torch.optim.Adam(module.parameters(), self.params.wae_lr, fused=True)
            for module in (self.wae, self.critic)
        )

    def wae_phase(self, read: Read, images: int) -> Phase:
        """Train V on a domain of so many images."""
        p = self.params
        steps = p.wae_epochs * max(1, images // self.recipe.batch)
        steps = steps if p.wae_steps is None else min(p.wae_steps, steps)
        return Phase("wae", steps, (read,))

    def begin(self, phase: Phase) -> None:
        """Every training of V starts anew."""
        if phase.name == "wae":
            AutoEncoding.setup(self)

    def wae_step(self, x: Tensor, y: Tensor) -> Tensor:
        """Reconstruct, with codes that are drawn to N(0, I). Always in float32.

        Half precision has too few numbers near 1 for the cross-entropy of probabilities.
        """
        with self.device.exact():
            return self.exact_wae_step(x)

    def exact_wae_step(self, x: Tensor) -> Tensor:
        """One step of V and, where there is one, of its discriminator before it."""
        p = self.params
        codes = self.wae.encoder(x)
        rebuilt = reconstruction_loss(self.wae.decoder(codes), x, p.wae_loss, p.wae_targets)
        loss, prior = self.as_mean(rebuilt), self.randn_like(codes)
        if p.relaxation == "ae":
            return self.optimise(loss, self.wae_optimizer)
        if p.wae_prior == "mmd":
            return self.optimise(loss + p.wae_weight * mmd(codes, prior), self.wae_optimizer)
        offset = log_density(prior) if p.wae_offset else 0.0
        seen = codes.detach().requires_grad_(p.wae_leak)
        told_apart = p.wae_weight * discrimination_loss(
            self.critic(prior) + offset, self.critic(seen) + offset
        )
        also = []
        if p.wae_leak:  # before the discriminator moves on
            also = [(codes, *torch.autograd.grad(told_apart, seen, retain_graph=True))]
        self.optimise(told_apart, self.critic_optimizer)
        deceived = p.wae_weight * deception_loss(self.critic(codes) + offset)
        return self.optimise(loss + deceived, self.wae_optimizer, also)


# Losses --------------------------------------------------------------------------------------


def reconstruction_loss(output: Tensor, x: Tensor, kind: str, targets: str = "clamped") -> Tensor:
    """Summed over images and pixels. Torch has a cross-entropy for targets in [0, 1] only."""
    if kind == "squares":
        return F.mse_loss(output, x, reduction="sum")
    if targets == "clamped":
        return F.binary_cross_entropy(output, x.clamp(0, 1), reduction="sum")
    tiny = 1e-12  # what kept logarithms finite in the torch that took any target
    return -(x * (output + tiny).log() + (1 - x) * (1 - output + tiny).log()).sum()


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
