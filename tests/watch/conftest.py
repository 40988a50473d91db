"""A runs folder in which something seems to happen, and a server of it."""

import json
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from sdgbench import storage
from sdgbench.records.schema import utc_now
from sdgbench.watch.folder import RunsFolder
from sdgbench.watch.server import Server


@dataclass
class FakeRun:
    """A run that this process pretends to do."""

    folder: Path
    step: int = 0

    @property
    def key(self) -> str:
        return "/".join(self.folder.parts[-3:])

    @property
    def curve(self) -> Path:
        return self.folder / "train.jsonl"

    def train(self, steps, name="train", phase=0):
        """Append points to the curve and write the progress."""
        with self.curve.open("a") as file:
            for _ in range(steps):
                self.step += 1
                point = {"phase": phase, "name": name, "step": self.step, "loss": 2.3 / self.step}
                file.write(json.dumps(point) + "\n")
            score = {"phase": phase, "name": "validation", "step": self.step}
            score |= {"train_step": self.step, "score": 1 - 1 / self.step}
            file.write(json.dumps(score) + "\n")
        self.report(name)

    def report(self, phase="train", **other):
        progress = {
            "phase": phase,
            "done": self.step,
            "total": 200,
            "loss": 0.25,
            "rate": 321.0,
            "seconds_left": 60,
            "time": utc_now(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "share": self.step / 200,
            "run_seconds_left": 125,
        }
        storage.write_json(self.folder / "progress.json", {**progress, **other})


@pytest.fixture
def fake(tmp_path):
    """Make a run of a grid over the learning rate."""

    def make(lr=0.001, seed=0, method="erm", dataset="digits-mini"):
        folder = tmp_path / "runs" / dataset / method / f"{seed}-{lr}"
        spec = {"method": method, "dataset": dataset, "preset": "quick", "seed": seed}
        spec |= {"recipe": {"lr": lr}, "recipe_changes": ["lr"] if lr != 0.001 else []}
        storage.write_json(folder / "spec.json", spec)
        return FakeRun(folder)

    return make


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serve the runs of the test on a free port; every look at the folder is a new one."""
    monkeypatch.setattr("sdgbench.watch.folder.FRESH_SECONDS", -1.0)
    with Server(RunsFolder(tmp_path / "runs"), 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
