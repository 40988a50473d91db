import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sdgbench import registry
from sdgbench.errors import UserError
from sdgbench.records.reading import read
from sdgbench.spec import resolution, run_spec
from sdgbench.spec.labels import run_labels
from sdgbench.spec.run_spec import label_runs, label_runs_briefly

PLUGIN = '''
from dataclasses import dataclass
from sdgbench.method import Method, param
from sdgbench.registry import register_method

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
    first = resolution.resolve("erm", "digits-mini", "quick", 0)
    again = resolution.resolve("erm", "digits-mini", "quick", 0, [("recipe.lr", "0.0005")])
    assert first == again
    assert first.id == again.id
    assert len(first.id) == 12


@pytest.mark.parametrize(
    "changed",
    [
        ("erm", "digits-mini", "quick", 1, []),
        ("erm", "digits-mini", "smoke", 0, []),
        ("erm", "streets-mini", "quick", 0, []),
        ("erm", "digits-mini", "quick", 0, [("recipe.lr", "0.1")]),
        ("erm", "digits-mini", "quick", 0, [], (), "bf16"),
    ],
)
def test_another_question_has_another_id(changed):
    assert (
        resolution.resolve(*changed).id != resolution.resolve("erm", "digits-mini", "quick", 0).id
    )


@pytest.mark.parametrize(
    ("preset", "assignments", "changed", "reduced"),
    [
        ("paper", [], [], {}),
        ("paper", [("K", "7")], ["K"], {}),
        ("paper", [("K", "5")], [], {}),  # typed, but what it is anyway
        ("quick", [], [], {"K": (7, 5)}),
        ("quick", [("K", "5")], ["K"], {}),
        ("smoke", [("weights", "2.0")], [], {"weights": ([2.0], [1.0])}),
        ("smoke", [("weights", "1.0,3.0")], ["weights"], {}),
    ],
)
def test_changed_parameters_are_those_that_the_preset_does_not_set(
    preset, assignments, changed, reduced, tuned
):
    asked = resolution.resolve("tuned", "digits-mini", preset, 0, assignments)
    assert asked.changed_parameters() == changed
    assert asked.reduced_parameters() == reduced


def test_a_label_names_what_was_set_by_hand():
    asked = [("beta", "10"), ("recipe.lr", "0.01")]
    spec = resolution.resolve("mada", "digits-mini", "quick", 0, asked)
    assert spec.label == "mada on digits-mini (quick, seed 0, beta=10, recipe.lr=0.01)"
    assert (
        resolution.resolve("mada", "digits-mini", "quick", 0).label
        == "mada on digits-mini (quick, seed 0)"
    )
    unknown = replace(spec, method="elsewhere", params={"k": 1})
    assert unknown.label == "elsewhere on digits-mini (quick, seed 0, recipe.lr=0.01)"


def test_runs_of_a_grid_are_told_apart_by_what_differs():
    """Also the one that has the default, whose label alone names no setting."""
    grid = [("beta", ["1", "2"]), ("recipe.lr", ["0.001", "0.01"])]
    specs = resolution.matrix(["mada"], ["digits-mini"], [0], "quick", grid=grid)
    assert label_runs(specs) == [
        f"mada on digits-mini (quick, seed 0, beta={beta}, recipe.lr={lr})"
        for beta in ("1", "2")
        for lr in ("0.001", "0.01")
    ]
    assert label_runs_briefly(specs)[1] == "mada beta=1 recipe.lr=0.01"
    saved = json.loads(json.dumps([asdict(spec) for spec in specs]))  # tuples become lists
    assert run_labels(saved, [["beta"]] * 4) == label_runs(specs)


def test_brief_labels_name_what_differs_and_always_the_method():
    specs = resolution.matrix(["erm", "gud"], ["digits-mini"], [0, 1], "quick")
    brief = ["erm seed 0", "gud seed 0", "erm seed 1", "gud seed 1"]
    assert label_runs_briefly(specs) == brief
    assert label_runs_briefly(specs[:1]) == ["erm digits-mini quick seed 0"]
    subset = resolution.resolve("erm", "digits-mini", "quick", 0, targets=["scan"])
    half = resolution.resolve("erm", "digits-mini", "quick", 0, precision="bf16")
    assert label_runs_briefly([specs[0], subset, half]) == [
        "erm float32 targets=all",
        "erm float32 targets=scan",
        "erm bf16 targets=all",
    ]


def test_the_default_precision_leaves_ids_and_labels_as_they_were():
    path = next((Path(__file__).parents[2] / "leaderboards/records").rglob("record.json"))
    record = read(path)
    assert record.spec.id == record.id
    assert "float32" not in record.spec.label
    half = resolution.resolve("erm", "digits-mini", "quick", 0, precision="bf16")
    assert half.label == "erm on digits-mini (quick, seed 0, bf16)"


def test_a_spec_survives_json():
    one = resolution.resolve("erm", "streets-mini", "quick", 2, [("source", "fog")])
    loaded = json.loads(json.dumps(asdict(one)))
    tuples = ("recipe_changes", "option_changes", "targets")
    again = run_spec.RunSpec(**{**loaded, **{name: tuple(loaded[name]) for name in tuples}})
    assert again.id == one.id
    assert again.build_recipe() == one.build_recipe()
    assert again.build_options().source == "fog"
    assert again.build_recipe().image_size == (96, 160)


@pytest.mark.usefixtures("tuned")
def test_defaults_come_from_family_then_preset_then_the_user():
    assert resolution.resolve("tuned", "digits-mini", "smoke", 0).params["K"] == 5
    assert resolution.resolve("tuned", "digits-mini", "quick", 0).params["K"] == 7
    assert resolution.resolve("tuned", "digits-mini", "quick", 0, [("K", "2")]).params["K"] == 2
    assert resolution.resolve("tuned", "streets-mini", "quick", 0).params["K"] == 3
    assert (
        resolution.resolve("tuned", "digits-mini", "quick", 0, [("tuned.K", "2")]).params["K"] == 2
    )


@pytest.mark.usefixtures("tuned")
def test_a_matrix_multiplies_and_does_not_repeat():
    runs = resolution.matrix(
        ["erm", "tuned"], ["digits-mini"], [0, 1], "smoke", (), [("K", ["1", "2"])]
    )
    assert [(run.method, run.seed, run.params.get("K")) for run in runs] == [
        ("erm", 0, None),
        ("tuned", 0, 1),
        ("tuned", 0, 2),
        ("erm", 1, None),
        ("tuned", 1, 1),
        ("tuned", 1, 2),
    ]


@pytest.mark.usefixtures("tuned")
@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("k", 'No setting "k". Did you mean "K"'),
        ("steps", "belongs to the recipe that all methods share.*--set recipe.steps="),
        ("recipe.step", 'called "step". Did you mean "steps"'),
        ("nobody.K", 'called "nobody"'),
        ("source", "a setting of a method and of a dataset"),
    ],
)
def test_unknown_and_ambiguous_keys_are_explained(key, message):
    with pytest.raises(UserError, match=message):
        resolution.matrix(["tuned"], ["streets-mini"], [0], "smoke", [(key, "1")])


@pytest.mark.usefixtures("tuned")
def test_a_method_may_skip_a_task():
    assert (
        resolution.resolve("tuned", "streets-mini", "smoke", 0).skipped()
        == "needs whole-image labels"
    )
    assert resolution.resolve("tuned", "digits-mini", "smoke", 0).skipped() is None


def test_shortening_the_paper_is_reduced_scale():
    paper = resolution.resolve("erm", "digits-mini", "paper", 0)
    assert paper.recipe["reduced"] == ""
    short = resolution.resolve("erm", "digits-mini", "paper", 0, [("recipe.steps", "10")])
    assert short.recipe["reduced"] == "steps=10"
    assert short.recipe_changes == ("steps",)
    other = resolution.resolve("erm", "digits-mini", "paper", 0, [("recipe.lr", "0.1")])
    assert (other.recipe["reduced"], other.recipe_changes) == ("", ("lr",))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("recipe.batch", "0"),
        ("recipe.lr", "-1"),
        ("recipe.epochs", "3"),
        ("recipe.test_images", "0"),
    ],
)
def test_impossible_recipes_are_refused(key, value):
    with pytest.raises(UserError, match="recipe"):
        resolution.resolve("erm", "digits-mini", "quick", 0, [(key, value)])


def test_pretrained_weights_need_a_network_that_has_some():
    asked = [("recipe.pretrained", "true")]
    with pytest.raises(UserError, match="no pretrained weights of convnet-16.*pretrained=false"):
        resolution.resolve("erm", "digits-mini", "quick", 0, asked)
    network = ("recipe.network", "fcn32-resnet18")
    spec = resolution.resolve("erm", "streets-mini", "quick", 0, [*asked, network])
    assert spec.recipe["pretrained"] is True


# Parameters on a dataset that a method does not know -------------------------------------------


def test_what_depends_on_image_size_is_scaled_where_nothing_is_published():
    params = resolution.resolve("mada", "styles-mini", "paper", 0).params
    assert params["ascent_step"] == pytest.approx(4 / 32)  # four times the pixels of 32 x 32
    assert (params["wae"], params["wae_loss"], params["ascent_batch"]) == ("cifar", "squares", 16)
    large = [("recipe.image_size", "224,224"), ("T_adv", "3")]
    params = resolution.resolve("mada", "styles-mini", "paper", 0, large).params
    assert params["ascent_step"] == pytest.approx(49 / 32)
    assert (params["wae"], params["T_adv"], params["ascent_batch"]) == ("synthia", 3, 8)
    odd = [("recipe.image_size", "99,99")]
    assert resolution.resolve("mada", "styles-mini", "paper", 0, odd).params["wae"] == "digits"


def test_a_parameter_that_the_rule_gives_is_not_a_change():
    size = [("recipe.image_size", "128,128")]
    spec = resolution.resolve("gud", "styles-mini", "smoke", 0, size)
    assert spec.params["ascent_step"] == pytest.approx(0.5)
    assert spec.changed_parameters() == []
    assert "ascent_step" not in spec.command


def test_published_values_are_not_scaled():
    for dataset, step in (("digits", 1 / 32), ("cifar10c", 5 / 128), ("synthia", 4.0)):
        assert resolution.resolve("mada", dataset, "paper", 0).params["ascent_step"] == step


def test_info_shows_where_each_parameter_comes_from(cli):
    done = cli("info", "mada", "--dataset", "styles-mini")
    lines = {line.split()[0]: line for line in done.out.splitlines() if line.split()}
    assert "rule for 64 x 64" in lines["ascent_step"]
    assert "default" in lines["T_adv"]
    assert "V is that of Digits" in done.out
    assert "The ascent step is that of 32 x 32" in done.out
    done = cli("info", "mada", "--dataset", "shapes10c", "--preset", "quick")
    lines = {line.split()[0]: line for line in done.out.splitlines() if line.split()}
    assert lines["T_min_epochs"].rstrip().endswith("cifar10c/quick")
    assert lines["ascent_step"].rstrip().endswith("cifar10c")
    assert "The rules" not in done.out + cli("info", "erm", "--dataset", "styles-mini").out
    assert cli("info", "digits-mini", "--dataset", "shapes10c").code == 2
    assert cli("info", "mada", "--dataset", "styles-mini", "--preset", "papr").code == 2


def test_info_describes_a_network(cli):
    done = cli("info", "wrn-16-4")
    assert (done.code, "Parameters: 2,748,890" in done.out) == (0, True)
    done = cli("info", "timm:test_resnet")
    assert "timm/test_resnet.r160_in1k" in done.out
    assert "model.layer1" in done.out
    assert cli("info", "timm").code == 0
    assert cli("info", "timm:test_resnt").code == 2
