"""What is submitted and cancelled, with stand-ins for the commands of Slurm."""

import importlib.util
import json
import os
import re
import shutil
import signal
import threading
from pathlib import Path

import pytest

from sdgbench import registry, storage
from sdgbench.launch.slurm import queue, submission
from sdgbench.launch.slurm.job import Job, Unfinished
from sdgbench.records.store import Store

RUN = ("run", "--method", "erm", "--dataset", "digits-mini", "--preset", "smoke")
SLURM = (*RUN, "--launcher", "slurm", "--seeds")
COMMANDS = {
    "sbatch": 'n=$(ls $S/*.sh 2>/dev/null | wc -l); cp "$1" $S/$n.sh; echo Submitted batch job $((n + 1))',
    "squeue": "cat $S/alive",
    "scancel": 'echo "$@" >> $S/cancelled',
    "srun": "exit 9",
}


class Fake:
    """A Slurm that takes everything down and runs nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.alive()
        for name, body in COMMANDS.items():
            self.command(name, body)

    def command(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\nS={self.folder}\n{body}\n")
        path.chmod(0o755)

    def alive(self, *jobs: str, state: str = "PENDING") -> None:
        (self.folder / "alive").write_text("".join(f"{job} {state}\n" for job in jobs))

    def scripts(self) -> list[str]:
        return [path.read_text() for path in sorted(self.folder.glob("*.sh"))]

    def cancelled(self) -> list[str]:
        path = self.folder / "cancelled"
        return sorted(path.read_text().split()) if path.exists() else []


@pytest.fixture
def fake(tmp_path_factory, monkeypatch) -> Fake:
    folder = tmp_path_factory.mktemp("slurm")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return Fake(folder)


def recorded_jobs(runs: Path) -> dict[int, str]:
    return {
        spec_of(path).seed: json.loads(path.read_text())["job"]
        for path in runs.glob("*/*/*/queued.json")
    }


def spec_of(path: Path):
    from sdgbench.spec.resolution import matrix

    specs = matrix(["erm"], ["digits-mini"], range(10), "smoke")
    return next(spec for spec in specs if spec.id == path.parent.name)


def test_the_array_and_what_is_printed(cli, fake, tmp_path):
    (tmp_path / "sdgbench.toml").write_text("[slurm]\npartition = 'gpu'\ngpus = 1\n")
    done = cli(*SLURM, "0-2", "--slurm", "time=1:00:00", "--slurm", "parallel=2")
    assert done.code == 0, done.err
    assert "Submitted 3 runs as job 1." in done.out
    assert "sdgbench status" in done.out
    assert "sdgbench cancel" in done.out
    (script,) = fake.scripts()
    for line in (
        "partition=gpu",
        "gpus-per-node=1",
        "time=60",
        "array=0-2%2",
        "requeue",
        "signal=USR2@90",
        "cpus-per-task=2",
        "open-mode=append",
    ):
        assert f"#SBATCH --{line}\n" in script
    runs = tmp_path / "runs"
    assert recorded_jobs(runs) == {0: "1_0", 1: "1_1", 2: "1_2"}
    queued = json.loads(next(runs.glob("*/*/*/queued.json")).read_text())
    assert queued.keys() == {"job", "launcher", "time"}
    assert queued["launcher"] == "slurm"
    assert list(Store(runs).records()) == []


def test_only_what_is_missing_and_not_queued_is_submitted(cli, fake, tmp_path):
    cli(*RUN, "--seeds", "0")
    first = cli(*SLURM, "0-2")
    assert "Submitted 2 runs as job 1; 1 finished before." in first.out
    fake.alive("1_0", "1_1")
    assert "Submitted nothing; 2 already queued or running; 1 finished" in cli(*SLURM, "0-2").out
    wider = cli(*SLURM, "1-3")
    assert "Submitted 1 run as job 2; 2 already queued or running." in wider.out
    fake.alive("1_1")  # 1_0 and 2 are gone without a result: their records are stale
    healed = cli(*SLURM, "0-3")
    assert "Submitted 2 runs as job 3; 1 already queued or running; 1 finished" in healed.out
    assert recorded_jobs(tmp_path / "runs") == {1: "3_0", 2: "1_1", 3: "3_1"}
    assert len(fake.scripts()) == 3


def test_a_damaged_record_keeps_no_other_run_from_its_job(cli, fake, tmp_path):
    cli(*RUN, "--seeds", "0")
    (record,) = tmp_path.glob("runs/*/*/*/record.json")
    record.write_text("{")
    done = cli(*SLURM, "0-2")
    assert done.code == 2
    assert "Submitted 2 runs as job 1; 1 refused." in done.out
    assert str(record.relative_to(tmp_path)) in done.out
    assert recorded_jobs(tmp_path / "runs").keys() == {1, 2}


def test_all_finished_shows_the_table_and_submits_nothing(cli, fake):
    cli(*RUN)
    done = cli(*SLURM, "0")
    assert done.code == 0
    assert re.search(r"seed 0\)\s+finished before", done.out)
    assert not fake.scripts()


def submitted(runs: Path) -> list[Job]:
    from submitit.core.utils import DelayedSubmission

    return [DelayedSubmission.load(path).function for path in sorted(runs.rglob("*_submitted.pkl"))]


def test_a_job_carries_plugins_and_whole_paths_but_no_redo(cli, fake, tmp_path):
    (tmp_path / "plugin.py").write_text(STOPPING)
    cli(*RUN)
    done = cli(*SLURM, "0", "--redo", "--plugin", "plugin.py", "--data", "there", "--runs", "runs")
    assert "Submitted 1 run as job 1." in done.out, done.err
    (job,) = submitted(tmp_path / "runs")
    assert job.plugins == [tmp_path / "plugin.py"]
    assert job.options["runs"] == tmp_path / "runs"
    assert job.options["data"] == tmp_path / "there"
    assert (job.options["retry"], job.options["redo"]) == (True, False)
    assert not list((tmp_path / "runs").glob("*/*/*/record.json"))


def test_a_failed_run_is_submitted_on_request_only(cli, fake, tmp_path):
    from sdgbench.spec.resolution import resolve

    store = Store(tmp_path / "runs")
    spec = resolve("erm", "digits-mini", "smoke", 0)
    store.fail(spec, RuntimeError("bad luck"))
    done = cli(*SLURM, "0-1")
    assert done.code == 1
    assert "Submitted 1 run as job 1; 1 failed before." in done.out
    assert "RuntimeError: bad luck (--retry)" in done.out
    fake.alive("1")
    assert "Submitted 1 run as job 2; 1 already queued" in cli(*SLURM, "0-1", "--retry").out
    assert store.state(spec) == "new"


def test_more_runs_than_an_array_takes_make_several(cli, fake, tmp_path, monkeypatch):
    monkeypatch.setattr(submission, "MAX_ARRAY", 2)
    assert "Submitted 5 runs as job 1, 2, 3." in cli(*SLURM, "0-4").out
    assert recorded_jobs(tmp_path / "runs") == {0: "1_0", 1: "1_1", 2: "2_0", 3: "2_1", 4: "3"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--launcher", "slrum"), 'No launcher "slrum". Did you mean "slurm"?'),
        (("--wait",), "--slurm and --wait need --launcher slurm."),
        (("--slurm", "gpus=1"), "--slurm and --wait need --launcher slurm."),
        (("--launcher", "slurm", "--slurm", "gpu=1"), 'Did you mean "gpus"?'),
        (("--launcher", "slurm", "--slurm", "gpus"), "is not of the form --slurm key=value"),
        (("--launcher", "slurm", "--device", "coda"), 'No device "coda". Did you mean "cuda"?'),
    ],
)
def test_typos_are_refused_in_one_line(cli, fake, arguments, message):
    done = cli(*RUN, *arguments)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not fake.scripts()


def test_without_submitit_it_says_how_to_install(cli, fake, monkeypatch):
    plain = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *a: None if name == "submitit" else plain(name, *a),
    )
    done = cli(*SLURM, "0")
    assert done.code == 2
    assert "pip install 'sdgbench[slurm]'" in done.err


def test_without_slurm_it_says_so(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = cli(*SLURM, "0")
    assert done.code == 2
    assert "Error: There is no sbatch here." in done.err


def test_what_slurm_refuses_is_shown_in_its_words(cli, fake, tmp_path):
    fake.command("sbatch", "echo 'sbatch: error: invalid partition specified: x' >&2; exit 1")
    done = cli(*SLURM, "0-1")
    assert done.code == 2
    assert (
        done.err == "Error: Slurm's sbatch refused: sbatch: error: invalid partition specified: x\n"
    )
    assert not recorded_jobs(tmp_path / "runs")
    fake.command("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
    assert "Error: Slurm's squeue failed: Unable to contact" in cli(*SLURM, "0").err


def test_ctrl_c_while_waiting_leaves_the_jobs_alone(cli, fake, tmp_path, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(submission.time, "sleep", interrupt)
    done = cli(*SLURM, "0-1", "--wait")
    assert done.code == 130
    assert "No longer waiting; the jobs go on without this command." in done.out
    assert recorded_jobs(tmp_path / "runs").keys() == {0, 1}
    assert not fake.cancelled()


def test_a_job_that_is_gone_without_a_result_ends_the_wait(cli, fake, monkeypatch):
    monkeypatch.setattr(submission, "SLURM_POLL_SECONDS", 0.0)
    done = cli(*SLURM, "0-1", "--wait")
    assert done.code == 130
    assert done.out.count("its job ended without a result") == 2


def test_a_damaged_record_of_a_job_ends_the_wait_for_it(cli, fake, tmp_path, monkeypatch):
    def work(seconds):
        (queue_file,) = tmp_path.glob("runs/*/*/*/queued.json")
        queue_file.with_name("record.json").write_text("{")

    monkeypatch.setattr(submission.time, "sleep", work)
    fake.alive("1")
    done = cli(*SLURM, "0", "--wait")
    assert done.code == 2
    assert "record.json" in done.err


def test_waiting_ends_with_the_usual_summary(cli, fake, tmp_path, monkeypatch):
    assert cli(*RUN, "--runs", "node").code == 0
    done_there = next((tmp_path / "node").glob("*/*/*"))
    here = tmp_path / "runs" / done_there.relative_to(tmp_path / "node")

    def work(seconds):
        """The node's part, played when the waiting process looks away."""
        assert (here / "queued.json").exists()
        shutil.copytree(done_there, here, dirs_exist_ok=True)

    monkeypatch.setattr(submission.time, "sleep", work)
    fake.alive("1")
    done = cli(*SLURM, "0", "--wait")
    assert done.code == 0
    assert re.search(r"seed 0\)\s+done\s+\d+\.\d", done.out)


def test_cancel_ends_the_chosen_jobs_and_no_others(cli, fake, tmp_path):
    assert "Nothing of runs is queued on Slurm." in cli("cancel").out
    cli(*SLURM, "0-1")
    cli(*(word if word != "digits-mini" else "shapes10c" for word in SLURM), "0")
    cli(*SLURM, "0", "--runs", "other")
    fake.alive("1_0", "1_1", "2", "3", state="RUNNING")
    typo = cli("cancel", "--dataset", "digitsmini")
    assert typo.code == 2
    assert 'Did you mean "digits-mini"?' in typo.err
    assert "Nothing of runs" in cli("cancel", "--method", "gud").out
    done = cli("cancel", "--dataset", "digits-mini")
    assert done.code == 0
    assert "Cancelled 0 queued and 2 running; running ones save their state first." in done.out
    assert fake.cancelled() == ["1_0", "1_1"]
    assert {path.parts[-4] for path in tmp_path.glob("runs/*/*/*/queued.json")} == {"shapes10c"}
    assert list(tmp_path.glob("other/*/*/*/queued.json"))
    fake.alive()
    assert "1 more had a job that Slurm has already ended." in cli("cancel").out
    assert not list(tmp_path.glob("runs/*/*/*/queued.json"))
    assert fake.cancelled() == ["1_0", "1_1"]


# The job itself ---------------------------------------------------------------------------------

STOPPING = '''
import os, signal
from sdgbench.method import Method
from sdgbench.registry import register_method

@register_method("stopping")
class Stopping(Method):
    """Is sent a signal at its third step."""

    def train_step(self, x, y):
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps == 3 and os.environ.get("SEND"):
            signal.raise_signal(int(os.environ["SEND"]))
        return self.optimise(self.task.loss(self.network(x), y))
'''


@pytest.fixture
def job(fake, tmp_path, data, monkeypatch):
    """A run as the node gets it, and where it lives."""
    from dataclasses import asdict

    from sdgbench.launch.attempt import RunOptions
    from sdgbench.spec.resolution import resolve

    plugin = tmp_path / "plugin.py"
    plugin.write_text(STOPPING)
    registry.add_plugin(plugin)
    spec = resolve("stopping", "digits-mini", "smoke", 0)
    registry._plugins.clear()  # the job must bring it along
    registry.entries.cache_clear()
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    for name, value in (("JOB_ID", "9"), ("ARRAY_JOB_ID", "7"), ("ARRAY_TASK_ID", "2")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    options = RunOptions(tmp_path / "runs", data, "cpu", retry=True)
    folder = tmp_path / "runs" / "digits-mini" / "stopping" / spec.id
    queue.record_job(folder, "7_2")
    return Job(asdict(spec), asdict(options), [plugin]), folder


@pytest.fixture
def requeued():
    """Stands in for submitit's handler."""
    calls = []
    before = signal.signal(signal.SIGUSR2, lambda *_: calls.append(True))
    yield calls
    signal.signal(signal.SIGUSR2, before)


def test_a_finished_job_leaves_a_record_and_no_queue_file(job, requeued):
    run, folder = job
    assert run() == "done"
    assert (folder / "record.json").exists()
    assert not (folder / "queued.json").exists()
    assert not requeued


@pytest.mark.parametrize(
    ("number", "state", "again"),
    [
        (signal.SIGUSR2, "RUNNING", True),  # before the time limit
        (signal.SIGTERM, "RUNNING", True),  # a preemption's warning
        (signal.SIGTERM, "COMPLETING", False),  # scancel, or Slurm itself queues it again
    ],
)
def test_a_stopped_job_saves_first_and_then_is_queued_again(
    job, fake, requeued, monkeypatch, number, state, again
):
    run, folder = job
    fake.alive("7_2", state=state)
    monkeypatch.setenv("SEND", str(int(number)))
    saved = []
    signal.signal(signal.SIGUSR2, lambda *_: saved.append((folder / "checkpoint.pt").exists()))
    assert run() == "stopped"
    assert saved == ([True] if again else [])
    assert (folder / "checkpoint.pt").exists()
    assert queue.job_of(folder) == "7_2"
    monkeypatch.delenv("SEND")
    assert run() == "done"
    assert json.loads((folder / "record.json").read_text())["cost"]["starts"] == 2


def test_a_job_that_timed_out_too_often_is_no_longer_queued(job, requeued, monkeypatch):
    run, folder = job
    monkeypatch.setenv("SEND", str(int(signal.SIGUSR2)))

    def refuse(*_):
        raise RuntimeError("timed-out too many times")

    signal.signal(signal.SIGUSR2, refuse)
    with pytest.raises(RuntimeError, match="too many times"):
        run()
    assert not (folder / "queued.json").exists()
    assert (folder / "checkpoint.pt").exists()


def test_what_a_node_refuses_is_recorded_as_a_failure(job):
    run, folder = job
    run.options["device"] = "cuda:999"
    with pytest.raises(Unfinished):
        run()
    assert "CUDA" in json.loads((folder / "failed.json").read_text())["message"].upper()
    assert not (folder / "queued.json").exists()


def test_a_job_records_itself_if_the_submitter_died(job, monkeypatch):
    run, folder = job
    (folder / "queued.json").unlink()
    monkeypatch.setenv("SEND", str(int(signal.SIGTERM)))
    assert run() == "stopped"
    assert queue.job_of(folder) == "7_2"


def test_a_job_does_not_forget_another_one(job):
    run, folder = job
    queue.record_job(folder, "5")
    assert run() == "done"
    assert queue.job_of(folder) == "5"


def test_a_job_waits_for_the_one_before_to_leave(job):
    run, folder = job
    ending = storage.locked(folder)
    ending.__enter__()
    threading.Timer(0.5, ending.__exit__, (None, None, None)).start()
    assert run() == "done"


def test_what_submitit_queues_again_is_the_same_job(job):
    run, _ = job
    assert run.checkpoint().function is run
