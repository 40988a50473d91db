"""Helpers that several tests share."""

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from sdgbench import registry
from sdgbench.data.domain import Domain
from sdgbench.method import Method, MethodContext, Phase, Read
from sdgbench.recipe import Recipe
from sdgbench.reporter import Silent
from sdgbench.spec.parameters import param
from sdgbench.task import Classification
from sdgbench.training.device import Device, Scaler
from sdgbench.training.pool import Pool
from sdgbench.training.trainer import Trainer

RECIPE = Recipe(network="convnet-2", lr=1e-3, steps=12, batch=8, validations=3, eval_batch=16)

SGD = replace(RECIPE, optimiser="sgd", lr=0.05, momentum=0.9, steps=9, validations=1)


def toy_domain(name: str = "toy", count: int = 40, seed: int = 0, size: int = 32) -> Domain:
    """Images whose brightness depends on the class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count).astype(np.uint8)
    noise = rng.normal(0, 10, (count, 3, size, size))
    images = (25 * labels.reshape(-1, 1, 1, 1) + noise).clip(0, 255).astype(np.uint8)
    return Domain(name, images, labels)


def make(
    cls: type[Method],
    folder: Path,
    recipe: Recipe = RECIPE,
    seed: int = 0,
    params=None,
    device: Device | None = None,
) -> Method:
    """Build a method as a run does."""
    pool = Pool(folder / "pool", (3, 32, 32), ())
    return cls(
        MethodContext(
            params=cls.Params() if params is None else params,
            task=Classification(10),
            recipe=recipe,
            device=device or Device("cpu"),
            seed=seed,
            source_size=40,
            pool=pool,
        )
    )


def trainer(method: Method, folder: Path, **options) -> Trainer:
    """Build a trainer on the toy domain."""
    folder.mkdir(parents=True, exist_ok=True)
    return Trainer(
        method,
        toy_domain(),
        toy_domain(seed=1),
        folder,
        "toy-run",
        options.pop("reporter", Silent()),
        **options,
    )


def weights(method: Method) -> dict[str, torch.Tensor]:
    return {key: value.clone() for key, value in method.network.state_dict().items()}


def assert_same_weights(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    """Assert that two sets of weights are equal bit for bit."""
    assert first.keys() == second.keys()
    for key, value in first.items():
        assert torch.equal(value, second[key]), key


class Everything(Method):
    """A method that does all that the interface allows: two networks, a pool, three phases."""

    name = "everything"

    @dataclass(frozen=True)
    class Params:
        """Its one parameter."""

        strength: float = param(0.1, "size of the change to generated images")

    def setup(self) -> None:
        """A second network, a second optimiser, and state of every type that checkpoints save."""
        self.critic = torch.nn.Linear(10, 1)
        self.critic_optimizer = torch.optim.SGD(self.critic.parameters(), 0.01, momentum=0.9)
        self.running = torch.zeros(10)
        self.history = {"losses": [0.0], "best": None}
        self.draws = np.random.default_rng(3)
        self.noise = torch.Generator().manual_seed(5)

    def plan(self):
        """Phases of one name occur more than once."""
        train = Phase("train", 4, (Read(), Read("source")))
        grow = Phase("generate", 3, (Read(batch=5, augment=False),))
        mixed = Phase("train", 4, (Read(), Read("source+pool")))
        last = Phase("train", 4, (Read(), Read("pool", batch=4)))
        return [Phase("warm", 2), train, grow, mixed, grow, last]

    def warm_step(self, x, y):
        """Train the critic with global random numbers of all kinds."""
        import random

        logits = self.network(x).detach() + torch.randn(len(x), 10) * np.random.rand()
        self.draws.random()
        loss = (self.critic(logits) - random.random()).square().mean()
        return self.optimise(loss, self.critic_optimizer)

    def train_step(self, x, y, x2, y2):
        """Both batches count."""
        logits = self.network(x)
        self.running = 0.9 * self.running + 0.1 * logits.detach().mean(0)
        scale = 1 + 0.1 * torch.rand(1, generator=self.noise).item() + 0.1 * self.draws.random()
        loss = scale * self.task.loss(logits, y) + self.task.loss(self.network(x2), y2)
        self.history["losses"].append(float(loss.detach()))
        return self.optimise(loss + 0.01 * self.running.mean())

    def generate_step(self, x, y):
        """Add changed images to the pool."""
        self.pool.add(x + self.params.strength * torch.randn_like(x), y)


def smoke(recipe: Recipe, **changes) -> Recipe:
    return replace(recipe, **changes)


def erm() -> type[Method]:
    return registry.get("method", "erm").load()


def watch(method: Method, name: str, seen) -> None:
    """Call ``seen(*arguments)`` after each call of a method's function."""
    plain = getattr(type(method), name)

    def spy(self, *arguments):
        result = plain(self, *arguments)
        seen(*arguments)
        return result

    # On a class of its own: functions among a method's attributes could not be saved.
    method.__class__ = type(type(method).__name__, (type(method),), {name: spy})


def weights_at_each_step(method: Method, folder: Path) -> list[dict[str, torch.Tensor]]:
    """Train on the toy domain and keep the weights after every training step."""
    history: list[dict[str, torch.Tensor]] = []
    watch(method, "train_step", lambda *_: history.append(weights(method)))
    trainer(method, folder).run()
    return history


def history(cls, folder, recipe, params=None):
    """Loss and weights after every step of a whole run."""
    steps = []

    class Traced(cls):
        def train_step(self, *batch):
            loss = super().train_step(*batch)
            steps.append((loss.item(), weights(self)))
            return loss

    trainer(make(Traced, folder, recipe, params=params), folder).run()
    return steps


def assert_erm_without_weight(cls, folder, recipe):
    """The method with weight 0 is ERM at each step; with its own weight it is not."""
    plain = history(erm(), folder / "erm", recipe)
    same = history(cls, folder / "same", recipe, cls.Params(weight=0.0))
    assert len(plain) == len(same) == 12
    for (loss, state), (loss2, state2) in zip(plain, same, strict=True):
        assert loss == loss2
        assert_same_weights(state, state2)
    other = history(cls, folder / "other", recipe, cls.Params())
    assert all(loss != loss2 for (loss, _), (loss2, _) in zip(plain, other, strict=True))


def consistency_by_hand(logits, y, weight):
    """Cross-entropy of the first view, and the divergence of all, in plain Python."""
    p = [[[math.exp(v) / sum(map(math.exp, row)) for v in row] for row in view] for view in logits]
    count = len(y)
    cross = -sum(math.log(p[0][n][k]) for n, k in enumerate(y)) / count
    divergence = 0.0
    for n in range(count):
        mixture = [sum(view[n][c] for view in p) / len(p) for c in range(len(p[0][n]))]
        for view in p:
            divergence += sum(a * math.log(a / b) for a, b in zip(view[n], mixture, strict=True))
    return cross + weight * divergence / (len(p) * count)


def assert_erm(cls, folder, network="convnet-2", **params):
    """With these parameters, the method is ERM after each step, bit for bit."""
    recipe = replace(RECIPE, network=network, steps=4)
    plain = weights_at_each_step(make(erm(), folder / "erm", recipe), folder / "erm")
    method = make(cls, folder / "same", recipe, params=cls.Params(**params))
    same = weights_at_each_step(method, folder / "same")
    assert len(plain) == len(same) == 4
    for first, second in zip(plain, same, strict=True):
        assert_same_weights(first, second)


def two_batches():
    domain = toy_domain()
    images = torch.from_numpy(domain.images).float() / 255
    labels = torch.from_numpy(domain.labels).long()
    return images[:8], labels[:8], images[8:16], labels[8:16]


def wait_for(condition, seconds=240.0):
    """Wait until a condition returns something true, and return that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.01)
    raise AssertionError("the condition did not become true in time")


def mada():
    return registry.get("method", "mada").load()


def mada_params(**changes):
    """Two domains, little of everything, and the exact meta step."""
    few = {"K": 2, "T_min": 2, "T_adv": 2, "wae_epochs": 1, "max_batches": 1, "ascent_batch": 8}
    return replace(mada().Params(), **{**few, **changes})


def trained(cls, folder, recipe=SGD, params=None, device=None, **options):
    method = make(cls, folder, recipe, params=params or cls.Params(), device=device)
    position = trainer(method, folder, **options).run()
    return method, position


def assert_close(first, second, tolerance):
    assert first.keys() == second.keys()
    for key, value in first.items():
        torch.testing.assert_close(value, second[key], rtol=tolerance, atol=tolerance, msg=key)


class Scaled(Device):
    """A CPU in float32 with fp16's scaler."""

    def __init__(self, scale=1024.0):
        super().__init__("cpu")
        self.scale = scale

    def new_scaler(self):
        return Scaler("cpu", init_scale=self.scale, growth_interval=3)
