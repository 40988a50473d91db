"""The synthetic twin of a dataset with more classes than a byte holds."""

import pytest
from helpers import RECIPE

from sdgbench import registry
from sdgbench.conformance.synthetic import SyntheticTwin
from sdgbench.spec import parameters
from sdgbench.task import Classification


@pytest.mark.parametrize("classes", [10, 300, 1000])
def test_labels_of_any_number_of_classes(classes):
    real = registry.get("dataset", "digits-mini").load()
    many = type("Many", (real,), {"task": Classification(classes=classes)})
    twin = SyntheticTwin(many, parameters.build(many.Options, {}), RECIPE, count=400)
    labels = twin.source("train").labels
    assert 0 <= labels.min() <= labels.max() < classes
    assert labels.max() >= 0.9 * classes - 1  # not wrapped around at 256
