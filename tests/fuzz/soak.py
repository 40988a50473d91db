"""``make soak``: damage files, lose power and kill runs for some minutes, and count it all.

Each round has other random numbers: the tests of damage with more mutations, then a matrix that is
killed at random moments until it is finished. The weights must equal those of a matrix that was
left alone. The modes of running take turns; those that this machine lacks are named and left out.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import slurm_cluster  # noqa: E402
from fuzz import counts  # noqa: E402

MUTATIONS, STATES = 300, 30  # of each kind of file, and crash states, in a round
MOST_KILLS = 60  # of one matrix
LONGEST = 1200.0  # seconds after which a command counts as hanging
TESTS = ("tests/fuzz", "tests/storage/test_crash_points.py", "tests/training/test_damage.py")
KINDS = ("lost", "different", "traceback", "hang", "silent")
RUN = ("--method", "erm,mada", "--dataset", "digits-mini", "--preset", "smoke")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


@dataclass
class Tally:
    """What was tried, and what went wrong."""

    tried: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, str]] = field(default_factory=list)  # kind and what happened

    def add(self, kind: str, text: str) -> None:
        self.wrong.append((kind, text))

    def __str__(self) -> str:
        kinds = Counter(kind for kind, _ in self.wrong)
        lines = ["tried: " + ", ".join(f"{n:,} {what}" for what, n in sorted(self.tried.items()))]
        lines.append("wrong: " + ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS))
        return "\n".join(lines + [f"  {kind}: {text}" for kind, text in self.wrong])


@dataclass(frozen=True)
class Mode:
    """One way to run a matrix."""

    name: str
    before: tuple[str, ...] = ("-m", "sdgbench")  # after the interpreter
    options: tuple[str, ...] = ()
    like: str = ""  # the mode that its weights must equal; empty: its own, left alone

    def command(self, runs: Path, data: Path) -> list[str]:
        before = [text.format(port=free_port()) for text in self.before]
        folders = ("--runs", str(runs), "--data", str(data), "--checkpoint-minutes", "0")
        return [sys.executable, *before, "run", *RUN, *folders, *self.options]


ALONE = Mode("alone")
TORCHRUN = (
    "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "{port}",
    "-m", "sdgbench",
)  # fmt: skip
MODES = (
    ALONE,
    Mode("--jobs 2", options=("--jobs", "2"), like="alone"),
    Mode("torchrun", before=TORCHRUN),
    Mode(
        "Slurm",
        options=("--launcher", "slurm", "--slurm", "cpus=1", "--wait"),
        like="alone",
    ),
)


def main(minutes: float) -> int:
    """Alternate between damage and kills until the time is over."""
    end, rounds, tally = time.monotonic() + 60 * minutes, 0, Tally()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sdgbench-soak-")))
        modes = list(MODES)
        if reason := slurm_cluster.why_not():
            modes.pop()
            print(f"without Slurm: {reason}", flush=True)
        else:
            stack.enter_context(slurm_cluster.cluster())
        expected: dict[str, dict[str, bytes]] = {}
        while time.monotonic() < end and len(tally.wrong) < 10:
            mode = modes[rounds % len(modes)]
            rounds += 1
            kill(mode, folder, rounds, expected, tally)
            if time.monotonic() < end:
                damage(rounds, folder / "counts", tally)
            print(f"round {rounds} ({mode.name})\n{tally}", flush=True)
    return 1 if tally.wrong else 0


# Damage ----------------------------------------------------------------------------------------


def damage(number: int, file: Path, tally: Tally) -> None:
    """One round of mutations and crash states."""
    file.unlink(missing_ok=True)
    env = {
        **ENVIRONMENT,
        "SDGBENCH_FUZZ": str(MUTATIONS),
        "SDGBENCH_FUZZ_SEED": str(number),
        "SDGBENCH_CRASH_STATES": str(STATES),
        counts.VARIABLE: str(file),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=3 * LONGEST
        )
    except subprocess.TimeoutExpired:
        tally.add("hang", f"round {number}: the tests of damage")
        return
    tally.tried += counts.read(file)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    for line in lines or ([f"pytest ended with {done.returncode}"] if done.returncode else []):
        # An assertion is about what came out; anything else is an error that nobody caught.
        tally.add("silent" if "Assertion" in line else "traceback", f"round {number}: {line}")


# Kills -----------------------------------------------------------------------------------------


def kill(
    mode: Mode, folder: Path, number: int, expected: dict[str, dict[str, bytes]], tally: Tally
) -> None:
    """Kill a matrix at random moments until it is finished, and compare its weights."""
    data = folder / "data"
    reference = next(other for other in MODES if other.name == (mode.like or mode.name))
    if reference.name not in expected:
        began, whole = time.monotonic(), folder / f"whole-{reference.name}"
        process = start(reference.command(whole, data), folder / "log")
        try:
            code = process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            end_all(process)
            tally.add("hang", f"{reference.name}: longer than {LONGEST:.0f} s without a kill")
            return
        if code:
            tally.add("lost", f"{reference.name}: it failed without a kill\n{tail(folder / 'log')}")
            return
        expected[reference.name] = weights(whole)
        expected.setdefault("seconds", {})[reference.name] = str(time.monotonic() - began).encode()
    seconds = float(expected["seconds"][reference.name])
    rng, runs, kills = random.Random(number), folder / "killed", 0
    shutil.rmtree(runs, ignore_errors=True)
    while True:
        process = start(mode.command(runs, data), folder / "log")
        try:
            patience = rng.uniform(0.3, 1.0) * seconds * (1 + kills / 8)
            code = process.wait(LONGEST if kills >= MOST_KILLS else patience)
        except subprocess.TimeoutExpired:
            if kills >= MOST_KILLS:
                tally.add("hang", f"round {number}, {mode.name}: after {kills} kills")
                end_all(process)
                return
            strike(mode, process, runs, rng)
            kills += 1
            tally.tried[f"kills ({mode.name})"] += 1
            continue
        text = (folder / "log").read_text(errors="replace")
        if "Traceback" in text and mode.name != "torchrun":  # torchrun prints its own
            tally.add("traceback", f"round {number}, {mode.name}\n{tail(folder / 'log')}")
            return
        if code and kills < MOST_KILLS and mode.name in ("Slurm", "torchrun"):
            kills += 1  # one of its processes was killed before, and it says so
            continue
        break
    tally.tried[f"killed matrices ({mode.name})"] += 1
    if code:
        tally.add("lost", f"round {number}, {mode.name}: exit code {code}\n{tail(folder / 'log')}")
    actual = weights(runs)
    for key, value in expected[reference.name].items():
        if key not in actual:
            tally.add("lost", f"round {number}, {mode.name}: {key}")
        elif actual[key] != value:
            tally.add("different", f"round {number}, {mode.name}: {key}")


def start(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    """Start a matrix in a process group of its own."""
    with log.open("wb") as file:
        return subprocess.Popen(
            command, start_new_session=True, stdout=file, stderr=file, env=ENVIRONMENT
        )


def strike(mode: Mode, process: "subprocess.Popen[bytes]", runs: Path, rng: random.Random) -> None:
    """Kill all processes of a matrix; under Slurm and torchrun sometimes only one of them."""
    one = mode.name in ("Slurm", "torchrun") and rng.random() < 0.5
    if mode.name == "Slurm":
        for pid in owners(runs)[: 1 if one else None]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if one:
            with suppress(subprocess.TimeoutExpired):
                process.wait(LONGEST)  # the others finish, and it says which one died
        end_all(process)
        return
    workers = descendants(process.pid)
    if one and workers:
        with suppress(ProcessLookupError):
            os.kill(rng.choice(workers), signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)  # torchrun ends the others
    end_all(process)


def end_all(process: "subprocess.Popen[bytes]") -> None:
    """Kill a command and all processes that it has started: torchrun's have their own groups."""
    for pid in (process.pid, *descendants(process.pid)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    parents: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parent = int(file.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(file.parent.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def owners(runs: Path) -> list[int]:
    """The processes that work on runs, by the owners of their locks."""
    from sdgbench import storage

    pids = []
    for file in sorted(runs.glob("*/*/*/owner")):
        with suppress(OSError, ValueError, IndexError):
            if storage.is_locked(file.parent):
                pids.append(int(file.read_text().split()[-1]))
    return pids


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


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
