"""What Python callers get: the same runs, tables and models as the command line."""

import json

import numpy as np
import pytest
import sample_records
import torch

import sdgbench
from sdgbench.errors import UserError

METHODS = ("erm", "gud-ensemble", "jigen")


def run_folder(finished, method="erm"):
    (folder,) = (finished / "runs" / "digits-mini" / method).iterdir()
    return folder


def test_importing_it_loads_neither_torch_nor_pandas(python):
    code = (
        "import sys, sdgbench; sdgbench.list_methods(), sdgbench.list_datasets(); "
        "print([name for name in ('torch', 'pandas', 'numpy') if name in sys.modules], "
        "set(sdgbench.__all__) <= set(dir(sdgbench)))"
    )
    assert python("-c", code).stdout.split("\n")[0] == "[] True"


def test_every_exported_name_is_there_and_no_other():
    for name in sdgbench.__all__:
        assert getattr(sdgbench, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'gone'"):
        _ = sdgbench.gone
    assert sdgbench.__version__.count(".") == 2


@pytest.mark.parametrize("method", METHODS)
def test_a_loaded_model_predicts_what_evaluation_stored(finished, method):
    run = sdgbench.load_run(run_folder(finished, method))
    dataset = sdgbench.load_dataset("digits-mini", preset="smoke", data=finished / "data")
    for name, stored in run.predictions().items():
        images = dataset.target(name).subsample(dataset.recipe_used.test_images).images
        assert np.array_equal(run.predict(images), stored)
        assert np.array_equal(run.predict(torch.from_numpy(images) / 255), stored)


def test_a_model_is_a_module_whose_weights_are_the_ones_that_predict(finished):
    model = sdgbench.load_model(run_folder(finished, "gud-ensemble"))
    assert not model.training
    inference = sdgbench.load_run(run_folder(finished, "gud-ensemble")).record.efficiency
    assert sum(p.numel() for p in model.parameters()) == inference.parameters_inference
    x = torch.rand(2, 3, 32, 32)
    before = model(x)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    assert not torch.equal(before, model(x))


def test_the_weights_chosen_on_source_are_loaded(finished):
    folder = run_folder(finished, "jigen")
    run = sdgbench.load_run(folder)
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    model = run.model("val")
    for key, value in state["position"]["best"]["weights"]["network"].items():
        assert torch.equal(model.method.network.state_dict()[key], value)


def test_the_frame_is_tidy(tmp_path):
    sample_records.write(tmp_path, ("erm", "mada"), range(2), ["cifar10c"])
    frame = sdgbench.load_records(tmp_path).to_frame()
    last = frame[frame.choice == "last"]
    assert len(last) == 2 * 2 * 96
    record = sdgbench.load_records(tmp_path)[0]
    row = last[(last.run == record.id) & (last.domain == "fog/5")].iloc[0]
    assert row.value == record.last.per_domain["fog/5"].accuracy
    assert (row.tag_corruption, row.tag_severity, row.seed) == ("fog", 5, record.spec.seed)
    assert json.loads(row.params) == record.spec.params
    assert frame.protocol.nunique() == 1


def test_an_empty_frame_has_its_columns(tmp_path):
    records = sdgbench.load_records(tmp_path)
    assert list(records.to_frame().columns[:3]) == ["run", "dataset", "preset"]
    with pytest.raises(UserError, match="no records to compare"):
        records.compare()


def test_tables_are_those_of_the_command_line(tmp_path, cli):
    sample_records.write(tmp_path, ("erm", "mada"), range(3), ["digits"])
    tables = sdgbench.load_records(tmp_path).compare(sort="worst", paper=True)
    for style in ("md", "csv", "latex", "json", "html"):
        printed = cli(
            "compare", "--runs", tmp_path, "--sort", "worst", "--paper", "--format", style
        )
        assert tables.render(style) == printed.out
    assert "<table" in tables._repr_html_()
    assert len(tables.to_frame()) == sum(len(table.lines) for table in tables)


def test_a_damaged_record_is_named_and_skipped(tmp_path):
    paths = sample_records.write(tmp_path, ("erm",), range(2), ["digits"])
    paths[0].write_text("{")
    records = sdgbench.load_records(tmp_path)
    assert len(records) == 1
    assert str(paths[0]) in records.remarks[0]


def test_a_second_call_reads_what_is_finished(finished):
    folder = run_folder(finished)
    before = (folder / "record.json").stat().st_mtime_ns
    records = sdgbench.run(
        "erm",
        "digits-mini",
        preset="smoke",
        runs=finished / "runs",
        data=finished / "data",
        progress=False,
    )
    assert records.folders == [folder]
    assert (folder / "record.json").stat().st_mtime_ns == before


@pytest.mark.usefixtures("registry_restored")
def test_a_failing_run_stops_no_other_and_is_an_exception(inside, capsys):
    from sdgbench.method import Method

    @sdgbench.register_method("breaks")
    class Breaks(Method):
        """It breaks."""

        def train_step(self, x, y):
            raise ZeroDivisionError("broken")

    with pytest.raises(sdgbench.RunsFailed, match="ZeroDivisionError: broken") as caught:
        sdgbench.run("breaks,erm", "digits-mini", preset="smoke", progress=False)
    assert [record.spec.method for record in caught.value.records] == ["erm"]
    assert capsys.readouterr().out == ""
    with pytest.raises(UserError, match=r'Other processes do not know the method "breaks"'):
        sdgbench.run("breaks", "digits-mini", preset="smoke", seeds="0-1", jobs=2, progress=False)


@pytest.mark.usefixtures("registry_restored")
def test_a_class_that_is_defined_again_replaces_the_first_one():
    from sdgbench import registry
    from sdgbench.method import Method

    hashes = []
    for doc in ("First.", "Second."):
        cls = type("Mine", (Method,), {"__doc__": doc, "__module__": "__main__"})
        sdgbench.register_method("mine")(cls)
        assert sdgbench.list_methods()["mine"] == doc
        assert registry.get("method", "mine").load() is cls
        hashes.append(registry.get("method", "mine").source_sha256)
    with pytest.raises(UserError, match=r'"erm" is taken by .*erm.py. Choose another'):
        sdgbench.register_method("erm")(cls)


BAD = {
    "no seeds": ({"seeds": []}, "There are no seeds"),
    "bad seed": ({"seeds": ["a"]}, "'a' is not a seed"),
    "negative seed": ({"seeds": -1}, "negative"),
    "typo": ({"params": {"gama": 1}}, 'No setting "gama"'),
    "value": ({"params": {"recipe.lr": "fast"}}, '"fast" does not fit recipe.lr'),
    "no dictionary": ({"params": "beta=1"}, "takes a dictionary"),
    "grid": ({"grid": {"recipe.lr": 1}}, "grid takes lists"),
    "empty grid": ({"grid": {"recipe.lr": []}}, "is empty"),
    "preset": ({"preset": "smok"}, 'Did you mean "smoke"'),
    "jobs": ({"jobs": "many"}, "not a number of processes"),
    "target": ({"targets": "scann"}, 'Did you mean "scan"'),
    "device": ({"device": "gpu"}, 'No device "gpu"'),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_exception_that_says_what_to_do(case, inside):
    arguments, text = BAD[case]
    with pytest.raises(UserError, match=text):
        sdgbench.run("erm", "digits-mini", **{"preset": "smoke", "progress": False, **arguments})
    assert not (inside / "runs").exists()


def test_values_reach_a_run_without_loss(inside):
    rate = 0.00012345678901234567
    (record,) = sdgbench.run(
        "erm", "digits-mini", preset="smoke", params={"recipe.lr": rate}, progress=False
    )
    assert record.spec.recipe["lr"] == rate
    assert f"--set recipe.lr={rate!r}" in record.spec.command


def test_a_run_that_cannot_be_found_is_explained(finished, tmp_path):
    runs = finished / "runs"
    with pytest.raises(UserError, match="No run in"):
        sdgbench.load_run("zzz", runs)
    for name in ("abc1", "abc2"):
        (tmp_path / "two" / "digits-mini" / "erm" / name).mkdir(parents=True)
    with pytest.raises(UserError, match=r'"abc" is the start of 2 ids: abc1, abc2. Give more'):
        sdgbench.load_run("abc", tmp_path / "two")
    with pytest.raises(UserError, match="abc1 is not finished"):
        sdgbench.load_run("abc1", tmp_path / "two")
    with pytest.raises(UserError, match="no finished run"):
        sdgbench.load_run(tmp_path, runs)
    with pytest.raises(UserError, match="no finished run"):
        sdgbench.load_model(tmp_path / "gone" / "run", runs)


def test_images_of_the_wrong_kind_are_explained(finished):
    run = sdgbench.load_run(run_folder(finished))
    with pytest.raises(UserError, match=r"shape \(N, 3, 32, 32\), not \(2, 32, 32, 3\)"):
        run.predict(np.zeros((2, 32, 32, 3), np.uint8))
    with pytest.raises(UserError, match="Divide bytes by 255"):
        run.predict(np.full((2, 3, 32, 32), 200.0))
    with pytest.raises(UserError, match="uint8"):
        run.predict(np.zeros((2, 3, 32, 32), np.int64))
    with pytest.raises(UserError, match='No choice of weights "best"'):
        run.predictions("best")


def test_a_copy_without_weights_says_how_to_get_them(tmp_path):
    (path,) = sample_records.write(tmp_path, ("erm",), [0], ["digits-mini"])
    with pytest.raises(UserError, match="has no weights.*sdgbench run --method erm"):
        sdgbench.load_model(path.parent)
