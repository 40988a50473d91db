import json
from dataclasses import asdict
from pathlib import Path

import pytest

from sdgbench import registry, spec
from sdgbench.errors import UserError
from sdgbench.verify import as_spec

PLUGIN = '''
from dataclasses import dataclass
from sdgbench.method import Method
from sdgbench.registry import register_method
from sdgbench.settings import param

@register_method("tuned")
class Tuned(Method):
    """Has parameters."""

    @dataclass(frozen=True)
    class Params:
        """Two."""

        K: int = param(3, "how many domains")
        source: float = param(1.0, "clashes with an option of streets-mini")
        weights: tuple[float, ...] = param((1.0,), "several")

    per_dataset = {
        "digits": {"K": 5}, "digits-mini/quick": {"K": 7}, "digits-mini/smoke": {"weights": (2.0,)}
    }

    @classmethod
    def skip(cls, task):
        """Only for classification."""
        return None if task.metric == "accuracy" else "needs whole-image labels"
'''


@pytest.fixture
def tuned(tmp_path):
    (tmp_path / "tuned.py").write_text(PLUGIN)
    registry.add_plugin(tmp_path / "tuned.py")


def test_the_same_question_has_the_same_id():
    first = spec.resolve("erm", "digits-mini", "quick", 0)
    again = spec.resolve("erm", "digits-mini", "quick", 0, [("recipe.lr", "0.0005")])
    assert first == again
    assert first.id == again.id
    assert len(first.id) == 12


@pytest.mark.parametrize("changed", [
    ("erm", "digits-mini", "quick", 1, []), ("erm", "digits-mini", "smoke", 0, []),
    ("erm", "streets-mini", "quick", 0, []),
    ("erm", "digits-mini", "quick", 0, [("recipe.lr", "0.1")]),
    ("erm", "digits-mini", "quick", 0, [], (), "bf16"),
])  # fmt: skip
def test_another_question_has_another_id(changed):
    assert spec.resolve(*changed).id != spec.resolve("erm", "digits-mini", "quick", 0).id


@pytest.mark.parametrize(("preset", "assignments", "changed", "reduced"), [
    ("paper", [], [], {}),
    ("paper", [("K", "7")], ["K"], {}),
    ("paper", [("K", "5")], [], {}),  # typed, but what it is anyway
    ("quick", [], [], {"K": [7, 5]}),
    ("quick", [("K", "5")], ["K"], {}),
    ("smoke", [("weights", "2.0")], [], {"weights": [[2.0], [1.0]]}),
    ("smoke", [("weights", "1.0,3.0")], ["weights"], {}),
])  # fmt: skip
def test_changed_parameters_are_those_that_the_preset_does_not_set(
    preset, assignments, changed, reduced, tuned
):
    asked = spec.resolve("tuned", "digits-mini", preset, 0, assignments)
    assert asked.changed_parameters() == changed
    assert asked.reduced_parameters() == reduced


def test_the_default_precision_leaves_ids_and_labels_as_they_were():
    path = next((Path(__file__).parents[1] / "leaderboards/records").rglob("record.json"))
    made = json.loads(path.read_text())
    assert as_spec(made).id == made["id"]
    assert "float32" not in as_spec(made).label
    half = spec.resolve("erm", "digits-mini", "quick", 0, precision="bf16")
    assert half.label == "erm on digits-mini (quick, seed 0, bf16)"


def test_a_spec_survives_json():
    one = spec.resolve("erm", "streets-mini", "quick", 2, [("source", "fog")])
    loaded = json.loads(json.dumps(asdict(one)))
    tuples = ("recipe_changes", "option_changes", "targets")
    again = spec.RunSpec(**{**loaded, **{name: tuple(loaded[name]) for name in tuples}})
    assert again.id == one.id
    assert again.build_recipe() == one.build_recipe()
    assert again.build_options().source == "fog"
    assert again.build_recipe().image_size == (96, 160)


@pytest.mark.usefixtures("tuned")
def test_defaults_come_from_family_then_preset_then_the_user():
    assert spec.resolve("tuned", "digits-mini", "smoke", 0).params["K"] == 5
    assert spec.resolve("tuned", "digits-mini", "quick", 0).params["K"] == 7
    assert spec.resolve("tuned", "digits-mini", "quick", 0, [("K", "2")]).params["K"] == 2
    assert spec.resolve("tuned", "streets-mini", "quick", 0).params["K"] == 3
    assert spec.resolve("tuned", "digits-mini", "quick", 0, [("tuned.K", "2")]).params["K"] == 2


@pytest.mark.usefixtures("tuned")
def test_a_matrix_multiplies_and_does_not_repeat():
    runs = spec.matrix(["erm", "tuned"], ["digits-mini"], [0, 1], "smoke", (), [("K", ["1", "2"])])
    assert [(run.method, run.seed, run.params.get("K")) for run in runs] == [
        ("erm", 0, None), ("tuned", 0, 1), ("tuned", 0, 2),
        ("erm", 1, None), ("tuned", 1, 1), ("tuned", 1, 2),
    ]  # fmt: skip


@pytest.mark.usefixtures("tuned")
@pytest.mark.parametrize(("key", "message"), [
    ("k", 'No setting "k". Did you mean "K"'),
    ("steps", "belongs to the recipe that all methods share.*--set recipe.steps="),
    ("recipe.step", 'called "step". Did you mean "steps"'),
    ("nobody.K", 'called "nobody"'),
    ("source", "a setting of a method and of a dataset"),
])  # fmt: skip
def test_unknown_and_ambiguous_keys_are_explained(key, message):
    with pytest.raises(UserError, match=message):
        spec.matrix(["tuned"], ["streets-mini"], [0], "smoke", [(key, "1")])


@pytest.mark.usefixtures("tuned")
def test_a_method_may_skip_a_task():
    assert spec.resolve("tuned", "streets-mini", "smoke", 0).skipped() == "needs whole-image labels"
    assert spec.resolve("tuned", "digits-mini", "smoke", 0).skipped() is None


def test_shortening_the_paper_is_reduced_scale():
    paper = spec.resolve("erm", "digits-mini", "paper", 0)
    assert paper.recipe["reduced"] == ""
    short = spec.resolve("erm", "digits-mini", "paper", 0, [("recipe.steps", "10")])
    assert short.recipe["reduced"] == "steps=10"
    assert short.recipe_changes == ("steps",)
    other = spec.resolve("erm", "digits-mini", "paper", 0, [("recipe.lr", "0.1")])
    assert (other.recipe["reduced"], other.recipe_changes) == ("", ("lr",))


@pytest.mark.parametrize(("key", "value"), [
    ("recipe.batch", "0"), ("recipe.lr", "-1"), ("recipe.epochs", "3"), ("recipe.test_images", "0"),
])  # fmt: skip
def test_impossible_recipes_are_refused(key, value):
    with pytest.raises(UserError, match="recipe"):
        spec.resolve("erm", "digits-mini", "quick", 0, [(key, value)])
