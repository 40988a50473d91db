"""Runs that tests of the Python API share."""

import pytest
import sample_records

import sdgbench

METHODS = ("erm", "gud-ensemble", "jigen")


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A folder with finished runs and data."""
    folder = tmp_path_factory.mktemp("finished")
    sdgbench.run(
        METHODS,
        "digits-mini",
        preset="smoke",
        runs=folder / "runs",
        data=folder / "data",
        progress=False,
    )
    return folder


@pytest.fixture(scope="session")
def verifiable_runs(tmp_path_factory):
    """A folder with three seeds of two methods that can be verified, and their data."""
    folder = tmp_path_factory.mktemp("verifiable")
    for seed in range(3):
        sample_records.verifiable(folder / "runs", folder / "data", "erm", seed, 20)
        sample_records.verifiable(folder / "runs", folder / "data", "gud", seed, 10)
    return folder


@pytest.fixture
def inside(tmp_path, finished, monkeypatch):
    """An empty working directory whose data is there already."""
    (tmp_path / "data").symlink_to(finished / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def registry_restored():
    """Forget what a test registers."""
    from sdgbench import registry

    plugins, defined = list(registry._plugins), dict(registry._defined)
    yield
    registry._plugins[:] = plugins
    registry._defined.clear()
    registry._defined.update(defined)
    registry.entries.cache_clear()
