"""What checksums cost in a run."""

import hashlib
import time

import pytest

from sdgbench import storage
from sdgbench.launch.execute import execute
from sdgbench.records.store import Store
from sdgbench.reporter import Silent
from sdgbench.spec import resolution
from sdgbench.training.device import Device


class Timed:
    """A hash whose own time is added up."""

    seconds = 0.0

    def __init__(self, inner):
        self.inner = inner

    def update(self, data):
        began = time.process_time()
        self.inner.update(data)
        Timed.seconds += time.process_time() - began

    def __getattr__(self, name):
        return getattr(self.inner, name)


@pytest.mark.parametrize("method", ["erm", "gud"])
def test_share_of_checksums_in_a_run(method, benchmark, monkeypatch, tmp_path):
    """The CPU seconds in hashes of checkpoints, pool, curve, data and files, over those of the run.

    A tenth of the steps of the preset: checkpoints at the end of each phase weigh ten times more.
    """
    original, of_file = hashlib.sha256, storage.sha256

    def sha256(data=b"", **options):
        began = time.process_time()
        digest = Timed(original(data, **options))
        Timed.seconds += time.process_time() - began
        return digest

    def timed_file(path):
        began = time.process_time()
        digest = of_file(path)
        Timed.seconds += time.process_time() - began
        return digest

    spec = resolution.resolve(method, "digits-mini", "quick", 0, [("recipe.steps", "60")])
    device, data = Device("cpu"), tmp_path / "data"
    spec.dataset_class(data, spec.build_options(), spec.build_recipe()).prepare()
    monkeypatch.setattr(hashlib, "sha256", sha256)
    monkeypatch.setattr(storage, "sha256", timed_file)
    Timed.seconds = 0.0
    began = time.process_time()
    benchmark.pedantic(
        lambda: execute(spec, Store(tmp_path / "runs"), data, device, Silent()), rounds=1
    )
    share = Timed.seconds / (time.process_time() - began)
    benchmark.extra_info["share"] = share
    print(f"\n  checksums in a run of {method}: {100 * share:.2f}%")
