"""The contributor's path: new, check, and a package of one's own."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

from sdgbench import conformance, registry
from sdgbench.conformance import (
    CHECKS,
    Failed,
    MethodHarness,
    difference,
    embedded_datasets,
    estimate,
    representative_datasets,
    skipped_datasets,
    weights,
)
from sdgbench.conformance.harness import stopping_points
from sdgbench.conformance.outcome import Skipped
from sdgbench.method import Phase

QUICKLY = ("--dataset", "digits-mini")


def failures(text):
    return re.findall(r"^FAILED +(\w+)", text, re.M)


def _named(name):
    return next(check for check in CHECKS if check.name == name)


def flat(text):
    return " ".join(text.split())


# new ---------------------------------------------------------------------------------------


def test_a_new_method_runs_and_passes_the_check(cli, tmp_path):
    done = cli("new", "method", "my-idea")
    assert done.code == 0
    assert "Wrote my_idea.py" in done.out
    commands = re.findall(r"^  sdgbench (.+)", done.out, re.M)
    assert commands[0] == "check my_idea.py"
    assert commands[1].endswith("--plugin my_idea.py")
    checked = cli(*commands[0].split(), *QUICKLY)
    assert checked.code == 0, checked.out
    assert re.findall(r"^ok +(\w+)", checked.out, re.M) == [check.name for check in CHECKS]
    assert "All checks passed in" in checked.out
    assert max(map(len, checked.out.splitlines())) <= 80
    for command in commands[1:]:
        assert cli(*command.split()).code == 0


def test_a_new_method_can_be_reduced_to_erm(cli, tmp_path):
    assert cli("new", "method", "my-idea").code == 0
    registry.add_plugin(tmp_path / "my_idea.py")
    trained = {
        name: weights(MethodHarness(name, "digits-mini", tmp_path / name, **settings).uninterrupted)
        for name, settings in (("erm", {}), ("my-idea", {"noise": "0"}))
    }
    assert difference(trained["erm"], trained["my-idea"]) is None


@pytest.mark.parametrize("name", ["my-idea", "none", "tensor", "3d.mix", "A_b-c"])
def test_a_new_file_keeps_the_style_of_the_repository(name, cli, tmp_path):
    assert cli("new", "method", name, "--output", "idea.py").code == 0
    for arguments in (("format", "--check"), ("check",)):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "ruff",
                *arguments,
                "--config",
                ROOT / "pyproject.toml",
                "--no-cache",
                "idea.py",
            ],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    registry.add_plugin(tmp_path / "idea.py")
    assert registry.get("method", name).load().name == name


def test_in_a_checkout_it_is_written_into_methods(cli, tmp_path):
    for file in ("methods/erm.py", "sdgbench/method.py"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).touch()
    done = cli("new", "method", "my-idea")
    assert "Wrote methods/my_idea.py" in done.out
    assert (tmp_path / "methods/my_idea.py").exists()
    assert "--plugin methods/my_idea.py" in done.out  # it is not the checkout that runs here


def test_the_running_checkout_needs_no_plugin_option():
    from sdgbench.cli import new

    assert new._is_built_in("methods", ROOT / "methods" / "my_idea.py")


def test_new_never_overwrites(cli, tmp_path):
    (tmp_path / "my_idea.py").write_text("precious")
    done = cli("new", "method", "my-idea")
    assert (done.code, done.out) == (2, "")
    assert "my_idea.py exists and is not overwritten" in done.err
    assert (tmp_path / "my_idea.py").read_text() == "precious"


REFUSED = {
    "a path": (("../evil",), '"../evil" cannot be a name'),
    "a blank": (("a b",), '"a b" cannot be a name'),
    "reserved": (("recipe",), '"recipe" cannot be a name'),
    "a method's": (("erm",), r'"erm" is taken by the method in .*erm\.py \(built-in\)'),
    "a dataset's": (("digits-mini",), '"digits-mini" is taken by the dataset in .*digits_mini'),
    "not Python": (("mine", "--output", "mine.txt"), "mine.txt does not end in .py"),
    "no folder": (("mine", "--output", "gone/mine.py"), "Cannot write gone/mine.py"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_new_refuses_in_one_line(arguments, message, cli, tmp_path):
    done = cli("new", "method", *arguments)
    assert (done.code, done.out) == (2, "")
    assert re.search(message, done.err), done.err
    assert done.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_new_imports_no_torch(python, tmp_path):
    code = (
        "import sys; from sdgbench.cli.app import main\n"
        "try: main(['new', 'method', 'my-idea'])\nexcept SystemExit: pass\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    done = python("-c", code, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "False False", done.stderr


# check -------------------------------------------------------------------------------------

SOUND = '''
import threading
from dataclasses import dataclass

import torch

from sdgbench import registry
from sdgbench.method import Method, Phase, param
from sdgbench.registry import register_method


@register_method("mine")
class Mine(Method):
    """Plain training."""

    @dataclass(frozen=True)
    class Params:
        """One parameter."""

        weight: float = param(1.0, "weight of the loss")

    def setup(self):
        self.seen = 0

    def train_step(self, x, y):
        return self.optimise(self.params.weight * self.task.loss(self.network(x), y))

    def predict(self, x):
        return self.network(x)
'''

# What to replace in the sound method, by what, which check must find it, and what it must say.
FAULTS = {
    "an import that fails": (
        "import threading",
        "import threading_of_tomorrow",
        "load",
        "raised ModuleNotFoundError: No module named 'threading_of_tomorrow' mine.py:2",
    ),
    "no docstring": (
        '"""Plain training."""',
        "",
        "documentation",
        "Mine has no docstring. Write one sentence that says what",
    ),
    "an undocumented parameter": (
        '"weight of the loss"',
        '""',
        "documentation",
        "The parameter weight is not documented. Declare it with a line",
    ),
    "parameters that can be changed": (
        "@dataclass(frozen=True)",
        "@dataclass",
        "values",
        "Mine.Params is not a frozen dataclass. Write @dataclass(frozen=True)",
    ),
    "a default of another type": (
        "param(1.0,",
        'param("1.0",',
        "values",
        "The default of weight is '1.0', but the parameter takes: number.",
    ),
    "no default": (
        'float = param(1.0, "weight of the loss")',
        "float",
        "values",
        "The parameter weight has no default.",
    ),
    "a value for an unknown dataset": (
        "    def setup",
        '    per_dataset = {"digts": {"weight": 2.0}}\n    def setup',
        "values",
        'No dataset or family "digts". Did you mean "digits"?',
    ),
    "a value for an unknown parameter": (
        "    def setup",
        '    per_dataset = {"digits/quick": {"wight": 2.0}}\n    def setup',
        "values",
        'No parameter "wight". Did you mean "weight"?',
    ),
    "a setup that raises": (
        "self.seen = 0",
        "self.seen = 1 / 0",
        "setup",
        "The method raised ZeroDivisionError: division by zero mine.py:23 in setup "
        "self.seen = 1 / 0",
    ),
    "a phase without a step": (
        "    def setup",
        '    def plan(self):\n        return [Phase("warm", 2), Phase("train", 3)]\n    def setup',
        "plan",
        'The plan has a phase "warm", but there is no warm_step.',
    ),
    "a plan that changes": (
        "    def setup",
        '    def plan(self):\n        type(self).n = getattr(self, "n", 0) + 1\n'
        '        return [Phase("train", self.n)]\n    def setup',
        "plan",
        "plan() returned another plan when it was called again.",
    ),
    "no train phase": (
        "    def train_step",
        '    def plan(self):\n        return [Phase("fit", 2)]\n    def fit_step',
        "plan",
        'The plan has no phase called "train" with a step in it.',
    ),
    "an attribute that cannot be saved": (
        "self.seen = 0",
        "self.seen = threading.Lock()",
        "save",
        "Mine.seen is a lock, which cannot be saved with the run.",
    ),
    "one that is made in training": (
        "        return self.optimise",
        "        self.late = {1, 2}\n        return self.optimise",
        "save",
        "Mine.late is a set, which cannot be saved with the run.",
    ),
    "a step that raises": (
        "        return self.optimise",
        "        y = y[None]\n        return self.optimise",
        "learn",
        "mine.py:27 in train_step return self.optimise(",
    ),
    "a loss that is no number": (
        "self.params.weight *",
        "float('nan') *",
        "learn",
        "the loss became nan at train step 1.",
    ),
    "no loss": (
        "        return self.optimise",
        "        self.optimise",
        "learn",
        "train_step returned no loss, so the curve would be empty.",
    ),
    "no learning": (
        "return self.optimise(",
        "return (",
        "learn",
        "No weight changed in training.",
    ),
    "state that outlives the run": (
        "        return self.optimise",
        "        type(self).n = getattr(self, 'n', 0) + 1\n        x = x + 0.1 * self.n\n"
        "        return self.optimise",
        "repeat",
        "Two trainings with the same seed ended differently, first in network.",
    ),
    "a counter that is not saved": (
        "        return self.optimise",
        "        self._n = getattr(self, '_n', 0) + 1\n        x = x + 0.1 * self._n\n"
        "        return self.optimise",
        "resume",
        "After 3 stops the training ended with other weights, first in network.",
    ),
    "a prediction that leans on what is not saved": (
        "        return self.network(x)",
        "        return self.network(x) * getattr(self, '_n', 1)\n\n"
        "    def begin(self, phase):\n        self._n = 2",
        "restart",
        "With the same weights, predict returns other logits after a restart.",
    ),
    "a way to the targets": (
        "self.seen = 0",
        'self._data = registry.get("dataset", "digits-mini").load()',
        "targets",
        "self._data is a dataset.",
    ),
    "logits of another shape": (
        "return self.network(x)",
        "return self.network(x)[:, :-1]",
        "predict",
        "predict returned (6, 9) for 6 images. Return a tensor of (6, 10)",
    ),
    "a prediction that needs gradients": (
        "        return self.network(x)",
        "        self.network(x).sum().backward()\n        return self.network(x)",
        "predict",
        "mine.py:29 in predict self.network(x).sum().backward()",
    ),
    "statistics of the batch": (
        "return self.network(x)",
        "return self.network(x - x.mean())",
        "independence",
        "Predicted one by one, the same images get other logits",
    ),
    "a random prediction": (
        "return self.network(x)",
        "return self.network(x + torch.rand_like(x))",
        "independence",
        "other logits for the same images when it was called again.",
    ),
    "a prediction that counts": (
        "        return self.network(x)",
        "        self.seen += len(x)\n        return self.network(x)",
        "purity",
        "predict changed self.seen. Update in the training steps only",
    ),
    "a network that is hidden": (
        "        return self.network(x)",
        "        return self._hidden(x)\n\n    @property\n    def _hidden(self):\n"
        "        if not hasattr(self, '_copy'):\n            import copy\n"
        "            self._copy = copy.deepcopy(self.network).eval()\n        return self._copy",
        "swap",
        "With the weights from before the training, predict returns the same logits",
    ),
    "a module that is not counted": (
        "self.seen = 0",
        "self.scale = torch.nn.Linear(1, 1)\n\n    def predict(self, x):\n"
        "        return self.network(x) * self.scale.weight\n\n    def old",
        "size",
        "predict uses modules that inference_modules() does not list.",
    ),
    "no module counted": (
        "    def setup",
        "    def inference_modules(self):\n        return []\n    def setup",
        "size",
        "inference_modules() lists no module with weights.",
    ),
}


@pytest.fixture
def check(cli, tmp_path):
    """Check a file of this text, and forget it."""

    def run(text, *arguments):
        (tmp_path / "mine.py").write_text(text)
        return cli("check", "mine.py", *(arguments or QUICKLY))

    return run


def test_the_sound_method_passes(check):
    done = check(SOUND)
    assert (done.code, failures(done.out)) == (0, [])


@pytest.mark.parametrize(("old", "new", "finder", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_each_fault_is_found_by_its_check(old, new, finder, message, check, monkeypatch):
    monkeypatch.setattr(sys.modules["sdgbench.conformance.checks"], "execute", _no_real_run)
    assert old in SOUND
    replaced = SOUND.replace(old, new, 1)
    if "def old" in new:  # the part after it is a second predict, which must go
        replaced = replaced[: replaced.rindex("    def predict")].replace("    def old\n", "")
    done = check(replaced)
    assert done.code == 1
    assert failures(done.out) == [finder], done.out
    assert message in flat(done.out), done.out
    assert "1 of " in done.out
    assert "checks failed" in done.out


def _no_real_run(*_):
    raise Skipped("The real run is tried on the sound method.")


def test_what_depends_on_a_failed_check_is_not_checked(check):
    done = check(SOUND.replace("return self.optimise", "raise RuntimeError('oh'); self.optimise"))
    assert failures(done.out) == ["learn"]
    assert "The method raised RuntimeError: oh" in done.out
    # The reason is the failure at the root, not the check in between.
    skipped = re.findall(
        r'^skipped +(\w+) +It was not checked, because "learn" failed', done.out, re.M
    )
    assert skipped == [check.name for check in CHECKS[CHECKS.index(_named("learn")) + 1 :]]


def test_a_dataset_that_is_left_out_is_skipped_with_its_reason(check):
    text = SOUND.replace('"mine"', '"mine", skips={"classification": "it needs pixels"}')
    done = check(text)
    assert done.code == 0
    assert re.search(
        r"^skipped +learn +The method skips this dataset: it needs pixels\.$", done.out, re.M
    )


def test_a_failing_real_run_is_a_failed_check(check):
    done = check(SOUND.replace("self.seen = 0", "assert self.recipe.steps != 20"))
    assert failures(done.out) == ["run"]
    assert "in setup assert self.recipe.steps != 20" in flat(done.out)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_dataset_whose_process_dies_does_not_stop_the_others(check):
    dying = "import os; os._exit(3) if 'wrn' in self.recipe.network else self.seen"
    done = check(
        SOUND.replace("self.seen = 0", f"self.seen = 0; {dying}"),
        "--dataset",
        "digits-mini,shapes10c",
    )
    assert (done.code, failures(done.out)) == (1, ["setup"])
    assert "On shapes10c: The process of this check died (exit code 3)." in flat(done.out)
    assert 'On shapes10c: It was not checked, because "setup" failed.' in flat(done.out)
    assert re.search(r"^ok +run ", done.out, re.M)  # on the other one


BAD = {
    "a typo": (("emr",), 'No method or dataset "emr". Did you mean "erm"?'),
    "no file": (("gone.py",), "There is no file gone.py. To write one: sdgbench new method"),
    "not Python": (("broken.py",), r"broken\.py:1 is not valid Python"),
    "no method": (("empty.py",), r"empty\.py registers no method"),
    "a taken name": (("taken.py",), '"erm" is taken twice'),
    "a dataset": (("erm", "--dataset", "digts"), 'Did you mean "digits"'),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD.keys())
def test_check_refuses_bad_input_in_one_line(arguments, message, cli, tmp_path):
    (tmp_path / "broken.py").write_text("def broken(:\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "taken.py").write_text(SOUND.replace('"mine"', '"erm"'))
    done = cli("check", *arguments)
    assert (done.code, done.out) == (2, "")
    assert re.search(message, done.err), done.err
    assert done.err.count("\n") == 1


def test_a_built_in_file_is_checked_as_what_it_is():
    from sdgbench.cli import check

    assert check._registered(str(ROOT / "methods" / "erm.py")) == (["erm"], [])
    assert check._registered("erm") == (["erm"], [])
    assert check._registered("digits-mini") == ([], ["digits-mini"])


def test_the_embedded_datasets_are_found_by_their_kind():
    found = embedded_datasets()
    assert {"digits-mini", "shapes10c", "streets-mini", "styles-mini"} <= set(found)
    assert "cifar10c" not in found


def test_by_default_one_dataset_of_each_task_and_shape_is_checked():
    chosen = representative_datasets()
    # styles-mini has the network and the image size of shapes10c.
    assert chosen == {"digits-mini": True, "shapes10c": False, "streets-mini": True}
    assert skipped_datasets("erm", list(chosen)) == {}
    assert list(skipped_datasets("jigen", list(chosen))) == ["streets-mini"]


def test_a_dataset_that_is_not_opened_is_checked_by_its_twin(tmp_path):
    harness = MethodHarness("erm", "styles-mini", tmp_path, None)
    _named("learn")(harness)
    for name in ("data", "run"):
        with pytest.raises(Skipped, match="Only the synthetic twin"):
            _named(name)(harness)


def test_naming_datasets_and_all_of_them_is_refused(cli):
    done = cli("check", "erm", "--dataset", "digits-mini", "--all-datasets")
    assert (done.code, done.out) == (2, "")
    assert "Use --dataset or --all-datasets, not both." in done.err


def test_what_a_method_skips_is_left_out_with_its_reason(check, monkeypatch):
    both = {"digits-mini": True, "streets-mini": True}
    monkeypatch.setattr(conformance, "representative_datasets", lambda: both)
    monkeypatch.setattr(conformance, "check_all", lambda *_: iter([]))
    text = SOUND.replace('"mine"', '"mine", skips={"segmentation": "it needs one label"}')
    done = check(text, "--data", "data")
    assert "Not on streets-mini: it needs one label." in flat(done.out)
    named = check(text, "--dataset", "streets-mini")
    assert "Not on" not in named.out


def test_every_check_says_its_rule_in_a_sentence():
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    for position, check in enumerate(CHECKS):
        assert re.fullmatch(r"[a-zA-Z].+\.", check.rule)
        assert set(check.needs) <= set(names[:position])


def test_runs_are_stopped_at_both_ends_and_in_the_middle_of_phases():
    plan = [
        Phase("train", 0),
        Phase("make", 1),
        Phase("train", 7),
        Phase("train", 2),
        Phase("train", 5),
        Phase("train", 3),
    ]
    assert stopping_points(plan) == {1, 2, 13, 18}


def test_a_check_can_be_called_on_its_own(tmp_path):
    harness = MethodHarness("erm", "digits-mini", tmp_path)
    _named("learn")(harness)
    harness.uninterrupted.network.requires_grad_(False)
    harness.uninterrupted.network.load_state_dict(harness.new().network.state_dict())
    with pytest.raises(Failed, match="No weight changed in training"):
        _named("learn")(harness)


# A package of one's own --------------------------------------------------------------------


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The example, installed away from the environment; its sources are left clean."""
    folder = tmp_path_factory.mktemp("package")
    sources = shutil.copytree(
        ROOT / "examples" / "sdgbench-mixup",
        folder / "sources",
        ignore=shutil.ignore_patterns("build", "*.egg-info"),
    )
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--no-build-isolation",
            "--target",
            folder / "site",
            sources,
        ],
        check=True,
    )
    return folder


@pytest.fixture
def installed(package, python, tmp_path):
    def run(*arguments):
        paths = [str(package / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        return python("-m", *arguments, env=environment, cwd=tmp_path)

    return run


def test_the_example_package_is_found_by_its_entry_point(installed):
    done = installed("sdgbench", "list")
    assert re.search(r"mixup .*", done.stdout), done.stderr
    assert "package sdgbench-mixup" in done.stdout


def test_the_example_package_passes_the_check(installed):
    done = installed("sdgbench", "check", "mixup", *QUICKLY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All checks passed" in done.stdout


def test_the_example_package_passes_its_own_tests(installed, package):
    done = installed("pytest", "-q", "-p", "no:cacheprovider", package / "sources" / "tests")
    assert done.returncode == 0, done.stdout + done.stderr


# How long it will take ---------------------------------------------------------------------


def test_the_time_of_the_checks_follows_from_the_plans(tmp_path, monkeypatch):
    monkeypatch.setattr(estimate, "_seconds_per_image", lambda _: 0.5)
    monkeypatch.setattr(estimate.time, "process_time", lambda: 7.0)  # and creating takes no time
    twin = MethodHarness("erm", "digits-mini", tmp_path / "twin", None)
    # Two trainings of 6 steps of 4.
    assert estimate.expected_seconds(twin) == pytest.approx(7 + 0.5 * 2 * 6 * 4)
    opened = MethodHarness("erm", "digits-mini", tmp_path / "opened", tmp_path)
    # A real run of 20 steps of 32; four targets of 64 images; nothing is rendered yet.
    run = estimate.RUN_SECONDS + 4 * 2 * estimate.TARGET_SECONDS + estimate.RENDER_SECONDS
    run += 0.5 * (20 * 32 + 4 * 64 / 3)
    expected = estimate.expected_seconds(twin) + run
    assert estimate.expected_seconds(opened) == pytest.approx(expected)
    (tmp_path / "digits-mini").mkdir()
    expected -= estimate.RENDER_SECONDS
    assert estimate.expected_seconds(opened) == pytest.approx(expected)


def test_the_time_of_all_datasets_depends_on_the_cores(monkeypatch):
    monkeypatch.setattr(estimate, "available_cpus", lambda: 2)
    assert estimate.total_seconds([10.0, 20.0, 30.0]) == 30
    assert estimate.total_seconds([10.0, 10.0, 10.0, 12.0]) == 21
    assert estimate.total_seconds([10.0, None]) is None


def test_it_is_said_before_the_first_check(check):
    assert re.match(r"mine on digits-mini: about \d+ s\nok +load", check(SOUND).out)


def test_a_method_that_cannot_be_created_has_no_estimate(check):
    broken = check(SOUND.replace("self.seen = 0", "self.seen = 1 / 0"))
    assert broken.out.startswith("mine on digits-mini\n")
