"""Whole trainings on a simulated GPU: what would fail there, and where the host would wait."""

import textwrap
from pathlib import Path

import pytest
import torch

from sdgbench import registry
from sdgbench.conformance.simulation import PRECISIONS, Case, missing, simulate

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "sdgbench-mixup" / "sdgbench_mixup.py"
GPU_PAGE = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
GRAPHS = "float32classification"
TASKS = {"classification": "digits-mini", "segmentation": "streets-mini"}

FAULTS = {
    "cpu-sum": "loss = (self.network(x) + torch.zeros(4, 10)).mean()",
    "cpu-generator": "loss = loss * torch.rand((), device=x.device, generator=torch.Generator())",
    "reads-loss": "self.last = float(loss)",
    "mixed-dtype": "loss = loss + (x.flatten(1).double() @ x.flatten(1).t()).float().mean()",
    "cpu-index": "loss = loss + x[torch.arange(2)].mean()",
    "mask": "loss = loss + x[y > 3].sum()",
    "unpinned": "loss = loss + torch.zeros(4).to(x.device).sum()",
    "numpy": "self.last = loss.detach().numpy()",
    "faultless": "",
    # Only from the second step on, which is the one that is captured.
    "waits-later": "LATER.append('waits'); LATER.count('waits') > 1 and float(loss)",
    "draws-later": "LATER.append('draws'); LATER.count('draws') > 1 and torch.rand(2)",
    "pins-later": "LATER.append('pins'); LATER.count('pins') > 1 and torch.zeros(2).pin_memory()",
}

WAITS = {  # methods whose steps must read values, with the reason
    "advst": "its ascent stops when the loss changes little",
    "advst-me": "its ascent stops when the loss changes little",
}


def planted(tmp_path):
    """A file with one method per fault."""
    text = "import torch\nfrom sdgbench.method import Method\nfrom sdgbench.registry import register_method\n"
    text += "LATER = []\n"
    for name, line in FAULTS.items():
        text += textwrap.dedent(f'''
            @register_method("{name}")
            class {name.title().replace("-", "")}(Method):
                """A fault."""

                def train_step(self, x, y):
                    loss = self.task.loss(self.network(x), y)
                    {line}
                    return self.optimise(loss)
        ''')
    file = tmp_path / "faults.py"
    file.write_text(text)
    return file


def test_planted_faults_are_caught(tmp_path):
    names = [name for name in FAULTS if "later" not in name]
    cases = [Case(name, "digits-mini") for name in names]
    captured = ("faultless", "reads-loss", "unpinned", *(set(FAULTS) - set(names)))
    cases += [Case(name, "digits-mini", graphs=True) for name in captured]
    results, graphs = {}, {}
    for result in simulate(cases, [planted(tmp_path)]):
        (graphs if result.case.graphs else results)[result.case.method] = result
    assert "cuda" in results["cpu-sum"].error
    assert "cpu" in results["cpu-sum"].error
    assert "a generator of cpu on cuda" in results["cpu-generator"].error
    assert "different types" in results["mixed-dtype"].error
    assert "the host waits" in results["mask"].error
    assert "call .cpu() first" in results["numpy"].error
    assert [w[0] for w in results["reads-loss"].waits if w[2]] == ["reads a value"]
    assert [w[0] for w in results["cpu-index"].waits if w[2]] == ["copies an index to the device"]
    assert [w[0] for w in results["unpinned"].waits if w[2]] == ["copies to the device, and waits"]
    assert "faults.py:" in results["unpinned"].waits_in_steps[0]
    assert not results["faultless"].error
    assert not results["faultless"].waits_in_steps
    assert results["faultless"].steps == {"train": 4}
    assert graphs["faultless"].graphs == ("train_step", "")
    assert graphs["faultless"].steps == {"train": 2}  # one is watched, one is captured
    reasons = {name: result.not_captured["train_step"] for name, result in list(graphs.items())[1:]}
    assert "reads values of the device" in reasons["reads-loss"]
    assert reasons["unpinned"] == "copies between the CPU and the device"
    assert "it reads a value in a CUDA graph" in reasons["waits-later"]
    assert "on the CPU in a CUDA graph" in reasons["draws-later"]
    assert "pinned memory is allocated in a CUDA graph" in reasons["pins-later"]
    assert not any(result.error for result in graphs.values())


def entry_of(result):
    """The row of a method in the table of steps that can be captured."""
    captured, other = result.graphs
    return f"| `{result.case.method}` | {captured or 'none'} | {other} |"


# Operations of torch 2.6 wait in more places: a grouped convolution, a mask.
COUNTS_WAITS = tuple(map(int, torch.__version__.split(".")[:2])) > (2, 6)


@pytest.mark.parametrize("task", TASKS)
def test_every_method_runs_and_no_step_waits(task):
    registry.add_plugin(EXAMPLE)
    cases = [
        # Graphs where they are not what is tested otherwise: float32 of one task.
        Case(entry.name, TASKS[task], precision, graphs=precision + task == GRAPHS)
        for entry in registry.entries("method").values()
        if task not in entry.details.get("skips", {})
        for precision in PRECISIONS
    ]
    assert any(case.method == "mixup" for case in cases)
    faults = []
    for result in simulate(cases):
        name = f"{result.case.method} in {result.case.precision}"
        if result.error:
            faults.append(f"{name}: {result.error}")
        if not COUNTS_WAITS:
            continue
        ours = result.case.method != "mixup"  # that of examples/
        if result.case.graphs and ours and entry_of(result) not in GPU_PAGE:
            faults.append(f"docs/gpu.md should say: {entry_of(result)}")
        if result.case.precision != "fp16":  # there an ascent step looks for overflows
            if result.case.method not in WAITS:
                faults += [f"{name}: {wait}" for wait in result.waits_in_steps]
            if result.waits_of_loop > result.points:
                faults.append(
                    f"{name}: the loop waits {result.waits_of_loop} times: {result.waits}"
                )
    assert not faults, "\n".join(faults)
