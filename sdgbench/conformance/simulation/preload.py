"""The library that answers in place of the CUDA runtime, and the environment that loads it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from sdgbench.errors import UserError

SOURCE = Path(__file__).with_name("fake_cuda.c")
COMPILERS = ("cc", "gcc", "clang")


def missing() -> str | None:
    """Say why no GPU can be simulated here, or None where it can."""
    if sys.platform != "linux":
        return "a GPU can be simulated on Linux only"
    if not any(map(shutil.which, COMPILERS)):
        return f"simulating a GPU needs a C compiler ({', '.join(COMPILERS)})"
    return None


def environment(folder: Path) -> dict[str, str]:
    """Build the library in ``folder``; returns the variables of a process that simulates a GPU."""
    if reason := missing():
        raise UserError(f"{reason[0].upper()}{reason[1:]}.")
    compiler = next(filter(None, map(shutil.which, COMPILERS)))
    library = folder / "libfake_cuda.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1"]
    built = subprocess.run(
        [*command, "-o", str(library), str(SOURCE)], capture_output=True, text=True
    )
    if built.returncode:
        raise UserError(f"{compiler} could not build {SOURCE.name}: {built.stderr.strip()[:500]}")
    others = [path for path in (os.environ.get("LD_PRELOAD"),) if path]
    return {**os.environ, "LD_PRELOAD": ":".join([str(library), *others]), "OMP_NUM_THREADS": "1"}
