"""Every registered method keeps every rule on every dataset, with no data to download."""

import os
from pathlib import Path

import pytest

from sdgbench import registry
from sdgbench.conformance import CHECKS, Skipped, World

EMBEDDED = "digits-mini"  # enough for a method that only changes another's parameters


def is_variant(method):
    cls = registry.get("method", method).load()
    own = [value for name, value in vars(cls).items() if not name.startswith("__")]
    changes = [value for value in own if callable(value) and value is not cls.Params]
    return hasattr(cls.__mro__[1], "registered") and not changes


CASES = [
    pytest.param(
        check,
        method,
        dataset,
        id=f"{method}-{dataset}-{check.name}",
        marks=pytest.mark.xdist_group(f"{method}-{dataset}"),  # checks of a pair share trainings
    )
    for method in registry.entries("method")
    for position, dataset in enumerate(registry.entries("dataset"))
    for check in CHECKS
    if not (check.once and position and not is_variant(method))
    if dataset == EMBEDDED or not is_variant(method)
]


@pytest.fixture(scope="module")
def worlds():
    """Checks of one method on one dataset share its trainings."""
    return {}


@pytest.mark.parametrize(("check", "method", "dataset"), CASES)
def test_a_method_keeps_the_rules(check, method, dataset, worlds, tmp_path_factory):
    if (method, dataset) not in worlds:
        worlds.clear()  # the cases of a pair stand together, and trained methods are large
        data = Path(os.environ["SDGBENCH_DATA"])
        worlds[method, dataset] = World(method, dataset, tmp_path_factory.mktemp("world"), data)
    try:
        check(worlds[method, dataset])
    except Skipped as reason:
        pytest.skip(str(reason))
