"""Exported models predict what the run predicts, bit for bit, also in a fresh process."""

import json

import numpy as np
import pytest
import torch

import sdgbench
from sdgbench import registry
from sdgbench.conformance import MethodHarness
from sdgbench.errors import UserError
from sdgbench.training import exported
from sdgbench.training.device import Device
from sdgbench.training.trained_model import TrainedModel


def run_folder(finished, method="erm"):
    (folder,) = (finished / "runs" / "digits-mini" / method).iterdir()
    return folder


@pytest.mark.parametrize("method", ["erm", "gud-ensemble", "jigen"])
def test_a_fresh_process_predicts_the_same_bits(finished, tmp_path, method, python):
    run = sdgbench.load_run(run_folder(finished, method))
    folder = sdgbench.export(run, tmp_path / "model")
    images = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    np.save(tmp_path / "images.npy", images.numpy())
    code = (
        "import sys, numpy as np, torch, sdgbench; torch.set_num_threads(1)\n"
        "model = sdgbench.load_model(sys.argv[1], device='cpu')\n"
        "x = torch.from_numpy(np.load(sys.argv[2]))\n"
        "np.save(sys.argv[3], model(x).detach().numpy())"
    )
    done = python(
        "-c", code, folder, tmp_path / "images.npy", tmp_path / "logits.npy", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    with torch.inference_mode():
        expected = run.model(device="cpu")(images).numpy()
    assert np.array_equal(np.load(tmp_path / "logits.npy"), expected)
    assert {path.name for path in folder.iterdir()} == {
        *("model.safetensors", "model.json", "record.json", "README.md")
    }


@pytest.mark.parametrize("method", [*registry.entries("method")])
def test_every_method_can_be_exported(method, tmp_path):
    """Trained on a small twin, so that the method holds all that it ever keeps."""
    from sdgbench.training import checkpoint

    harness = MethodHarness(method, "digits-mini", tmp_path / "harness")
    trained = harness.uninterrupted
    for module in checkpoint.modules(trained).values():
        module.eval()
    model = TrainedModel(trained, harness.spec)
    folder = tmp_path / "model"
    folder.mkdir()
    sample = json.loads(
        (next((registry_root() / "erm").glob("*/record.json"))).read_text(encoding="utf-8")
    )
    sample["spec"] = json.loads(json.dumps(vars(harness.spec)))
    (folder / "record.json").write_text(json.dumps(sample))
    exported.write(model, folder, "last", [])
    images = exported.example(model, 3)
    with torch.inference_mode():
        assert torch.equal(exported.load(folder, Device("cpu"))(images), model(images))


def registry_root():
    from conftest import ROOT

    return ROOT / "leaderboards" / "records" / "digits-mini"


def test_onnx_gives_the_logits_of_torch(finished, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    for method in ("erm", "gud-ensemble", "jigen"):
        run = sdgbench.load_run(run_folder(finished, method))
        folder = sdgbench.export(run, tmp_path / method, onnx=True)
        session = runtime.InferenceSession(str(folder / "model.onnx"))
        for count in (1, 7):
            images = torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(count))
            (logits,) = session.run(None, {"images": images.numpy()})
            with torch.inference_mode():
                expected = run.model(device="cpu")(images).numpy()
            np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_modules_that_only_training_needs_are_left_out(finished, tmp_path):
    run = sdgbench.load_run(run_folder(finished, "jigen"))
    folder = sdgbench.export(run, tmp_path / "model")
    from safetensors.torch import load_file

    count = sum(value.numel() for value in load_file(folder / "model.safetensors").values())
    assert count == run.record.efficiency.parameters_inference


def test_the_card_says_what_a_stranger_must_know(finished, tmp_path):
    folder = sdgbench.export(run_folder(finished), tmp_path / "model", choice="val")
    card = (folder / "README.md").read_text()
    for text in ("Reduced scale", "| scan |", "chosen on held-out source", "sdgbench run --method"):
        assert text in card
    sdgbench.export(run_folder(finished), tmp_path / "model")  # again: replaced
    assert "the last iterate" in (folder / "README.md").read_text()


def test_bad_input_is_one_line(finished, tmp_path, cli):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    runs = finished / "runs"
    for words, text in (
        (("zzz", "--to", "x"), "No run in"),
        ((run_folder(finished), "--to", "full"), "holds other files"),
    ):
        done = cli("export", *words, "--runs", runs)
        assert done.code == 2
        assert text in done.err
        assert len(done.err.strip().splitlines()) == 1
    assert cli("export", run_folder(finished), "--to", "fine").code == 0
    path = tmp_path / "fine" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match="not the file that was exported"):
        sdgbench.load_model(tmp_path / "fine")
