"""M-ADA on Digits at the paper's settings against a plain implementation of the same mathematics.

The plain one is what a careful reading of the paper gives: a DataLoader of batches of 32, Adam as
torch has it by default, a graph through the inner step, and an ascent whose gradients reach the
weights and the clean anchors, too, because nothing was said against it.
"""

from dataclasses import replace
from itertools import cycle, islice

import numpy as np
import torch
from helpers import make
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

from sdgbench import networks, registry
from sdgbench.dataset import Domain
from sdgbench.datasets._recipes import DIGITS
from sdgbench.methods import _wae
from sdgbench.methods._ascent import frozen
from sdgbench.progress import Silent
from sdgbench.train import Trainer

BATCH, T_ADV, BETA, ALPHA, LR = 32, 25, 2000.0, 1.0, 1e-4
SHARE = 20  # of the paper's length: one part in so many


def images(count):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, count).astype(np.uint8)
    return Domain("digits", rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8), labels)


def mada(folder, count, **params):
    cls = registry.get("method", "mada").load()
    recipe = replace(DIGITS, network="convnet", steps=10_000 // SHARE, validations=0)
    method = make(cls, folder, recipe, params=cls.Params(**params))
    object.__setattr__(method._setting, "source_size", count)
    return method


class Plain:
    """The same networks, losses and schedule, without a thought for speed."""

    def __init__(self):
        torch.manual_seed(0)
        self.network = networks.build("convnet", 10, (32, 32), False)
        self.optimizer = torch.optim.Adam(self.network.parameters(), LR)
        self.new_wae()

    def new_wae(self):
        self.wae, self.critic = _wae.build("digits", (3, 32, 32))
        self.wae_optimizer = torch.optim.Adam(self.wae.parameters(), 1e-3)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), 1e-3)

    def wae_step(self, x):
        codes = self.wae.encoder(x)
        prior = torch.randn_like(codes)
        offset = _wae.log_density(prior)
        apart = _wae.discrimination_loss(
            self.critic(prior) + offset, self.critic(codes.detach()) + offset
        )
        self.critic_optimizer.zero_grad()
        (100 * apart).backward()
        self.critic_optimizer.step()
        loss = _wae.reconstruction_loss(self.wae.decoder(codes), x, "cross-entropy")
        self.wae_optimizer.zero_grad()
        (loss + 100 * _wae.deception_loss(self.critic(codes) + offset)).backward()
        self.wae_optimizer.step()

    def ascend(self, x, y, steps=T_ADV):
        x_plus = x.clone().requires_grad_()
        for _ in range(steps):
            z, z_plus = self.network.features(x), self.network.features(x_plus)
            objective = (
                F.cross_entropy(self.network.head(z_plus), y)
                - ALPHA * F.mse_loss(z_plus, z)
                + BETA * F.mse_loss(self.wae(x_plus), self.wae(x))
            )
            objective.backward()
            with torch.no_grad():
                x_plus += x_plus.grad
            x_plus.grad = None
        return x_plus.detach()

    def meta_step(self, x, y, x_plus, y_plus):
        theta = dict(self.network.named_parameters())
        source = F.cross_entropy(functional_call(self.network, theta, (x,)), y)
        slopes = torch.autograd.grad(source, list(theta.values()), create_graph=True)
        moved = {
            name: w - LR * slope for (name, w), slope in zip(theta.items(), slopes, strict=True)
        }
        after = F.cross_entropy(functional_call(self.network, moved, (x_plus,)), y_plus)
        self.optimizer.zero_grad()
        ((source + after) / 2).backward()
        self.optimizer.step()

    def train_step(self, x, y):
        self.optimizer.zero_grad()
        F.cross_entropy(self.network(x), y).backward()
        self.optimizer.step()

    def run(self, domain, steps, between, batches_of):
        pixels = torch.from_numpy(domain.images).float() / 255
        source = TensorDataset(pixels, torch.from_numpy(domain.labels).long())
        feed, pool, newest = endless(source, BATCH), [], source
        for k in range(4):
            self.new_wae()
            if k < 3:
                for x, _ in DataLoader(newest, BATCH, shuffle=True, drop_last=True):
                    self.wae_step(x)
            mixed = endless(ConcatDataset(pool), BATCH) if pool else None
            for x, y in islice(feed, between if k < 3 else steps - 3 * between):
                if mixed is None:
                    self.train_step(x, y)
                else:
                    self.meta_step(x, y, *next(mixed))
            if k < 3:
                made, own = [], BATCH // (k + 1)
                parts = [endless(source, own)]
                parts += [endless(ConcatDataset(pool), BATCH - own)] if pool else []
                for _ in range(batches_of[k]):
                    x, y = (torch.cat(part) for part in zip(*map(next, parts), strict=True))
                    made.append((self.ascend(x, y), y))
                newest = TensorDataset(*(torch.cat(part) for part in zip(*made, strict=True)))
                pool.append(newest)


def endless(dataset, batch):
    loader = DataLoader(dataset, batch, shuffle=True, drop_last=True)
    return (item for _ in cycle([0]) for item in loader)


def test_a_meta_step_over_a_plain_one(ratio, tmp_path):
    ours, plain = mada(tmp_path, 40), Plain()
    x, y = torch.rand(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))
    x2, y2 = torch.rand(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))
    ratio(lambda: ours.train_step(x, y, x2, y2), lambda: plain.meta_step(x, y, x2, y2), rounds=21)


def test_the_ascent_over_a_plain_one(ratio, tmp_path):
    """Per image, each with the batch size that it uses."""
    ours, plain = mada(tmp_path, 40, T_adv=5), Plain()
    count = ours.params.ascent_batch
    x, y = torch.rand(count, 3, 32, 32), torch.randint(0, 10, (count,))

    def climb():
        with frozen(ours.network, ours.wae):
            ours.ascend(x, ours.objective(x, y))

    def plainly():
        for start in range(0, count, BATCH):
            plain.ascend(x[start : start + BATCH], y[start : start + BATCH], steps=5)

    ratio(climb, plainly, rounds=5)


def test_a_whole_run_over_a_plain_one(ratio, tmp_path):
    """WAE, three domains, exact meta steps: a twentieth of the paper's length."""
    count = 10_000
    domain = images(count)
    batches_of = [(count // BATCH - 1) // (k + 1) // SHARE for k in range(3)]
    folders = iter(range(100))

    def ours():
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        method = mada(folder, count, T_min=100 // SHARE, wae_epochs=20 // SHARE)
        own = [BATCH // (k + 1) for k in range(3)]
        sizes = [(n * o, n * (BATCH - o)) for n, o in zip(batches_of, own, strict=True)]
        # On a class of its own: functions among a method's attributes could not be saved.
        short = {"domain_sizes": lambda self, k: sizes[k]}
        method.__class__ = type("MADA", (type(method),), short)
        Trainer(method, domain, domain.take(100), folder, "run", Silent()).run()

    def plainly():
        Plain().run(domain, 10_000 // SHARE, 100 // SHARE, batches_of)

    ratio(ours, plainly, rounds=1, warm=False)
