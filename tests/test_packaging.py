import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import import_graph
import pytest
from conftest import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"  # builds in one tree would disturb each other
    tree.mkdir()
    for name in ("sdgbench", "methods", "datasets", "leaderboards/published"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(tree)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_installs_only_sdgbench(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        meta = next(n for n in names if n.endswith("METADATA"))
        metadata = archive.read(meta).decode()
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"sdgbench"}
    assert "License-Expression: Apache-2.0" in metadata
    for file in import_graph.modules(ROOT).values():
        assert str(file.relative_to(ROOT)) in names
    assert "sdgbench/report/assets/page.js" in names
    assert "sdgbench/py.typed" in names
    assert "sdgbench/paper/tables/digits.csv" in names


def test_the_wheel_works_away_from_the_checkout(wheel, tmp_path, python):
    """Unpacked elsewhere, it finds its methods and datasets without the repository."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.meta_path[:] = "
        "[f for f in sys.meta_path if 'editable' not in getattr(f, '__name__', str(f)).lower()]\n"
        "import sdgbench; from sdgbench import registry\n"
        "print(sdgbench.__file__); print(registry.get('method', 'erm').file)\n"
        "print(registry.get('dataset', 'digits-mini').load().name)"
    )
    done = python("-c", code, tmp_path / "site", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert Path(first).is_relative_to(tmp_path)
    assert Path(second).is_relative_to(tmp_path)
    assert third == "digits-mini"
