"""Which code, with which packages, made a number."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sdgbench import registry
from sdgbench.errors import UserError
from sdgbench.records.schema import Code, Record
from sdgbench.spec.run_spec import RunSpec

PACKAGES = (
    "torch",
    "torchvision",
    "timm",
    "segmentation-models-pytorch",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "pillow",
    "matplotlib",
)


def code(spec: RunSpec | None = None) -> Code:
    """The version, in a checkout its commit and whether it was edited, and the files' hashes."""
    package = Path(__file__).resolve().parents[1]
    commit = dirty = None
    top = _git(package, "rev-parse", "--show-toplevel")
    if top and Path(top) / "sdgbench" == package:  # and not some repository around site-packages
        commit = _git(package, "rev-parse", "HEAD")
        dirty = bool(_git(package.parent, "status", "--porcelain", "--untracked-files=no"))
    return Code(
        version=version("sdgbench"),
        commit=commit,
        dirty=dirty,
        method_file_sha256=_source("method", spec.method) if spec else None,
        dataset_file_sha256=_source("dataset", spec.dataset) if spec else None,
    )


def _source(kind: registry.Kind, name: str) -> str | None:
    """The hash of a registered file; a model that was trained elsewhere has no method."""
    entry = registry.entries(kind).get(name)
    return entry.source_sha256 if entry else None


def packages() -> dict[str, str]:
    """Versions of Python and of the packages that numbers may depend on."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "missing"
    return versions


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def check_known(record: Record) -> None:
    """Refuse a record whose method or dataset is not known here; the error names its file."""
    spec, code = record.spec, record.code
    for kind, name, sha256 in (
        ("method", spec.method, code.method_file_sha256),
        ("dataset", spec.dataset, code.dataset_file_sha256),
    ):
        if name not in registry.entries(kind):
            raise UserError(
                f'The {kind} "{name}" is not known here. Add its file '
                f"(sha256 {(sha256 or 'unknown')[:12]}...) with --plugin."
            )
