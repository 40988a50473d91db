"""A matrix in two processes over the same in one, each process with one thread."""

import os
import shutil
import subprocess
import sys

import pytest

RUNS = 8


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_two_processes_over_one(ratio, tmp_path, data):
    """Starting Python and loading torch count for both, as they do for users."""

    def run(jobs, preset="quick", runs=RUNS):
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        command = [
            sys.executable,
            "-m",
            "sdgbench",
            "run",
            "--method",
            "erm",
            "--dataset",
            "digits-mini",
            "--preset",
            preset,
            "--seeds",
            f"0-{runs - 1}",
            "--jobs",
            str(jobs),
            "--runs",
            str(tmp_path / "runs"),
            "--data",
            str(data),
        ]
        subprocess.run(
            command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        assert len(list(tmp_path.glob("runs/*/*/*/record.json"))) == runs

    run(1, "smoke", 1)  # renders the images
    ratio(lambda: run(2), lambda: run(1), rounds=1, warm=False)
