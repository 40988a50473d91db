"""Every registered method keeps every rule on every dataset, with no data to download."""

import os
from pathlib import Path

import pytest

from sdgbench import registry
from sdgbench.conformance import (
    CHECKS,
    MethodHarness,
    Skipped,
    embedded_datasets,
    representative_datasets,
)
from sdgbench.errors import UserError
from sdgbench.spec import parameters

BASELINE = "erm"  # makes a real run on every embedded dataset, the others on one of each task
EMBEDDED = "digits-mini"  # enough for a method that only changes another's parameters
SHORT_CASES = {  # a few steps and checks on these are enough: dataset, and settings
    "transformer": ("styles-mini", {"recipe.network": "timm:test_vit", "recipe.steps": "2"}),
    "65 classes": ("office-home", {"recipe.steps": "2"}),
}
SHORT_CHECKS = ("plan", "learn", "predict", "independence")


def is_variant(method):
    cls = registry.get("method", method).load()
    own = [value for name, value in vars(cls).items() if not name.startswith("__")]
    changes = [value for value in own if callable(value) and value is not cls.Params]
    return hasattr(cls.__mro__[1], "registered") and not changes


def shapes(dataset):
    """What a method can see of a dataset's twin at the smoke preset, and its parameters.

    The number of classes is left out: SHORT_CASES has the dataset that differs in it alone.
    """
    cls = registry.get("dataset", dataset).load()
    recipe = cls.recipe("smoke")
    seen = (cls.task.kind, recipe.network, recipe.image_size, recipe.augment)
    return (cls.family or cls.name, *seen, cls.streams)


def distinct():
    """Of datasets whose twins are the same to every method one is enough, an embedded one first."""
    by_shapes = {}
    embedded = embedded_datasets()
    names = sorted(registry.entries("dataset"), key=lambda name: name not in embedded)
    for name in names:
        by_shapes.setdefault(shapes(name), name)
    return sorted(by_shapes.values())


DATASETS = distinct()
OPENED = [name for name, opened in representative_datasets().items() if opened]
CASES = [
    pytest.param(
        check,
        method,
        dataset,
        id=f"{method}-{dataset}-{check.name}",
        marks=pytest.mark.xdist_group(f"{method}-{dataset}"),  # checks of a pair share trainings
    )
    for method in registry.entries("method")
    for position, dataset in enumerate(DATASETS)
    for check in CHECKS
    if not (check.once and position and not is_variant(method))
    if dataset == EMBEDDED or not is_variant(method)
]


@pytest.fixture(scope="module")
def harnesses():
    """Checks of one method on one dataset share its trainings."""
    return {}


@pytest.mark.parametrize(("check", "method", "dataset"), CASES)
def test_a_method_keeps_the_rules(check, method, dataset, harnesses, tmp_path_factory):
    if (method, dataset) not in harnesses:
        harnesses.clear()  # the cases of a pair stand together, and trained methods are large
        opened = dataset in OPENED or method == BASELINE
        data = Path(os.environ["SDGBENCH_DATA"]) if opened else None
        harnesses[method, dataset] = MethodHarness(
            method, dataset, tmp_path_factory.mktemp("harness"), data
        )
    try:
        check(harnesses[method, dataset])
    except Skipped as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(
    ("method", "case"),
    [
        (method, case)
        for method in registry.entries("method")
        for case in SHORT_CASES
        if case == "transformer" or not is_variant(method)
    ],
)
def test_a_method_works_with_a_transformer_and_with_many_classes(method, case, tmp_path, data):
    dataset, settings = SHORT_CASES[case]
    harness = MethodHarness(method, dataset, tmp_path, data, **settings)
    if case == "transformer" and "stages" in parameters.fields(harness.method_class.Params):
        with pytest.raises(UserError, match="no stages of feature maps") as refused:
            harness.new()
        assert "\n" not in str(refused.value)
        return
    for check in CHECKS:
        if check.name in SHORT_CHECKS:
            check(harness)
