"""What the tests share."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _clean_world(monkeypatch, tmp_path_factory):
    """No plugin, folder or setting of the developer's leaks in; data are rendered once."""
    import torch

    from sdgbench import registry

    torch.set_num_threads(1)
    for name in ("SDGBENCH_PLUGINS", "SDGBENCH_RUNS"):
        monkeypatch.delenv(name, raising=False)
    base = tmp_path_factory.getbasetemp()  # with xdist each worker has its own below one of theirs
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "sdgbench-data"
    monkeypatch.setenv("SDGBENCH_DATA", str(shared))
    monkeypatch.setenv("COLUMNS", "80")
    before = list(registry._plugins)
    yield
    registry._plugins[:] = before
    registry.entries.cache_clear()


@pytest.fixture
def data() -> Path:
    """The data folder that all tests share."""
    return Path(os.environ["SDGBENCH_DATA"])


@dataclass
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys, tmp_path, monkeypatch) -> Callable[..., Done]:
    """Run the command in this process, in an empty folder."""
    from sdgbench.cli.app import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Done:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Done(int(stopped.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a fresh interpreter."""

    def run(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *(str(argument) for argument in arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)

    return run


@pytest.fixture
def without_torch(python) -> Callable[..., str]:
    """Run a command in a fresh interpreter, and insist that it did not load torch."""
    code = (
        "import sys; from sdgbench.cli.app import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\nprint('torch' in sys.modules)"
    )

    def run(*arguments: object) -> str:
        done = python("-c", code, *arguments)
        assert done.stdout.splitlines()[-1] == "False", done.stderr
        return done.stdout

    return run
