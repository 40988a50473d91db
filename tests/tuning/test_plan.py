"""What a search tries: declared ranges of every method, settings that stay the same."""

from dataclasses import dataclass

import pytest

from sdgbench import registry
from sdgbench.conformance.outcome import Failed
from sdgbench.conformance.values import check
from sdgbench.errors import UserError
from sdgbench.method import Around, LogUniform, Method, OneOf, Uniform, param
from sdgbench.spec import parameters
from sdgbench.spec.shifts import FAMILIES, usable_for
from sdgbench.tuning.plan import make_plan


def plan(method="gud", dataset="digits-mini", **options):
    usual = {"preset": "smoke", "trials": 4, "seeds": [0], "search_seed": 0, "rule": "source"}
    return make_plan(method, dataset, **{**usual, "given": {}, **options})


def test_the_first_setting_is_the_default_and_more_trials_add_to_the_same():
    four, six = plan(), plan(trials=6)
    assert four.values == six.values[:4]
    assert four.spec(0, 3) == four.base.__class__(**{**vars(four.base), "seed": 3})
    assert four.values[0] == {
        "K": 2,
        "ascent_step": 1 / 32,
        "gamma": 1.0,
        "recipe.lr": 1e-3,
    }
    assert four.id != six.id
    assert four.id == plan().id != plan(search_seed=1).id
    assert plan(seeds=[0, 1]).id != four.id


def test_drawn_values_are_those_of_the_runs():
    made = plan()
    for number in range(1, 4):
        spec = made.spec(number, 0)
        values = made.values[number]
        assert spec.params["K"] == values["K"]
        assert spec.params["gamma"] == values["gamma"]
        assert spec.recipe["lr"] == values["recipe.lr"]
        assert spec.recipe_changes == ("lr",)
        assert spec.tuned == ""
    chosen = made.spec(2, 5, "abc")
    assert chosen.tuned == "abc"
    assert chosen.id != made.spec(2, 5).id
    assert "tuned abc" in chosen.label


def test_ranges_follow_the_dataset():
    assert plan().space["recipe.lr"] == LogUniform(1e-4, 1e-2)
    assert plan(preset="paper").space["recipe.lr"] == LogUniform(1e-5, 1e-3)
    assert plan("advst", "styles-mini", preset="paper").space["rate"] == LogUniform(0.5, 50)
    assert "beta" in plan("mada").space
    assert "beta" not in plan("mada-no-relax").space  # it is 0 by definition


def test_ranges_are_given_fixed_and_added():
    made = plan(given={"gamma": "log:1:2", "gud.T_adv": "int:1:3"}, assignments=[("gud.K", "1")])
    assert made.space["gamma"] == LogUniform(1, 2)
    assert "T_adv" in made.space
    assert "K" not in made.space
    assert all(made.spec(number, 0).params["K"] == 1 for number in range(4))
    assert list(plan("erm", given={"recipe.momentum": "uniform:0:0.9"}).space) == [
        "recipe.lr",
        "recipe.momentum",
    ]


@pytest.mark.parametrize("method", registry.entries("method"))
def test_every_declared_range_gives_runs(method):
    """Each draw of each built-in method is a setting that the method takes."""
    made = plan(method, trials=6)
    for number in range(6):
        made.spec(number, 0)
    assert "recipe.lr" in made.space
    assert method in ("erm",) or len(made.space) > 1


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        (LogUniform(0.1, 10), ("invert",), None),
        ((0.1, 10), (), "Use a range, such as LogUniform"),
        (OneOf("a", "b"), (), "does not fit rate"),
        (Uniform(-1, 1), (), "rate must not be below 0"),
        (Around(10), ("inverted",), 'Did you mean "invert"'),
    ],
)
def test_check_names_ranges_and_families_that_are_wrong(values, named, message):
    class Own(Method):
        families = named

        @dataclass(frozen=True)
        class Params:
            rate: float = param(1.0, "how fast", search=values)

            def __post_init__(self) -> None:
                if self.rate < 0:
                    raise ValueError("rate must not be below 0")

    fields = parameters.fields(Own.Params)
    if not message:
        check(Own, fields)
        return
    with pytest.raises(Failed) as failed:
        check(Own, fields)
    assert message in str(failed.value)


@pytest.mark.parametrize("method", registry.entries("method"))
def test_every_declared_family_exists(method):
    assert set(registry.get("method", method).load().families) <= set(FAMILIES)


@pytest.mark.parametrize("dataset", registry.entries("dataset"))
def test_families_of_datasets(dataset):
    cls = registry.get("dataset", dataset).load()
    assert set(cls.families) <= set(FAMILIES)


def test_no_family_near_a_corruption_serves_where_corruptions_are_tested():
    names, excluded = usable_for(plan("erm", "cifar10c", preset="paper").base)
    assert set(excluded) == {"shading", "occlusion", "stripes", "wave"}
    assert names
    with pytest.raises(UserError, match=r"No family of changes is left.*--rule source"):
        plan("advst", "cifar10c", preset="paper", rule="shifted")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "0 trials leave nothing to choose from"),
        ({"trials": 1}, "Use 2 or more"),
        ({"rule": "target"}, 'No rule "target"'),
        ({"given": {"gama": "log:1:2"}}, 'Did you mean "gamma"'),
        ({"given": {"recipe.steps": "int:1:2"}}, 'No setting of gud to search, called "recipe.st'),
        ({"given": {"gamma": "log:2:1"}}, "is empty"),
        ({"given": {"K": "uniform:1:5"}}, "which does not fit K"),
        ({"given": {"K": "int:1:2"}, "assignments": [("K", "1")]}, "both set and searched"),
        ({"given": {"T_min_epochs": "around:3"}}, "T_min_epochs is 0: no range is around that"),
        ({"assignments": [("gama", "1")]}, 'Did you mean "gamma"'),
        ({"assignments": [("recipe", "published")]}, "Omit recipe=published"),
        ({"preset": "smok"}, 'Did you mean "smoke"'),
        ({"method": "jigen", "dataset": "streets-mini"}, "makes no sense on streets-mini"),
        (
            {"method": "erm", "assignments": [("recipe.lr", "1e-3")]},
            "erm has no setting left to search",
        ),
        ({"given": {"K": "int:-5:-1"}}, "K must be 0 or more"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(options, message):
    with pytest.raises(UserError) as refused:
        plan(**options).specs()
    assert message in str(refused.value)
