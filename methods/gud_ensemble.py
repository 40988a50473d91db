"""The GUD ensemble: members whose constraint keeps them more or less close to the source."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sdgbench.method import Around, Integers, Phase, Read, param
from sdgbench.methods._ascent import frozen
from sdgbench.methods.gud import GUD
from sdgbench.networks import Network
from sdgbench.registry import register_method


@register_method("gud-ensemble", title="GUD ensemble", paper="Volpi et al., NeurIPS 2018")
class GUDEnsemble(GUD):
    """Seven GUD networks with constraint weights from 1 to 1e-6; the most confident predicts.

    The members are equal until the first domain is generated, so that part is trained once. After
    that, each training step updates all members. K=0 is ERM.
    """

    @dataclass(frozen=True)
    class Params(GUD.Params):
        """As recalled from the paper; the ensemble's code was never released."""

        K: int = param(2, "augmented domains of each member; 0: ERM", search=Integers(1, 3))
        members: int = param(7, "networks; the ratio of cost that M-ADA reports confirms seven")
        gamma: float = param(
            1.0, "constraint weight of member 1; each next has a tenth of it", search=Around(100)
        )
        decision: Literal["confident", "mean"] = param(
            "confident", "per image: the member with the largest softmax, or their mean softmax"
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.members < 1:
                raise ValueError(f"members must be 1 or more, not {self.members}")

    per_dataset: ClassVar = {
        **GUD.per_dataset,
        "smoke": {**GUD.per_dataset["smoke"], "members": 2},
        "digits/smoke": {**GUD.per_dataset["digits/smoke"], "members": 3},
        "cifar10c/smoke": {**GUD.per_dataset["cifar10c/smoke"], "members": 2},
        "synthia/smoke": {**GUD.per_dataset["synthia/smoke"], "K": 1, "members": 2},
    }

    def setup(self) -> None:
        """Create the other members, and one optimiser for all."""
        others = (deepcopy(self.network) for _ in range(self.params.members - 1))
        self.others = nn.ModuleList(others)
        self.optimizer = self.new_optimizer(nn.ModuleList(self.inference_modules()))
        self.member, self.divided = 0, False

    def plan(self) -> Sequence[Phase]:
        """Train as one; then K times: each member generates a domain, and all train on theirs."""
        p, between = self.params, self.steps_between()
        size = self.domain_size()
        domains: list[tuple[tuple[int, int], ...]] = [()] * p.members  # ranges of the pool
        phases = [Phase("train", between if p.K else self.train_steps)]
        for k in range(p.K):
            for member in range(p.members):
                phases.append(self.generation(domains[member], member))
                start = (k * p.members + member) * size
                domains[member] = (*domains[member], (start, start + size))
            steps = between if k + 1 < p.K else self.train_steps - p.K * between
            reads = tuple(Read("source+pool", only=ranges) for ranges in domains)
            phases.append(Phase("train", steps, reads))
        return phases

    def begin(self, phase: Phase) -> None:
        """Split the members before the first domain; remember which member generates."""
        self.member = phase.part
        if phase.name == "generate" and not self.divided:
            self.divide()

    def divide(self) -> None:
        """Give every member its own copy of the weights and of the optimiser's state."""
        state = self.optimizer.state
        for other in self.others:
            other.load_state_dict(self.network.state_dict())
            pairs = zip(self.network.parameters(), other.parameters(), strict=True)
            for weight, copy in pairs:
                state[copy] = deepcopy(state[weight])
        self.divided = True

    def networks(self) -> list[Network]:
        """All members; only the first one before they are split."""
        others = [other for other in self.others if isinstance(other, Network)]
        return [self.network, *others] if self.divided else [self.network]

    def train_step(self, *batches: Tensor) -> Tensor:
        """One update of each member, each on its own batch."""
        pairs = zip(batches[::2], batches[1::2], strict=True)
        losses = [
            self.task.loss(network(x), y)
            for network, (x, y) in zip(self.networks(), pairs, strict=True)
        ]
        return self.optimise(sum(losses[1:], losses[0])) / len(losses)

    def generate_step(self, x: Tensor, y: Tensor) -> None:
        """Ascend with one member's network and constraint weight."""
        network, gamma = self.networks()[self.member], self.params.gamma * 0.1**self.member
        with frozen(network):
            self.pool.add(self.ascend(x, self.objective(network, gamma, x, y)), y)

    def predict(self, x: Tensor) -> Tensor:
        """Per image (or pixel), the logits of the most confident member, or the log mean."""
        logits = torch.stack([network(x) for network in self.networks()])
        softmax = logits.softmax(2)
        if self.params.decision == "mean":
            return softmax.mean(0).log()
        chosen = softmax.amax(2, keepdim=True).argmax(0, keepdim=True)
        return logits.gather(0, chosen.expand(1, *logits.shape[1:]))[0]

    def adapt_step(self, x: Tensor, y: Tensor, optimizer: Optimizer) -> Tensor:
        """Each member learns from every image, also where another one would predict."""
        losses = [self.task.loss(network(x), y) for network in self.networks()]
        return self.optimise(sum(losses[1:], losses[0]), optimizer) / len(losses)

    def inference_modules(self) -> Sequence[nn.Module]:
        """All members count."""
        return [self.network, *self.others]
