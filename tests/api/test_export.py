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
from sdgbench.training.trained_model import TrainedModel


def run_folder(finished, method="erm"):
    (folder,) = (finished / "runs" / "digits-mini" / method).iterdir()
    return folder


RUNS = ("erm", "gud-ensemble", "jigen")
LOAD_ALL = """
import sys, numpy as np, torch, sdgbench
from pathlib import Path
torch.set_num_threads(1)
images = torch.from_numpy(np.load(sys.argv[2]))
with torch.inference_mode():
    logits = {
        folder.name: sdgbench.load_model(folder, device="cpu")(images).numpy()
        for folder in Path(sys.argv[1]).iterdir()
    }
np.savez(sys.argv[3], **logits)
"""


def in_a_fresh_process(python, folder, images):
    """The logits of all models below a folder, loaded by another interpreter."""
    np.save(folder.parent / "images.npy", images.numpy())
    logits = folder.parent / "logits.npz"
    done = python(
        *("-c", LOAD_ALL, folder, folder.parent / "images.npy", logits), cwd=folder.parent
    )
    assert done.returncode == 0, done.stderr
    return dict(np.load(logits))


def some_images(count=6):
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def test_a_fresh_process_predicts_the_same_bits(finished, tmp_path, python):
    images, expected = some_images(), {}
    for method in RUNS:
        run = sdgbench.load_run(run_folder(finished, method))
        folder = sdgbench.export(run, tmp_path / "models" / method)
        with torch.inference_mode():
            expected[method] = run.model(device="cpu")(images).numpy()
        assert {path.name for path in folder.iterdir()} == {
            *("model.safetensors", "model.json", "record.json", "README.md")
        }
    loaded = in_a_fresh_process(python, tmp_path / "models", images)
    for method in RUNS:
        assert np.array_equal(loaded[method], expected[method]), method


def test_every_method_predicts_the_same_bits_in_a_fresh_process(tmp_path, python):
    """Trained on a small twin, so that a method holds all that it ever keeps."""
    from sdgbench.training import checkpoint

    images, expected = some_images(), {}
    sample = json.loads(
        (next((registry_root() / "erm").glob("*/record.json"))).read_text(encoding="utf-8")
    )
    for method in registry.entries("method"):
        harness = MethodHarness(method, "digits-mini", tmp_path / "harness" / method)
        trained = harness.uninterrupted
        for module in checkpoint.modules(trained).values():
            module.eval()
        model = TrainedModel(trained, harness.spec)
        folder = tmp_path / "models" / method
        folder.mkdir(parents=True)
        sample["spec"] = json.loads(json.dumps(vars(harness.spec)))
        (folder / "record.json").write_text(json.dumps(sample))
        exported.write(model, folder, "last", [])
        with torch.inference_mode():
            expected[method] = model(images).numpy()
    assert len(expected) >= 20
    loaded = in_a_fresh_process(python, tmp_path / "models", images)
    assert loaded.keys() == expected.keys()
    for method, logits in expected.items():
        assert np.array_equal(loaded[method], logits), method


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
