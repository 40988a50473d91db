"""Models that were trained elsewhere: scored, recorded as such, never ranked with ours."""

import json
import shutil

import numpy as np
import pytest
import torch

import sdgbench
from sdgbench.errors import UserError

MODEL = """
import torch
from torch import nn


def build(classes):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, classes))


def narrow():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 7))


def pair():
    class Pair(nn.Module):
        def forward(self, x):
            return x, x
    return Pair()


def small():
    return nn.Sequential(nn.Flatten(), nn.Linear(10, 10))


def text():
    return "no module"


def broken():
    raise KeyError("gone")
"""


@pytest.fixture
def folder(inside):
    (inside / "mine.py").write_text(MODEL)
    return inside


def linear():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))


def score(model="mine.py:build", **more):
    return sdgbench.evaluate(
        model, "digits-mini", **{"name": "Mine", "preset": "smoke", "progress": False, **more}
    )


def test_the_score_is_the_one_that_plain_torch_computes(folder):
    model = linear()
    scored = score(model)
    dataset = sdgbench.load_dataset("digits-mini", preset="smoke")
    for name, result in scored[0].last.per_domain.items():
        domain = dataset.target(name).subsample(64)
        with torch.no_grad():
            predicted = model(torch.from_numpy(domain.images).float() / 255).argmax(1).numpy()
        assert result.accuracy == np.mean(predicted == domain.labels)
    record = json.loads((scored.folders[0] / "record.json").read_text())
    assert record["elsewhere"]["name"] == record["spec"]["method"] == "Mine"
    assert record["source"]["train"] == {"count": 0, "sha256": ""}
    assert record["efficiency"]["parameters_inference"] == 30730


def test_pixels_are_normalised_on_request(folder):
    plain = linear()
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)

    class Inside(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = plain

        def forward(self, x):
            shaped = (torch.tensor(values).view(1, 3, 1, 1) for values in (mean, std))
            return self.plain((x - next(shaped)) / next(shaped))

    outside, inside = score(plain, mean=mean, std=std), score(Inside(), name="Inside")
    assert outside[0].last.per_domain == inside[0].last.per_domain
    assert outside[0].last.per_domain != score(plain, name="Plain")[0].last.per_domain


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_weights_come_from_a_file(folder, suffix, cli):
    from safetensors.torch import save_file

    torch.manual_seed(5)
    trained = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))
    state = trained.state_dict()
    if suffix == ".pt":  # as DataParallel and many training scripts save it
        torch.save({"state_dict": {f"module.{k}": v for k, v in state.items()}}, "w.pt")
    else:
        save_file(state, "w.safetensors")
    done = cli(
        *("evaluate", "--model", "mine.py:build", "--weights", f"w{suffix}"),
        *("--dataset", "digits-mini", "--name", "My linear", "--preset", "smoke"),
    )
    assert done.code == 0, done.err
    assert "digits-mini, smoke preset [trained elsewhere]" in done.out
    ours = score(trained, name="In memory")
    theirs = [r for r in sdgbench.load_records() if r.spec.method == "My linear"]
    assert theirs[0].last.per_domain == ours[0].last.per_domain
    assert theirs[0].elsewhere.weights_sha256 == ours[0].elsewhere.weights_sha256
    assert theirs[0].elsewhere.weights_file == f"w{suffix}"
    verified = cli("verify")
    assert verified.code == 0, verified.out


def test_it_has_a_block_of_its_own_without_ranks_and_gains(folder, finished):
    shutil.copytree(finished / "runs", folder / "runs")
    score()
    score(linear(), name="Mine", seed=1, mean=(0.5,) * 3, std=(0.5,) * 3)
    score(name="Another")
    here, elsewhere = sdgbench.load_records().compare()
    assert [line.method for line in elsewhere.lines] == ["Another", "Mine"]
    assert [line.n for line in elsewhere.lines] == [1, 2]
    assert not any(
        cell.rank or cell.ties for line in elsewhere.lines for cell in line.cells.values()
    )
    assert not [column.name for column in elsewhere.columns if column.name.startswith("gain")]
    assert "trained elsewhere" in elsewhere.title
    assert "not ranked" in elsewhere.legend[0]
    assert "not ranked" not in " ".join(elsewhere.notes)
    assert not {"Mine", "Another"} & {line.method for line in here.lines}
    assert "source content" not in here.title


def test_a_model_of_ours_scores_the_same_as_its_run(folder, finished):
    (run_folder,) = (finished / "runs" / "digits-mini" / "jigen").iterdir()
    run = sdgbench.load_run(run_folder)
    scored = score(run.model(), name="JiGen again")
    assert scored[0].last.per_domain == run.record.last.per_domain


def test_a_network_of_timm_is_filled_with_weights_of_timm(folder):
    import timm

    torch.manual_seed(3)
    trained = timm.create_model("resnet18", num_classes=10)
    torch.save(trained.state_dict(), "resnet.pt")
    scored = score("timm:resnet18", weights="resnet.pt", name="ResNet", targets="scan")
    mean, std = (trained.pretrained_cfg[key] for key in ("mean", "std"))
    same = score(trained, name="by itself", mean=mean, std=std, targets="scan")
    assert scored[0].last.per_domain == same[0].last.per_domain


BAD = {
    "shape": (["mine.py:narrow"], r"shape \(2, 7\).*10 classes have the shape \(2, 10\)"),
    "pair": (["mine.py:pair"], "returns a tuple, not logits"),
    "input": (["mine.py:small"], r"cannot take images of shape \(2, 3, 32, 32\)"),
    "no module": (["mine.py:text"], "returns a str, not a torch.nn.Module"),
    "broken": (["mine.py:broken"], "cannot be called: KeyError"),
    "function": (["mine.py:gone"], 'has no function "gone"'),
    "file": (["gone.py:build"], "There is no file gone.py"),
    "network": (["wrn-16"], 'no network "wrn-16"'),
    "weights": (
        ["mine.py:build", "--weights", "other.pt"],
        "does not fit the model: it lacks 1.weight, 1.bias",
    ),
    "shapes": (["mine.py:build", "--weights", "seven.pt"], r"1.weight has the shape \(7, 3072\)"),
    "damaged": (["mine.py:build", "--weights", "mine.py"], "cannot be read as weights"),
    "no weights": (["mine.py:build", "--weights", "gone.pt"], "Cannot read gone.pt"),
    "no tensors": (["mine.py:build", "--weights", "numbers.pt"], "holds no weights by name"),
    "mean": (["mine.py:build", "--mean", "0.5"], "mean takes three numbers"),
    "text": (["mine.py:build", "--mean", "a,b,c"], "is not of the form --mean"),
    "std": (["mine.py:build", "--mean", "0,0,0", "--std", "0,1,1"], "std must be above 0"),
    "target": (["mine.py:build", "--targets", "scann"], 'Did you mean "scan"'),
    "preset": (["mine.py:build", "--preset", "smok"], 'Did you mean "smoke"'),
    "name": (["mine.py:build", "--name", "erm"], '"erm" is a method of sdgbench'),
    "comma": (["mine.py:build", "--name", "a,b"], "cannot be the name of a model"),
    "dataset": (["mine.py:build", "--dataset", "digits-min"], 'Did you mean "digits-mini"'),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case, folder, cli):
    import re

    torch.save({"weight": torch.zeros(1)}, "other.pt")
    seven = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 7))
    torch.save(seven.state_dict(), "seven.pt")
    torch.save({"epoch": 3}, "numbers.pt")
    words, text = BAD[case]
    done = cli(
        *("evaluate", "--dataset", "digits-mini", "--name", "Mine", "--preset", "smoke"),
        *("--model", *words),
    )
    assert done.code == 2
    assert re.search(text, done.err), done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (folder / "runs").exists()


def test_code_in_a_weights_file_is_not_run(folder):
    class Evil:
        def __reduce__(self):
            return (open, ("pwned", "w"))

    torch.save({"weight": Evil()}, "evil.pt")
    with pytest.raises(UserError, match="Python objects, which are not loaded"):
        score(weights="evil.pt")
    assert not (folder / "pwned").exists()
