"""M-ADA: meta-learning on adversarially augmented domains."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.func import functional_call

from sdgbench.method import Around, Phase, Read, param
from sdgbench.methods._ascent import WHOLE_DOMAINS, Ascending, Gain, frozen, mean_square
from sdgbench.methods._wae import OTHER_WAE, AutoEncoding
from sdgbench.registry import register_method

Batch = tuple[Tensor, Tensor]
SMOKE_WAE = {"wae_epochs": 1, "wae_steps": 4}


@register_method("mada", title="M-ADA", paper="Qiao, Zhao, Peng, CVPR 2020")
class MADA(AutoEncoding, Ascending):
    """Generate fictitious domains by ascent on the source, and meta-learn to generalise to them.

    Defaults are those of the released code, with the training of its WAE fixed (wae_leak and
    wae_targets undo that); where the paper differs, a parameter selects it. K=0 is ERM.
    """

    @dataclass(frozen=True)
    class Params(Ascending.Params, AutoEncoding.Params):
        """Published values for Digits; ``per_dataset`` has those of other datasets."""

        alpha: float = param(
            1.0, "weight of the constraint, the mean square of z - z+", search=Around(10)
        )
        beta: float = param(2000.0, "weight of the relaxation, a mean square", search=Around(10))
        meta: bool = param(True, "evaluate augmented batches after an inner step on the source")
        first_order: bool = param(False, "drop the second-order term of the meta step")
        inner_lr: float | None = param(None, "inner learning rate; none: the current outer one")
        meta_loss: Literal["pooled", "per-domain"] = param(
            "pooled",
            "pooled: mean of source and one batch of all domains (code); "
            "per-domain: source plus one batch of each (paper)",
        )

    # The ascent step for SYNTHIA is not published. It was chosen on the source, so that images
    # move about as far as digits do (0.006 per pixel); four times the pixels need four times the
    # step.
    per_dataset: ClassVar = {
        "cifar10c": {
            "T_min_epochs": 10,
            "T_adv": 15,
            "ascent_step": 5 / 128,
            "wae": "cifar",
            "wae_epochs": 100,
            **OTHER_WAE,
        },
        "synthia": {
            "T_min_epochs": 10,
            "ascent_step": 4.0,
            "ascent_batch": 8,
            "wae": "synthia",
            "wae_epochs": 200,
            **OTHER_WAE,
        },
        "quick": {"max_batches": 5, "wae_epochs": 5},
        "smoke": {"T_adv": 2, "max_batches": 1, **SMOKE_WAE},
        **WHOLE_DOMAINS,
        "digits/quick": {"max_batches": None, "wae_epochs": 20},
        "cifar10c/quick": {"T_min_epochs": 1, "wae_epochs": 2},
        "synthia/quick": {"T_adv": 10, "ascent_step": 2.5, "T_min_epochs": 1},
        "digits/smoke": {"max_batches": 2},
        "cifar10c/smoke": {"T_min_epochs": 0},
        "synthia/smoke": {"K": 2, "ascent_step": 1.0, "T_min_epochs": 0, "T_adv": 1},
    }

    # The plan ------------------------------------------------------------------------------

    def plan(self) -> Sequence[Phase]:
        """WAE; then K times: train, generate a domain, train a new WAE on it; then train on."""
        p, between = self.params, self.steps_between()
        phases = self.wae_phases(Read(augment=False), self.source_size) if p.K else []
        domains: list[tuple[int, int]] = []
        for k in range(p.K):
            phases.append(Phase("train", between, self.train_reads(domains)))
            start = domains[-1][1] if domains else 0
            from_source, from_pool = self.domain_sizes(k)
            if from_pool:
                read = Read("pool", augment=False, only=((0, start),), images=from_pool)
                phases.append(Phase.sweep("generate", read, p.ascent_batch))
            read = Read(augment=False, images=from_source)
            phases.append(Phase.sweep("generate", read, p.ascent_batch))
            domains.append((start, start + from_source + from_pool))
            if k + 1 < p.K:
                newest = Read("pool", augment=False, only=(domains[-1],))
                phases += self.wae_phases(newest, from_source + from_pool)
        rest = self.train_steps - p.K * between
        return [*phases, Phase("train", rest, self.train_reads(domains))]

    def wae_phases(self, read: Read, images: int) -> list[Phase]:
        """A training of V from scratch, if the relaxation uses V."""
        needed = self.params.beta and self.params.relaxation != "pixel"
        return [self.wae_phase(read, images)] if needed else []

    def shardable(self, phase: Phase) -> bool:
        """All losses are means over the images, except MMD, which compares pairs of codes."""
        return (
            phase.name != "wae" or self.params.relaxation == "ae" or self.params.wae_prior == "gan"
        )

    def train_reads(self, domains: Sequence[tuple[int, int]]) -> tuple[Read, ...]:
        """The source, and the pool of all domains or each domain on its own."""
        if self.params.meta_loss == "per-domain":
            return (Read(), *(Read("pool", only=(domain,)) for domain in domains))
        return (Read(), Read("pool")) if domains else (Read(),)

    def domain_sizes(self, k: int) -> tuple[int, int]:
        """The numbers of images of domain k+1 that start from the source and from earlier domains.

        The released code makes (n/32 - 1)/(k+1) batches, of which 1/(k+1) is source.
        """
        batch = self.recipe.batch
        batches = self.batches((self.source_size // batch - 1) // (k + 1))
        from_source = batch // (k + 1)
        return batches * from_source, batches * (batch - from_source)

    # The steps -----------------------------------------------------------------------------

    def generate_step(self, x: Tensor, y: Tensor) -> None:
        """Ascend the adversarial objective from clean images; labels are kept."""
        with frozen(self.network, self.wae):
            self.pool.add(self.ascend(x, self.objective(x, y)), y)

    def objective(self, x: Tensor, y: Tensor) -> Gain:
        """The loss minus the constraint plus the relaxation, of each image."""
        p, network = self.params, self.network
        with_wae = p.relaxation in ("wae", "ae")
        reconstruct: Callable[[Tensor], Tensor] = self.wae if with_wae else lambda image: image
        with torch.no_grad():  # the anchors, once
            z, v = network.features(x), reconstruct(x) if p.beta else x

        def gain(x_plus: Tensor) -> Tensor:
            z_plus = network.features(x_plus)
            value = self.task.loss_per_image(network.head(z_plus), y)
            if p.alpha:
                value = value - p.alpha * mean_square(z, z_plus)
            if p.beta:
                anchor = self.wae(x_plus) if p.relaxation == "literal" else v
                value = value + p.beta * mean_square(anchor, reconstruct(x_plus))
            return value

        return gain

    def train_step(self, x: Tensor, y: Tensor, *augmented: Tensor) -> Tensor:
        """Meta-train on the source, meta-test on augmented domains after an inner step."""
        p = self.params
        second_order = augmented and p.meta and not p.first_order
        with self.twice_differentiable() if second_order else nullcontext():
            source_loss = self.task.loss(self.network(x), y)
        if not augmented:
            return self.optimise(source_loss)
        share = 1.0 if p.meta_loss == "per-domain" else 0.5
        batches = list(zip(augmented[::2], augmented[1::2], strict=True))
        if p.meta:
            return self.meta_step(share, source_loss, batches)
        losses = [self.task.loss(self.network(x_plus), y_plus) for x_plus, y_plus in batches]
        return self.optimise(share * (source_loss + sum(losses)))

    def meta_step(self, share: float, source_loss: Tensor, batches: Sequence[Batch]) -> Tensor:
        """Minimise the source loss and the augmented loss after one gradient step on the source.

        With theta' = theta + step(theta), the gradient of the augmented loss is v + step'(theta) v,
        where v is its gradient at theta': exact, one Hessian-vector product, and no graph spans
        both losses.
        """
        p = self.params
        lr = self.learning_rate() if p.inner_lr is None else p.inner_lr
        names, theta = zip(*self.network.named_parameters(), strict=True)
        step = self.gradients(source_loss, theta, not p.first_order, retain_graph=True, factor=-lr)
        moved = torch._foreach_add([w.detach() for w in theta], [s.detach() for s in step])
        theta_after = dict(zip(names, (w.requires_grad_() for w in moved), strict=True))
        losses = [  # batch-norm statistics stay the network's own
            self.task.loss(functional_call(self.network, theta_after, (x,)), y) for x, y in batches
        ]
        augmented_loss = share * sum(losses[1:], losses[0])
        v = self.gradients(augmented_loss, moved)
        extra_grads = list(zip(theta, v, strict=True))
        if not p.first_order:
            extra_grads += zip(step, v, strict=True)
        return self.optimise(share * source_loss + augmented_loss.detach(), extra_grads=extra_grads)
