"""A plain implementation of M-ADA on Digits at the paper's settings.

It is what a careful reading of the paper gives: a DataLoader of batches of 32, Adam as torch has
it by default, a graph through the inner step, and an ascent whose gradients reach the weights and
the clean anchors, too, because nothing was said against it.
"""

from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, islice
from multiprocessing import get_context

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

from sdgbench.methods import _wae

BATCH, T_ADV, BETA, ALPHA, LR = 32, 25, 2000.0, 1.0, 1e-4


class ConvNet(nn.Module):
    """As the paper describes it."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(3200, 1024),
            nn.ReLU(),
            nn.Linear(1024, 1024),
            nn.ReLU(),
        )
        self.head = nn.Linear(1024, 10)

    def forward(self, x):
        return self.head(self.features(x))


class Plain:
    """The same networks, losses and schedule, without a thought for speed."""

    def __init__(self):
        torch.manual_seed(0)
        self.network = ConvNet()
        self.optimizer = torch.optim.Adam(self.network.parameters(), LR)
        self.new_wae()

    def ready(self):
        pass

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
        grads = torch.autograd.grad(source, list(theta.values()), create_graph=True)
        moved = {name: w - LR * grad for (name, w), grad in zip(theta.items(), grads, strict=True)}
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


class Elsewhere:
    """A plain implementation in a process of its own, which knows no setting of the harness."""

    def __enter__(self):
        torch.multiprocessing.set_sharing_strategy("file_system")
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), _start)
        self._pool.submit(_call, "ready").result()
        return self

    def __exit__(self, *_):
        self._pool.shutdown()

    def call(self, name, *arguments):
        """Do it there, and wait for it."""
        self._pool.submit(_call, name, *arguments).result()


_plain: "Plain"


def _start():
    global _plain
    torch.set_num_threads(1)
    _plain = Plain()


def _call(name, *arguments):
    getattr(_plain, name)(*arguments)
