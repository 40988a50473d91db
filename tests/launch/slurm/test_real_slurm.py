"""Matrices on a real Slurm: two nodes on loopback, no accounting."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch
from slurm_cluster import command, wait_for

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.usefixtures("slurm")]

# While the gate is shut a step takes long, so that a running run can be met in its middle.
PLUGIN = '''
import time
from pathlib import Path
import torch
from sdgbench.method import Method, Phase
from sdgbench.registry import register_method

@register_method("gated")
class Gated(Method):
    """Trains on noisy images, slowly until a file appears."""

    def plan(self):
        return [Phase("train", 200)]

    def train_step(self, x, y):
        if not Path("{gate}").exists():
            time.sleep(0.5)
        return self.optimise(self.task.loss(self.network(x + 0.01 * torch.randn_like(x)), y))

@register_method("unlucky")
class Unlucky(Method):
    """Fails on seed 5."""

    def train_step(self, x, y):
        if self.seed == 5:
            raise RuntimeError("seed 5 is unlucky")
        return self.optimise(self.task.loss(self.network(x), y))
'''


@pytest.fixture
def arguments(tmp_path):
    """Build the arguments of a run command."""
    (tmp_path / "plugin.py").write_text(PLUGIN.format(gate=tmp_path / "gate"))

    def build(method, seeds, *more, launcher="slurm", runs="runs"):
        slurm = ("--slurm", "cpus=1") if launcher == "slurm" else ()
        return (
            "run",
            "--plugin",
            "plugin.py",
            "--method",
            method,
            "--dataset",
            "digits-mini",
            "--preset",
            "smoke",
            "--set",
            "recipe.batch=8",
            "--seeds",
            seeds,
            "--runs",
            runs,
            "--launcher",
            launcher,
            *slurm,
            *more,
        )

    return build


@pytest.fixture
def start(tmp_path):
    """Start the command as a process of its own."""
    started = []

    def run(*arguments):
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "sdgbench", *arguments],
                cwd=tmp_path,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(autouse=True)
def _no_job_is_left():
    yield
    command("scancel", "--user=root", "--full", "--signal=KILL")
    command("scancel", "--user=root")
    wait_for(lambda: not command("squeue", "-h").strip(), "an empty queue")


def files_by_seed(folder, name):
    """The files of this name of all runs in a folder, by seed."""
    files = [path for path in folder.glob(f"*/*/*/{name}") if path.with_name("spec.json").exists()]
    return {json.loads(path.with_name("spec.json").read_text())["seed"]: path for path in files}


def read(folder, name):
    return {
        seed: json.loads(path.read_text()) for seed, path in files_by_seed(folder, name).items()
    }


def weights(folder):
    return {
        seed: torch.load(path, weights_only=True)["method"]["network"]
        for seed, path in files_by_seed(folder, "checkpoint.pt").items()
    }


def queue_files(folder):
    return list(folder.glob("*/*/*/queued.json"))  # also of runs that have not begun


def start_soon(jobs, pending_since):
    """Start jobs that were queued again after five seconds instead of Slurm's two minutes.

    Not at once: for a moment slurmd refuses a job that it has just ended, and the job then fails.
    """
    for job in jobs:
        text = command("scontrol", "show", "job", job)
        if "JobState=PENDING" in text:
            since = pending_since.setdefault((job, restarts(job)), time.monotonic())
            if time.monotonic() - since > 5:
                subprocess.run(
                    ["scontrol", "update", f"jobid={job}", "StartTime=now"], capture_output=True
                )


def restarts(job):
    return int(re.search(r"Restarts=(\d+)", command("scontrol", "show", "job", job))[1])


def process_of(run):
    """The process that works on a run, by the owner of its lock."""
    return int((run / "owner").read_text().split()[-1])


def test_an_array_of_eight_with_one_failing(cli, arguments, tmp_path):
    done = cli(*arguments("unlucky", "0-7", "--wait"))
    assert done.code == 1, done.out + done.err
    assert re.search(r"Submitted 8 runs as job \d+\.", done.out)
    assert len(re.findall(r"seed \d[^)]*\): done", done.out)) == 7
    assert "RuntimeError: seed 5 is unlucky" in done.out
    runs = tmp_path / "runs"
    assert sorted(read(runs, "record.json")) == [0, 1, 2, 3, 4, 6, 7]
    assert {seed: failed["message"] for seed, failed in read(runs, "failed.json").items()} == {
        5: "seed 5 is unlucky"
    }
    assert not queue_files(runs)
    jobs = {path.name.removesuffix("_submitted.pkl") for path in runs.rglob("*_submitted.pkl")}
    first = min(jobs).partition("_")[0]
    assert jobs == {f"{first}_{index}" for index in range(8)}  # one array job
    again = cli(*arguments("unlucky", "0-7"))
    assert again.code == 1
    assert "Submitted" not in again.out
    assert "RuntimeError: seed 5 is unlucky (--retry)" in again.out


def test_killed_timed_out_and_preempted_jobs_end_as_if_nothing_had_happened(
    cli, arguments, tmp_path
):
    runs = tmp_path / "runs"
    assert cli(*arguments("gated", "0-2", "--checkpoint-minutes", "0.02")).code == 0
    wait_for(lambda: len(files_by_seed(runs, "checkpoint.pt")) == 3, "three checkpoints")
    jobs = {seed: queued["job"] for seed, queued in read(runs, "queued.json").items()}

    os.kill(process_of(files_by_seed(runs, "spec.json")[0].parent), signal.SIGKILL)
    wait_for(lambda: "JobState=FAILED" in command("scontrol", "show", "job", jobs[0]), "a failure")
    command("scontrol", "requeue", jobs[0])
    command("scancel", "--signal=USR2", jobs[1])  # as Slurm does before the time limit
    wait_for(lambda: restarts(jobs[0]) and restarts(jobs[1]), "two jobs queued again")
    node = command("squeue", "-h", "-j", jobs[2], "-o", "%N").strip()
    command(
        "sbatch",
        "--partition=urgent",
        f"--nodelist={node}",
        "--exclusive",
        "--wrap=true",
        f"--output={tmp_path}/urgent",
    )
    wait_for(lambda: restarts(jobs[2]), "a preempted job queued again")
    assert not files_by_seed(runs, "failed.json")
    again = cli(*arguments("gated", "0-2"))
    assert "Submitted nothing; 3 already queued or running." in again.out

    (tmp_path / "gate").touch()
    pending_since = {}

    def all_recorded():
        start_soon(jobs.values(), pending_since)
        return len(files_by_seed(runs, "record.json")) == 3

    wait_for(all_recorded, "the records")
    assert cli(*arguments("gated", "0-2", runs="uninterrupted", launcher="local")).code == 0
    records, uninterrupted = (
        read(tmp_path / name, "record.json") for name in ("runs", "uninterrupted")
    )
    for seed in range(3):
        assert records[seed]["cost"]["starts"] >= 2
        assert uninterrupted[seed]["cost"]["starts"] == 1
        assert records[seed]["results"] == uninterrupted[seed]["results"]
    interrupted, whole = weights(runs), weights(tmp_path / "uninterrupted")
    for seed in range(3):
        assert interrupted[seed].keys() == whole[seed].keys()
        assert all(
            torch.equal(interrupted[seed][key], whole[seed][key]) for key in interrupted[seed]
        )
    wait_for(lambda: not queue_files(runs), "no recorded job")


def test_cancel_saves_what_runs_and_leaves_other_folders_alone(cli, arguments, tmp_path):
    runs = tmp_path / "runs"
    assert cli(*arguments("gated", "9", runs="other")).code == 0
    submitted = cli(
        *arguments("gated", "0-4", "--slurm", "parallel=1", "--checkpoint-minutes", "10")
    )
    assert "Submitted 5 runs" in submitted.out
    wait_for(lambda: files_by_seed(runs, "train.jsonl"), "a run under way")
    cancelled = cli("cancel", "--runs", "runs")
    assert cancelled.code == 0
    assert "Cancelled 4 queued and 1 running" in cancelled.out
    assert not queue_files(runs)
    wait_for(lambda: files_by_seed(runs, "checkpoint.pt"), "a saved state")
    wait_for(lambda: len(command("squeue", "-h").splitlines()) == 1, "one job left")
    assert len(queue_files(tmp_path / "other")) == 1
    assert "Nothing of runs is queued" in cli("cancel", "--runs", "runs").out

    (tmp_path / "gate").touch()
    assert cli(*arguments("gated", "0", launcher="local")).code == 0
    assert read(runs, "record.json")[0]["cost"]["starts"] == 2


def test_two_matrices_at_once_share_no_run(start, arguments, tmp_path):
    runs = tmp_path / "runs"
    both = [start(*arguments("gated", seeds)) for seeds in ("0-2", "1-3")]
    printed = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], printed
    counts = [int(re.search(r"Submitted (\d)", text)[1]) for text in printed]
    assert sorted(counts) == [1, 3]
    assert sum("2 already queued or running" in text for text in printed) == 1
    assert len(list(runs.rglob("*_submitted.pkl"))) == len(queue_files(runs)) == 4
    (tmp_path / "gate").touch()
    wait_for(lambda: sorted(files_by_seed(runs, "record.json")) == [0, 1, 2, 3], "four records")
    assert {record["cost"]["starts"] for record in read(runs, "record.json").values()} == {1}


def test_the_submitting_process_dies(start, arguments, tmp_path):
    runs = tmp_path / "runs"
    process = start(*arguments("unlucky", "0-1", "--wait"))
    wait_for(lambda: queue_files(runs), "a submission")
    process.kill()
    process.wait()
    wait_for(lambda: len(files_by_seed(runs, "record.json")) == 2, "two records")
    wait_for(lambda: not queue_files(runs), "no recorded job")
