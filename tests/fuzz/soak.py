"""``make soak``: the tests of damage with more mutations, again and again, and random kills.

Each round has other random numbers. Prints what was tried, and what went wrong.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MUTATIONS, FILES, STATES = 300, 12, 30
RUN = ("run", "--method", "erm,mada", "--dataset", "digits-mini", "--preset", "smoke")
MODES = ((), ("--jobs", "2"))


def main(minutes: float) -> int:
    """Alternate between damage and kills until the time is over."""
    end, rounds = time.monotonic() + 60 * minutes, 0
    tried = {"mutations": 0, "crash states": 0, "kills": 0, "killed matrices": 0}
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="sdgbench-soak-") as name:
        folder = Path(name)
        expected = weights(run_whole(folder / "whole", folder / "data"))
        while time.monotonic() < end and len(wrong) < 10:
            rounds += 1
            wrong += damage(rounds)
            tried["mutations"] += MUTATIONS * FILES
            tried["crash states"] += STATES
            if time.monotonic() < end:
                kills, different = kill(folder, rounds, expected)
                tried["kills"] += kills
                tried["killed matrices"] += 1
                wrong += different
    print(", ".join(f"{count:,} {what}" for what, count in tried.items()))
    print(f"{len(wrong)} wrong" + "".join(f"\n  {text}" for text in wrong))
    return 1 if wrong else 0


def damage(number: int) -> list[str]:
    """One round of mutations and crash states."""
    env = {
        **os.environ,
        "SDGBENCH_FUZZ": str(MUTATIONS),
        "SDGBENCH_FUZZ_SEED": str(number),
        "SDGBENCH_CRASH_STATES": str(STATES),
    }
    tests = ("tests/fuzz", "tests/storage/test_crash_points.py", "tests/training/test_damage.py")
    command = [sys.executable, "-m", "pytest", "-q", *tests]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=3000, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines or ([f"pytest ended with {done.returncode}"] if done.returncode else [])


def start(runs: Path, data: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start the matrix in a process group of its own."""
    command = [sys.executable, "-m", "sdgbench", *RUN, "--checkpoint-minutes", "0"]
    folders = ["--runs", str(runs), "--data", str(data)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*command, *folders, *more], start_new_session=True, **quiet)


def run_whole(runs: Path, data: Path) -> Path:
    """Run the matrix without a kill."""
    assert start(runs, data).wait() == 0
    return runs


def kill(folder: Path, number: int, expected: dict[str, bytes]) -> tuple[int, list[str]]:
    """Kill a matrix at random moments until it is finished; what differs from the whole one."""
    rng, runs, kills = random.Random(number), folder / "killed", 0
    shutil.rmtree(runs, ignore_errors=True)
    while kills < 200:
        process = start(runs, folder / "data", *MODES[number % len(MODES)])
        try:
            code = process.wait(timeout=rng.uniform(2, 12) + kills / 4)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        if code == 0:
            found = weights(runs)
            different = [key for key in expected if found.get(key) != expected[key]]
            return kills, [f"round {number}: {key} differs" for key in different]
        return kills, [f"round {number}: exit code {code}"]
    return kills, [f"round {number}: not finished after {kills} kills"]


def weights(runs: Path) -> dict[str, bytes]:
    """The weights of each finished run, as bytes."""
    import torch

    by_run = {}
    for path in sorted(runs.glob("*/*/*/record.json")):
        state = torch.load(path.with_name("checkpoint.pt"), weights_only=True)
        for name, tensor in state["method"]["network"].items():
            by_run[f"{path.parts[-3]} {name}"] = tensor.numpy().tobytes()
    return by_run


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 30))
