"""Batch norm with a second derivative of its own, against torch's and against finite differences."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from sdgbench import networks
from sdgbench.networks.batch_norm import Exchange, shared_batch_norm, statistics, train_batch_norm
from sdgbench.networks.layers import BatchNorm2d, second_order

EPS = 1e-3


def inputs(count=5):
    torch.manual_seed(0)
    x = torch.randn(count, 3, 2, 3, dtype=torch.double) * 2 + 1
    return [t.requires_grad_() for t in (x, torch.rand(3).double() + 0.5, torch.randn(3).double())]


def test_first_and_second_derivative_in_double_precision():
    def norm(x, weight, bias):
        return train_batch_norm(x, weight, bias, (None, None), 0.1, EPS)

    assert gradcheck(norm, inputs())
    assert gradgradcheck(norm, inputs())


def second_derivatives(layer, x, target):
    """Gradients of the squared length of all first gradients."""
    weights = [x, layer.weight, layer.bias]
    loss = (layer(x) * target).square().sum()
    first = torch.autograd.grad(loss, weights, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), weights)
    return [loss, *first, *second, layer.running_mean, layer.running_var]


def test_values_and_derivatives_are_torchs():
    x, weight, bias = inputs()
    target = torch.randn_like(x)
    results = []
    for kind in (nn.BatchNorm2d, BatchNorm2d):
        layer = kind(3, EPS).double()
        with torch.no_grad():
            layer.weight.copy_(weight), layer.bias.copy_(bias)
        with second_order() if kind is BatchNorm2d else nullcontext():
            results.append(second_derivatives(layer, x, target))
        assert layer.num_batches_tracked == 1
    for plain, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9)


def test_a_third_derivative_is_refused():
    x, weight, bias = inputs()
    y = train_batch_norm(x, weight, bias, (None, None), 0.1, EPS)
    (first,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.pow(2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        second.sum().backward()


def test_statistics_of_unequal_shards_are_those_of_the_batch():
    x = torch.randn(7, 3, 4, 4).double() + 100
    sent = []
    for part in (x[:4], x[4:6], x[6:]):
        statistics(part, Exchange(lambda row: sent.append(row) or row[None], lambda row: row))
    exchange = Exchange(lambda row: torch.stack(sent), lambda row: row)
    mean, variance, count = statistics(x[:4], exchange)
    assert count == 7 * 16
    torch.testing.assert_close(mean, x.mean((0, 2, 3)))
    torch.testing.assert_close(variance, x.var((0, 2, 3), correction=0))


def test_the_shared_one_has_the_same_derivatives():
    """With the whole batch in one process it must be the other; processes are tested in training."""

    def norm(x, weight, bias):
        exchange = Exchange(lambda row: row[None], lambda row: row)
        with torch.no_grad():
            batch = statistics(x, exchange)
        return shared_batch_norm(x, weight, bias, batch, EPS, exchange)

    x, weight, bias = inputs()
    results = []
    for function in (norm, lambda *a: train_batch_norm(*a, (None, None), 0.1, EPS)):
        y = function(x, weight, bias)
        first = torch.autograd.grad(y.pow(3).sum(), (x, weight, bias), create_graph=True)
        length = sum(g.square().sum() for g in first)
        results.append([y, *first, *torch.autograd.grad(length, (x, weight, bias))])
    for shared, alone in zip(*results, strict=True):
        torch.testing.assert_close(shared, alone, rtol=1e-9, atol=1e-9)


class Operations(TorchDispatchMode):
    """Counts operations."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


def test_a_second_derivative_takes_far_fewer_operations():
    network = networks.build("wrn-10-1", 10, (32, 32))
    weights = list(network.parameters())
    counts = []
    for context in (nullcontext(), second_order()):
        with Operations() as operations:
            with context:
                loss = network(torch.rand(2, 3, 32, 32)).square().mean()
            grads = torch.autograd.grad(loss, weights, create_graph=True)
            torch.autograd.grad(grads, weights, [torch.ones_like(g) for g in grads])
        counts.append(operations.count)
    assert counts[1] < 0.8 * counts[0]
    print(counts)
