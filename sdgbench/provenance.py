"""Which code, with which packages, made a number."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sdgbench import __version__

PACKAGES = (
    "torch", "torchvision", "timm", "segmentation-models-pytorch", "numpy", "scipy",
    "scikit-learn", "pandas", "pillow", "matplotlib",
)  # fmt: skip


def code() -> dict[str, Any]:
    """The version and, when running from a checkout, the commit and whether it was edited."""
    package = Path(__file__).resolve().parent
    found: dict[str, Any] = {"version": __version__, "commit": None, "dirty": None}
    top = _git(package, "rev-parse", "--show-toplevel")
    if top and Path(top) / "sdgbench" == package:  # and not some repository around site-packages
        found["commit"] = _git(package, "rev-parse", "HEAD")
        found["dirty"] = bool(_git(package.parent, "status", "--porcelain", "--untracked-files=no"))
    return found


def packages() -> dict[str, str]:
    """Versions of Python and of the packages that numbers may depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
