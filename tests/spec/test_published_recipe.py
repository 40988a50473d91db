"""``--set recipe=published``: the recipe of a method's own paper, as another protocol."""

import pytest

from sdgbench.errors import UserError
from sdgbench.spec.resolution import matrix, resolve

OWN = [("recipe", "published")]


def test_a_published_recipe_replaces_the_shared_one_and_is_not_reduced():
    spec = resolve("pro-randconv", "digits", "paper", 0, OWN)
    recipe = spec.recipe
    assert (recipe["optimiser"], recipe["lr"], recipe["momentum"]) == ("sgd", 0.01, 0.9)
    assert (recipe["schedule"], recipe["batch"], recipe["epochs"]) == ("cosine", 64, 500)
    assert recipe["steps"] == 0
    assert not recipe["reduced"]
    assert {"optimiser", "lr", "epochs"} <= set(spec.recipe_changes)
    assert spec.id != resolve("pro-randconv", "digits", "paper", 0).id


def test_settings_by_hand_come_after_it_and_are_shown():
    spec = resolve("pro-randconv", "digits", "paper", 0, [*OWN, ("recipe.epochs", "50")])
    assert spec.recipe["epochs"] == 50
    assert spec.recipe["batch"] == 64
    assert spec.recipe["reduced"] == "epochs=50"


def test_both_recipes_are_a_grid():
    grid = [("recipe", ["shared", "published"])]
    specs = matrix(["erm", "pro-randconv"], ["digits"], [0], "paper", grid=grid)
    found = [(spec.method, spec.recipe["batch"]) for spec in specs]
    assert found == [("erm", 32), ("pro-randconv", 32), ("pro-randconv", 64)]


@pytest.mark.parametrize(
    ("methods", "preset", "value", "message"),
    [
        (["erm"], "paper", "published", "no published recipe"),
        (["pro-randconv"], "quick", "published", "Add --preset paper"),
        (["pro-randconv"], "paper", "publsihed", 'Did you mean "published"'),
    ],
)
def test_what_makes_no_sense_is_refused(methods, preset, value, message):
    with pytest.raises(UserError, match=message):
        matrix(methods, ["digits"], [0], preset, [("recipe", value)])
