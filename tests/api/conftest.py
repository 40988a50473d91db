"""Runs that tests of the Python API share."""

import pytest

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
