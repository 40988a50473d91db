"""AdvST: semantic transformations of images whose parameters are learned adversarially."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from sdgbench.method import Around, Method, Phase, Read, param
from sdgbench.methods._advst_ops import FAMILIES, Link, apply, draw_chain, draw_link
from sdgbench.methods._ascent import WHOLE_DOMAINS, frozen, mean_square
from sdgbench.methods._heads import feature_width
from sdgbench.methods._losses import entropy, supervised_contrast
from sdgbench.registry import register_method

PROJECTION = 128  # width of the embedding that is contrasted (code)


@register_method(
    "advst",
    title="AdvST",
    paper="Zheng et al., AdvST: Revisiting Data Augmentations for Single Domain Generalization, "
    "AAAI 2024",
    skips={"segmentation": "its rotations and shears do not move the labels of pixels"},
    flags={"corruption_overlap": "it trains on changes of contrast, brightness and saturation"},
)
class AdvST(Method):
    """After each pass, make a domain by chains of image operations that are hard for the network.

    A chain is drawn for each batch, and the values of its operations ascend the loss of the
    images, near the source in feature space. domains=0 is ERM.
    """

    families: ClassVar = FAMILIES

    @dataclass(frozen=True)
    class Params:
        """Published values for Digits (released code); datasets that it lacks use the same."""

        domains: int = param(5, "newest domains in the training set (code: 5); 0: ERM")
        longest: int = param(3, "maximum number of operations in a chain (code)")
        rate: float = param(
            0.2, "rate of RMSprop on the operations' values (code)", search=Around(10)
        )
        ascent_steps: int = param(20, "maximum number of ascent steps (code)")
        tolerance: float = param(0.1, "the ascent ends if its objective changes by less (code)")
        distance: float = param(
            100.0, "weight of the mean square of z - z+ in the ascent (code)", search=Around(10)
        )
        eta: float = param(0.0, "weight of the entropy in the ascent (code; AdvST-ME: 10)")
        contrast: float = param(1.0, "weight of the supervised contrastive loss (code)")
        temperature: float = param(0.07, "temperature of the contrastive loss (code)")
        confidence: float = param(
            10.0, "weight of the entropy that training maximises (code)", search=Around(10)
        )
        ascent_batch: int = param(256, "images that share a chain (code)")
        max_batches: int | None = param(None, "maximum number of batches per domain; none: all")
        compat: bool = param(
            False,
            "as released: domain 6 replaces the source, and the training set is not shuffled",
        )

        def __post_init__(self) -> None:
            for name, minimum in (("domains", 0), ("longest", 1), ("ascent_steps", 0)):
                if getattr(self, name) < minimum:
                    raise ValueError(f"{name} must be {minimum} or more, not {getattr(self, name)}")
            if self.ascent_batch < 1 or self.temperature <= 0:
                raise ValueError("ascent_batch must be 1 or more, temperature above 0")

    per_dataset: ClassVar = {
        "pacs": {
            "domains": 3,
            "rate": 5.0,
            "ascent_steps": 50,
            "distance": 10.0,
            "confidence": 0.01,
        },
        "quick": {"max_batches": 2},
        **WHOLE_DOMAINS,
        "smoke": {"domains": 2, "ascent_steps": 2, "ascent_batch": 16, "max_batches": 2},
    }

    # 50 passes over the growing set: 312, 625, 937, 1250, 1562, then 45 of 1875 steps.
    recipes: ClassVar = {"digits": {"steps": 89_061, "schedule": "step"}}

    def setup(self) -> None:
        """Add the projection of the features for the contrastive loss."""
        if self.params.domains:
            width = feature_width(self)
            self.projection = nn.Linear(width, PROJECTION).to(self.device.torch)
            self.optimizer.add_param_group({"params": self.projection.parameters()})

    # The plan ------------------------------------------------------------------------------

    def plan(self) -> Sequence[Phase]:
        """Train for a pass over the current set, make a domain, and so on to the end.

        A short training has shorter passes, so that it still makes all domains.
        """
        p, left = self.params, self.train_steps
        if not p.domains:
            return [Phase("train", left)]
        most, phases, made = max(1, left // (p.domains + 1)), [], 0
        while True:
            images = self.source_size + min(made, p.domains) * self.domain_size()
            steps = min(left, most, max(1, images // self.recipe.batch))
            phases.append(Phase("train", steps, (self.training_set(made),)))
            left, made = left - steps, made + 1
            if not left:
                return phases
            read = Read(augment=False, images=self.domain_size())
            phases.append(Phase.sweep("generate", read, p.ascent_batch))

    def domain_size(self) -> int:
        """Images per domain: one of each source image, unless a preset limits it."""
        limit = self.params.max_batches
        size = self.source_size
        return size if limit is None else min(size, limit * int(self.params.ascent_batch))

    def training_set(self, made: int) -> Read:
        """The source and the newest domains, after the given number of domains."""
        p, size = self.params, self.domain_size()
        if not p.compat:
            newest = range(max(0, made - p.domains), made)
            return Read("source+pool", only=tuple((k * size, (k + 1) * size) for k in newest))
        slots = p.domains + 1  # a ring: item k, where 0 is the source, is in slot k modulo slots
        items = [made - (made - slot) % slots for slot in range(min(slots, made + 1))]
        ranges = tuple(((k - 1) * size, k * size) for k in items if k)
        return Read("source+pool" if 0 in items else "pool", only=ranges, shuffle=False)

    # The steps -----------------------------------------------------------------------------

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        """Classify, contrast the classes, and keep the predictions uncertain."""
        p = self.params
        if not p.domains:
            return self.optimise(self.task.loss(self.network(x), y))
        z = self.network.features(x)
        logits = self.network.head(z)
        contrast = supervised_contrast(self.projection(z), y, p.temperature)
        loss = self.task.loss(logits, y) + p.contrast * contrast
        return self.optimise(loss - p.confidence * entropy(logits).mean())

    def generate_step(self, x: Tensor, y: Tensor) -> None:
        """Draw a chain for the batch, let its values ascend, and keep the images and labels."""
        chain = [draw_link(name, len(x), x.device) for name in draw_chain(self.params.longest)]
        with frozen(self.network), self.device.no_autocast():
            self.ascend(chain, x, y)
            with torch.no_grad():
                self.pool.add(apply(chain, x), y)

    def ascend(self, chain: Sequence[Link], x: Tensor, y: Tensor) -> None:
        """Raise the objective of the batch in the values of its operations."""
        p = self.params
        values = [link.values for link in chain if link.values.numel()]
        if not values:
            return
        with torch.no_grad():
            z = self.network.features(x)
        optimizer = torch.optim.RMSprop(values, p.rate, maximize=True)
        before = float("inf")
        for _ in range(p.ascent_steps):
            objective = self.objective(apply(chain, x), z, y)
            if abs(objective.item() - before) <= p.tolerance:
                break
            before = objective.item()
            for value, grad in zip(values, torch.autograd.grad(objective, values), strict=True):
                value.grad = grad
            optimizer.step()
            for link in chain:
                link.clip()

    def objective(self, x_plus: Tensor, z: Tensor, y: Tensor) -> Tensor:
        """The mean over the batch of loss, minus distance in feature space, plus entropy."""
        p = self.params
        z_plus = self.network.features(x_plus)
        logits = self.network.head(z_plus)
        values: Tensor = self.task.loss_per_image(logits, y)
        values = values - p.distance * mean_square(z, z_plus)
        if p.eta:
            values = values + p.eta * entropy(logits)
        return values.mean()


@register_method(
    "advst-me",
    title="AdvST-ME",
    paper="Zheng et al., AAAI 2024, with maximum entropy",
    skips={"segmentation": "its rotations and shears do not move the labels of pixels"},
    flags={"corruption_overlap": "it trains on changes of contrast, brightness and saturation"},
)
class AdvSTME(AdvST):
    """AdvST whose images also raise the entropy of the prediction."""

    @dataclass(frozen=True)
    class Params(AdvST.Params):
        """As AdvST, eta 10."""

        eta: float = param(10.0, "weight of the entropy in the ascent (code)", search=Around(10))
