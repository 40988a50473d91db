"""Whole trainings on a simulated GPU: what would fail there, and where the host would wait."""

import textwrap
from pathlib import Path

import pytest

from sdgbench import registry
from sdgbench.conformance.simulation import PRECISIONS, Case, missing, simulate

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "sdgbench-mixup" / "sdgbench_mixup.py"
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
}

WAITS = {  # methods whose steps must read values, with the reason
    "advst": "its ascent stops when the loss changes little",
    "advst-me": "its ascent stops when the loss changes little",
}


def planted(tmp_path):
    """A file with one method per fault."""
    text = "import torch\nfrom sdgbench.method import Method\nfrom sdgbench.registry import register_method\n"
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
    cases = [Case(name, "digits-mini") for name in FAULTS]
    results = {r.case.method: r for r in simulate(cases, [planted(tmp_path)])}
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


@pytest.mark.parametrize("task", TASKS)
def test_every_method_runs_and_no_step_waits(task):
    registry.add_plugin(EXAMPLE)
    cases = [
        Case(entry.name, TASKS[task], precision)
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
        if result.case.precision != "fp16":  # there an ascent step looks for overflows
            if result.case.method not in WAITS:
                faults += [f"{name}: {wait}" for wait in result.waits_in_steps]
            if result.waits_of_loop > result.points:
                faults.append(
                    f"{name}: the loop waits {result.waits_of_loop} times: {result.waits}"
                )
    assert not faults, "\n".join(faults)
