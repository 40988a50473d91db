"""Kills a running matrix at random moments, in every mode of running, until it is finished.

Its weights and results must equal those of a matrix that was left alone, and ``verify`` must
agree with it. Limits follow from how long that one took, so a busy machine is no hang.
"""

import json
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.processes import (
    Command,
    born,
    descendants,
    end_all,
    environment,
    kill,
    wait_until,
    words_of,
)
from fuzz.tally import Tally

RUN = ("--method", "erm,mada", "--dataset", "digits-mini", "--preset", "smoke", "--retry")
STRIKES = 6  # of a matrix, about: the mean time between them is this part of its time
FEWEST = 3  # strikes of a matrix, however long they take
EARLY = 0.15  # the share of strikes that come at any moment, also before the runs begin
SLACK, LEAST = 8, 120.0  # a hang: this many times as long as measured, and these seconds more
# What a command may say after a kill, with exit code 1: the processes of the killed command still
# work, a job was killed, or the process of a run was killed too often. The next command goes on.
EXCUSES = (
    " is in use by ",
    "its job ended without a result",
    "times in a row without progress",
)


@dataclass(frozen=True)
class Mode:
    """One way to run a matrix."""

    name: str
    strikes: tuple[str, ...]  # what can be killed
    options: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()  # arguments of torchrun
    like: str = "alone"  # the mode whose weights it must reach

    def arguments(self, runs: Path, data: Path) -> list[str]:
        folders = ("--runs", str(runs), "--data", str(data), "--checkpoint-minutes", "0")
        return [*self.launcher, "run", *RUN, *folders, *self.options]


MODES = (
    Mode("alone", ("all",)),
    Mode("jobs", ("all", "command", "worker"), ("--jobs", "2")),
    Mode(
        "torchrun",
        ("all", "command", "worker"),
        launcher=("--standalone", "--nproc-per-node", "2", "-m", "sdgbench"),
        like="torchrun",
    ),
    Mode(
        "slurm",
        ("all", "command", "job", "requeue"),
        ("--launcher", "slurm", "--slurm", "cpus=1", "--wait"),
    ),
)


# One matrix ------------------------------------------------------------------------------------


@dataclass
class Reference:
    """A matrix that was left alone."""

    seconds: float  # from its first run to its end
    outcome: dict[str, bytes]


@dataclass
class Killer:
    """Kills matrices in a folder, and counts it."""

    folder: Path
    tally: Tally
    loading: float  # seconds that a process takes to load torch and sdgbench
    seed: int = 0
    references: dict[str, Reference] = field(default_factory=dict)
    matrices: int = 0

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def limit(self, seconds: float) -> float:
        """After how many seconds a command that should take these counts as hanging."""
        return LEAST + SLACK * (seconds + 3 * self.loading)

    def soak(self, mode: Mode, seconds: float) -> None:
        """Kill a matrix for some time, let it finish, and compare it."""
        if not (reference := self.references.get(mode.like) or self._reference(mode.like)):
            return
        self.matrices += 1
        runs = self.folder / f"killed-{self.matrices}"
        name = f"matrix {self.matrices}, {mode.name}"
        matrix = Matrix(
            self, mode, reference, runs, name, random.Random(f"{self.seed} {self.matrices}")
        )
        try:
            matrix.soak(time.monotonic() + seconds)
        finally:
            matrix.end_orphans()
        shutil.rmtree(runs, ignore_errors=True)

    def _reference(self, name: str) -> Reference | None:
        mode = next(mode for mode in MODES if mode.name == name)
        runs = self.folder / f"whole-{name}"
        command = Command(mode.arguments(runs, self.data), self.folder / "log")
        began = time.monotonic()
        try:
            wait_until(lambda: owners(runs) or command.poll() is not None, self.limit(0))
            began = time.monotonic()
            ended = wait_until(lambda: command.poll() is not None, self.limit(60))
        finally:
            end_all(command)
        if not ended:
            self.tally.add("hangs", f"{name}: without a kill\n{command.tail()}")
        elif command.poll():
            self.tally.add("lost", f"{name}: it failed without a kill\n{command.tail()}")
        else:
            self.references[name] = Reference(time.monotonic() - began, outcome(runs))
        return self.references.get(name)


@dataclass
class Matrix:
    """One matrix that is killed."""

    killer: Killer
    mode: Mode
    reference: Reference
    runs: Path
    name: str
    rng: random.Random
    strikes: int = 0
    orphans: dict[int, int | None] = field(default_factory=dict)  # of commands that were killed

    def __post_init__(self) -> None:
        self.tally, self.limit = self.killer.tally, self.killer.limit(self.reference.seconds)
        self._nudged = 0.0

    def soak(self, until: float) -> None:
        """Start it again and again; after a moment, and the fewest kills, without more of them."""
        while (finished := self._attempt(until)) is None:
            if time.monotonic() > until + self.limit:
                self._wrong("hangs", f"it never finishes after {self.strikes} kills")
                return
        if finished:
            self._compare()

    def _attempt(self, until: float) -> bool | None:
        """Whether the matrix finished; None: start it again."""
        arguments = self.mode.arguments(self.runs, self.killer.data)
        command = Command(arguments, self.killer.folder / "log")
        wounded = False
        try:
            while self._may_strike(until) and self._reach_a_moment(command):
                what = self.rng.choice(self.mode.strikes)
                if not self._strike(what, command):
                    continue
                self.strikes += 1
                self.tally.kill(self.mode.name, what)
                if what in ("all", "command"):
                    return None
                wounded = True
            if not self._wait(lambda: command.poll() is not None):
                self._wrong("hangs", f"after {self.strikes} kills", command)
                return False
        finally:
            end_all(command)
        text = command.text()
        if command.poll() and self.strikes:
            if wounded and self.mode.name == "torchrun":
                return None  # it ends all processes when one dies
            if any(excuse in text for excuse in EXCUSES):
                time.sleep(1.0)
                return None
        if "Traceback" in text:
            self._wrong("tracebacks", f"exit code {command.poll()}", command)
            return False
        if command.poll():
            self._wrong("lost", f"exit code {command.poll()}", command)
            return False
        return True

    def _may_strike(self, until: float) -> bool:
        return self.strikes < FEWEST or time.monotonic() < until

    def _reach_a_moment(self, command: Command) -> bool:
        """Wait for a random moment; False: the command ended before."""
        if self.rng.random() < EARLY:
            loading = 0.1 if self.mode.name == "alone" else self.killer.loading
            mean = min(loading, self.reference.seconds) / 2
        else:
            mean = self.reference.seconds / STRIKES * (1 + self.strikes / 8)
            if not self._wait(lambda: owners(self.runs) or command.poll() is not None):
                return False  # no run begins: waiting for the end of the command will show it
        moment = time.monotonic() + self.rng.uniform(0.0, 2 * mean)
        self._wait(lambda: time.monotonic() > moment or command.poll() is not None)
        return command.poll() is None

    def _strike(self, what: str, command: Command) -> bool:
        """Kill something; False: there was nothing to kill."""
        below = descendants(command.pid)
        if what == "command":
            self.orphans |= below
            command.kill()
        elif what == "worker":
            if not below:
                return False
            kill(*self.rng.choice(list(below.items())))
        elif what == "job":
            if not (jobs := self._jobs()):
                return False
            kill(*self.rng.choice(list(jobs.items())))
        elif what == "requeue":
            if not (queued := self._queued()):
                return False
            return slurm("scontrol", "requeue", self.rng.choice(queued))
        else:
            for job in self._jobs().items() if self.mode.name == "slurm" else ():
                kill(*job)
            end_all(command)
        return True

    def _jobs(self) -> dict[int, int | None]:
        """The processes of Slurm's jobs that work on the runs: no others of the same number."""
        births = {pid: born(pid) for pid in owners(self.runs).values()}
        return {pid: birth for pid, birth in births.items() if str(self.runs) in words_of(pid)}

    def _queued(self) -> list[str]:
        """The jobs that are recorded for the runs."""
        jobs = []
        for file in sorted(self.runs.glob("*/*/*/queued.json")):
            with suppress(OSError, ValueError, KeyError):  # it ended meanwhile
                jobs.append(json.loads(file.read_text())["job"])
        return jobs

    def _wait(self, condition: Callable[[], object]) -> bool:
        def nudge() -> bool:
            # Slurm lets a job that was queued again wait for two minutes.
            if self.mode.name == "slurm" and time.monotonic() > self._nudged + 3:
                self._nudged = time.monotonic()
                for job in self._queued():
                    slurm("scontrol", "update", f"jobid={job}", "StartTime=now")
            return bool(condition())

        return wait_until(nudge, self.limit)

    def _compare(self) -> None:
        self.tally.matrices[self.mode.name] += 1
        actual = outcome(self.runs)
        for key, value in self.reference.outcome.items():
            if key not in actual:
                self._wrong("lost", key)
            elif actual[key] != value:
                self._wrong("different", key)
        arguments = ["verify", "--runs", str(self.runs), "--data", str(self.killer.data)]
        command = Command(arguments, self.killer.folder / "log")
        wait_until(lambda: command.poll() is not None, self.limit)
        if command.poll() != 0:
            self._wrong("different", "verify does not agree", command)
        end_all(command)
        for log in self.runs.glob(".slurm/**/*.err"):
            if "Traceback" in (text := log.read_text(errors="replace")):
                self._wrong("tracebacks", f"{log.name}\n{text[-2000:]}")
        if not wait_until(lambda: not self._left(), self.limit):
            self._wrong("hangs", "a process outlives its matrix")

    def _left(self) -> list[int]:
        """The processes of killed commands that still live."""
        return [pid for pid, birth in self.orphans.items() if birth and born(pid) == birth]

    def end_orphans(self) -> None:
        """End what commands that were killed left behind."""
        for pid in self._left():
            kill(pid, self.orphans[pid])
        if self.mode.name == "slurm":
            slurm("scancel", "--user=root", "--full", "--signal=KILL")
            slurm("scancel", "--user=root")
            wait_until(lambda: not slurm_queue(), 60.0)

    def _wrong(self, kind: str, text: str, command: Command | None = None) -> None:
        self.tally.add(kind, f"{self.name}: {text}" + (f"\n{command.tail()}" if command else ""))


def owners(runs: Path) -> dict[Path, int]:
    """The runs that a process works on, and the process, by the owners of their locks."""
    from sdgbench import storage

    pids = {}
    for file in sorted(runs.glob("*/*/*/owner")):
        with suppress(OSError, ValueError, IndexError):
            if storage.is_locked(file.parent):
                pids[file.parent] = int(file.read_text().split()[-1])
    return pids


def slurm(*words: str) -> bool:
    """Run a command of Slurm; whether it worked."""
    return subprocess.run(words, capture_output=True, env=environment()).returncode == 0


def slurm_queue() -> str:
    done = subprocess.run(["squeue", "-h"], capture_output=True, text=True, env=environment())
    return done.stdout.strip()


def outcome(runs: Path) -> dict[str, bytes]:
    """The weights and results of each finished run, as bytes."""
    import torch

    by_run = {}
    for path in sorted(runs.glob("*/*/*/record.json")):
        method = path.parts[-3]
        results = json.loads(path.read_bytes())["results"]
        by_run[f"{method} results"] = json.dumps(results, sort_keys=True).encode()
        state = torch.load(path.with_name("checkpoint.pt"), weights_only=True)
        for name, tensor in state["method"]["network"].items():
            by_run[f"{method} {name}"] = tensor.numpy().tobytes()
    return by_run
