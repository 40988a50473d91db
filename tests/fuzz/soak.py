"""``make soak``: damage files, lose power and kill runs for some minutes, and count it all.

The modes of running and the tests of damage share the time evenly, each at least once. Those that
this machine lacks are named and left out. Each turn has other random numbers, by the seed.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import slurm_cluster  # noqa: E402
from fuzz import counts, kills, processes  # noqa: E402
from fuzz.tally import DAMAGE, Tally  # noqa: E402

MUTATIONS, STATES = 300, 30  # of each kind of file, and crash states, in a turn
TURNS = 3  # of each activity, about
MOST_WRONG = 10  # then it ends
TESTS = (  # what is random in them; the others are the same each time
    "tests/fuzz/test_readers.py",
    "tests/fuzz/test_verify.py",
    "tests/storage/test_crash_points.py::test_a_run_resumes_bit_for_bit_from_every_crash_point",
)
ACTIVITIES = (kills.MODES[0].name, DAMAGE, *(mode.name for mode in kills.MODES[1:]))


def main() -> int:
    """Soak, print a summary and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=30.0)
    parser.add_argument(
        "--only", action="append", choices=ACTIVITIES, help="only this; may be repeated"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    asked = parser.parse_args()
    activities = [name for name in ACTIVITIES if not asked.only or name in asked.only]
    if "slurm" in activities and (reason := slurm_cluster.why_not()):
        activities.remove("slurm")
        print(f"without Slurm: {reason}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the cluster ends with it
    began, tally, stopped = time.monotonic(), Tally(), False
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sdgbench-soak-")))
        if "slurm" in activities:
            stack.enter_context(slurm_cluster.cluster())
        killer = kills.Killer(folder, tally, processes.preload(), asked.seed)
        print(
            f"{asked.minutes:g} minutes, seed {asked.seed}; "
            f"a process loads in {killer.loading:.1f} s",
            flush=True,
        )
        try:
            take_turns(activities, killer, began, 60 * asked.minutes)
        except KeyboardInterrupt:
            stopped = True
    print(f"\n{(time.monotonic() - began) / 60:.1f} minutes{', stopped by hand' * stopped}")
    print(tally.summary(activities))
    if stopped:
        return 130
    return 1 if tally.wrong or not activities or tally.untried(activities) else 0


def take_turns(activities: list[str], killer: kills.Killer, began: float, seconds: float) -> None:
    """Give the turn to whatever had the least time so far, until the time is over."""
    tally, used = killer.tally, dict.fromkeys(activities, 0.0)
    turn = 0
    while activities and len(tally.wrong) < MOST_WRONG:
        if time.monotonic() - began > seconds and all(used.values()):
            return
        name = min(used, key=used.__getitem__)
        turn += 1
        start = time.monotonic()
        if name == DAMAGE:
            damage(killer.seed + turn, killer)
        else:
            mode = next(mode for mode in kills.MODES if mode.name == name)
            killer.soak(mode, seconds / len(activities) / TURNS)
        used[name] += time.monotonic() - start
        minutes = (time.monotonic() - began) / 60
        print(f"{minutes:5.1f} min  {tally.line(name)}; {tally.wrongs()}", flush=True)


def damage(seed: int, killer: kills.Killer) -> None:
    """One turn of mutations and crash states."""
    file, tally = killer.folder / "counts", killer.tally
    file.unlink(missing_ok=True)
    env = {
        **processes.environment(),
        "SDGBENCH_FUZZ": str(MUTATIONS),
        "SDGBENCH_FUZZ_SEED": str(seed),
        "SDGBENCH_CRASH_STATES": str(STATES),
        counts.VARIABLE: str(file),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=killer.limit(120)
        )
    except subprocess.TimeoutExpired:
        tally.add("hangs", f"seed {seed}: the tests of damage")
        return
    tally.add_damage(counts.read(file))
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    for line in lines or ([f"pytest ended with {done.returncode}"] if done.returncode else []):
        # An assertion is about what came out; anything else is an error that nobody caught.
        tally.add("silent" if "Assertion" in line else "tracebacks", f"seed {seed}: {line}")


if __name__ == "__main__":
    sys.exit(main())
