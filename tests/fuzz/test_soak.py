"""The soak itself: what it counts, and that it can fail."""

import subprocess
import sys
from collections import Counter

import pytest
from fuzz import kills, processes, soak
from fuzz.tally import WRONG, Tally


def test_the_tally_counts_by_mode_and_kind():
    tally = Tally()
    for what in ("all", "worker", "all"):
        tally.kill("jobs", what)
    tally.matrices["jobs"] += 1
    for _ in range(2):  # two turns on the same run
        tally.add_damage(Counter({"mutations (mat)": 300, "crash points": 200, "crash states": 30}))
    tally.add("different", "matrix 1, jobs: erm head.weight")
    text = tally.summary(["jobs", "torchrun", "damage"])
    for line in (
        "kills: 3",
        "  jobs: 3 kills (all 2, worker 1), 1 matrices finished",
        "  torchrun: 0 kills (none), 0 matrices finished",
        "mutations: 600",
        "  mat: 600",
        "crash points: 200 in a run; resumed from 60 states of them",
        "different: matrix 1, jobs: erm head.weight",
        "not tried: torchrun; it needs more minutes",
        "0 lost, 1 different, 0 tracebacks, 0 hangs, 0 silent",
    ):
        assert line in text.splitlines(), text


@pytest.mark.parametrize("wrong", [None, "untried", *WRONG])
def test_it_fails_if_anything_is_wrong_or_nothing_was_tried(wrong, monkeypatch, capsys):
    def kill(self, mode, seconds):
        if wrong != "untried":
            self.tally.kill(mode.name, "all")
        if wrong in WRONG:
            self.tally.add(wrong, "something")

    monkeypatch.setattr(processes, "preload", lambda: 0.0)
    monkeypatch.setattr(kills.Killer, "soak", kill)
    monkeypatch.setattr(soak.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["soak", "0.0001", "--only", "alone"])
    assert soak.main() == (0 if wrong is None else 1)
    assert "lost" in capsys.readouterr().out.splitlines()[-1]


def test_processes_below_a_command_are_found_and_killed():
    inner = "import time; print(1, flush=True); time.sleep(600)"
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', sys.argv[1]], "
        "start_new_session=True); p.wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, inner], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()  # the inner one runs
        ((pid, birth),) = processes.descendants(process.pid).items()
        processes.kill(pid, birth + 1)  # another process of this number
        assert processes.born(pid) == birth
        processes.kill(pid, birth)
        process.wait(60)
        assert processes.born(pid) is None
    finally:
        process.kill()
        process.stdout.close()


def test_a_matrix_that_differs_is_noticed(monkeypatch, tmp_path):
    """The comparison at the end, with other results than those of the reference."""
    tally = Tally()
    killer = kills.Killer(tmp_path, tally, 0.0)
    reference = kills.Reference(1.0, {"erm results": b"1", "erm a": b"2", "mada a": b"3"})
    monkeypatch.setattr(kills, "outcome", lambda runs: {"erm results": b"1", "erm a": b"other"})

    class Verified:
        def __init__(self, *_):
            self.pid = 0

        def poll(self):
            return 0

    monkeypatch.setattr(kills, "Command", Verified)
    kills.Matrix(killer, kills.MODES[0], reference, tmp_path / "runs", "m", None)._compare()
    assert tally.wrong == [("different", "m: erm a"), ("lost", "m: mada a")]
