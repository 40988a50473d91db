"""What a user reads when a method crashes."""

import re

import pytest

CRASHING = '''
import torch

from sdgbench.method import Method
from sdgbench.registry import register_method


@register_method("crashing")
class Crashing(Method):
    """It crashes inside torch."""

    def train_step(self, x, y):
        return self.helper(x)

    def helper(self, x):
        return torch.nn.functional.linear(x, torch.zeros(3, 5))
'''


@pytest.mark.parametrize("jobs", [(), ("--jobs", "2", "--seeds", "0-1")])
def test_the_lines_of_the_method_come_first_and_those_of_the_harness_last(jobs, cli, tmp_path):
    (tmp_path / "crashing.py").write_text(CRASHING)
    command = ("run", "--method", "crashing", "--dataset", "digits-mini", "--preset", "smoke")
    done = cli(*command, "--plugin", "crashing.py", *jobs)
    assert done.code == 1
    text = done.out[done.out.index("RuntimeError: ") :]
    places = re.findall(r"^  (\S+\.py):\d+ in (\w+)$", text, re.M)
    assert places[:2] == [("crashing.py", "helper"), ("crashing.py", "train_step")]
    assert "return torch.nn.functional.linear(x, torch.zeros(3, 5))" in text
    own, harness = text.split("called by the harness:", 1)
    assert "sdgbench/training/trainer.py" in harness
    assert "sdgbench/training/trainer.py" not in own
    assert "Traceback (most recent call last)" in next(tmp_path.rglob("failed.json")).read_text()


def test_a_crash_of_the_harness_shows_its_code(cli, monkeypatch):
    def broken(*_, **__):
        raise KeyError("gone")

    monkeypatch.setattr("sdgbench.launch.execute.describe", broken)
    command = ("run", "--method", "erm", "--dataset", "digits-mini", "--preset", "smoke")
    done = cli(*command)
    assert done.code == 1
    assert re.search(r"^KeyError: 'gone'$", done.out, re.M)
    assert "record = describe(" in done.out
