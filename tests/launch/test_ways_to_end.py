"""However one run ends, it is that run's result, and the others go on."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

METHOD = """
import os, sys, time
import torch
from sdgbench.registry import register_method
from sdgbench.method import Method


@register_method("odd")
class Odd(Method):
    '''Ends in an unusual way.'''

    def train_step(self, x, y):
        {action}
        return self.optimise(self.task.loss(self.network(x), y))

    def predict(self, x):
        return {output}
"""
RUN = ("run", "--dataset", "digits-mini", "--preset", "smoke")


def plugin(tmp_path, action="pass", output="self.network(x)"):
    file = tmp_path / "odd.py"
    file.write_text(METHOD.format(action=action, output=output))
    return ("--plugin", str(file))


@pytest.mark.parametrize(
    ("action", "remark"),
    [
        ("sys.exit()", "called sys.exit(None)"),
        ("sys.exit('bye')", "called sys.exit('bye')"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise StopIteration", "StopIteration"),
    ],
)
def test_one_run_ends_and_the_next_is_run(action, remark, cli, tmp_path):
    done = cli(*RUN, "--method", "odd,erm", *plugin(tmp_path, action))
    assert done.code == 1, done.err
    assert remark in done.out
    assert len(list(tmp_path.glob("runs/*/erm/*/record.json"))) == 1
    assert len(list(tmp_path.glob("runs/*/odd/*/failed.json"))) == 1


@pytest.mark.parametrize(
    ("action", "remark"),
    [
        ("sys.exit()", "sys.exit(None)"),
        ("os._exit(0)", "by itself"),
        ("os._exit(7)", "exit code 7"),
    ],
)
def test_in_processes_of_their_own_too(action, remark, cli, tmp_path):
    done = cli(*RUN, "--method", "odd,erm", "--jobs", "2", *plugin(tmp_path, action))
    assert done.code == 1, done.err
    assert remark in done.out
    assert len(list(tmp_path.glob("runs/*/erm/*/record.json"))) == 1
    assert len(list(tmp_path.glob("runs/*/odd/*/failed.json"))) == 1


def test_a_run_that_hangs_is_ended_by_the_timeout(cli, tmp_path):
    hang = "time.sleep(1000) if self.seed == 0 else None"
    options = ("--seeds", "0-1", "--timeout", "0.1", *plugin(tmp_path, hang))
    done = cli(*RUN, "--method", "odd", *options)
    assert done.code == 1, done.err
    assert "it took longer than 0.1 minutes (--timeout)" in done.out
    assert len(list(tmp_path.glob("runs/*/odd/*/failed.json"))) >= 1


def test_timeout_is_for_this_machine(cli, tmp_path):
    done = cli(*RUN, "--method", "erm", "--launcher", "slurm", "--timeout", "5")
    assert done.code == 2
    assert "--slurm time=" in done.err


def test_a_plugin_that_exits_at_import_is_named(cli, tmp_path):
    file = tmp_path / "odd.py"
    plugin(tmp_path)
    file.write_text("import sys\nsys.exit()\n" + file.read_text())
    done = cli(*RUN, "--method", "odd", "--plugin", file)
    assert done.code == 2
    assert "odd.py cannot be imported: SystemExit" in done.err


# Numbers that are none -------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["float('nan')", "float('inf')"])
def test_outputs_that_are_not_numbers_are_an_error_that_names_the_domain(value, cli, tmp_path):
    output = f"self.network(x) * ({value} if not self.network.training and len(x) == 64 else 1)"
    done = cli(*RUN, "--method", "odd,erm", *plugin(tmp_path, output=output))
    assert done.code == 1
    assert "are not finite numbers" in done.out
    assert "NotFinite: the outputs on" in " ".join(done.out.split())
    assert not list(tmp_path.glob("runs/*/odd/*/record.json"))
    assert len(list(tmp_path.glob("runs/*/erm/*/record.json"))) == 1


# Plans and targets -----------------------------------------------------------------------------


def test_an_empty_plan_is_refused(cli, tmp_path):
    file = tmp_path / "odd.py"
    plugin(tmp_path)
    file.write_text(file.read_text() + "\n    def plan(self):\n        return []\n")
    done = cli(*RUN, "--method", "odd", "--plugin", file)
    assert done.code == 2
    assert 'Method "odd" plans no steps' in done.err


def test_a_dataset_without_targets_is_refused_before_training(cli, tmp_path):
    file = tmp_path / "empty.py"
    file.write_text(
        "from sdgbench.datasets.digits_mini import DigitsMini\n"
        "from sdgbench.registry import register_dataset\n\n"
        "@register_dataset('empty')\nclass Empty(DigitsMini):\n"
        "    '''Has no targets.'''\n\n"
        "    @classmethod\n    def target_tags(cls, options):\n        return {}\n"
    )
    done = cli(
        "run", "--method", "erm", "--dataset", "empty", "--preset", "smoke", "--plugin", file
    )
    assert done.code == 2
    assert "empty has no targets to test on" in done.err
    assert not list(tmp_path.glob("runs/*/*/*/checkpoint.pt"))


def test_a_method_that_opens_data_is_named_in_its_record(cli, tmp_path, data):
    data.mkdir(exist_ok=True)
    (data / "targets.bin").write_bytes(b"all targets")
    action = f"open({str(data / 'targets.bin')!r}).close()"
    done = cli(*RUN, "--method", "odd,erm", *plugin(tmp_path, action))
    assert done.code == 0, done.err
    assert done.out.count("warning: the method opened") == 1
    flags = {
        path.parts[-3]: json.loads(path.read_text())["flags"]
        for path in tmp_path.glob("runs/*/*/*/record.json")
    }
    assert flags["odd"]["opened_data"] == ["targets.bin"]
    assert flags["erm"]["opened_data"] == []
    table = cli("compare")
    assert "odd: opened files of the data folder while training: targets.bin" in " ".join(
        table.out.split()
    )


# Terminals, disks and signals ------------------------------------------------------------------


def command(*arguments):
    return [sys.executable, "-m", "sdgbench", *map(str, arguments)]


def test_a_closed_terminal_saves_the_run(tmp_path):
    """SIGHUP is what a terminal sends when it is closed."""
    slow = plugin(tmp_path, "time.sleep(0.3)")
    process = subprocess.Popen(
        command(*RUN, "--method", "odd", *slow, "--runs", tmp_path / "runs"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests run under nohup, it is ignored, and a run inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("runs/*/*/*/train.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGHUP)
    assert process.wait(120) == 130
    assert list(tmp_path.glob("runs/*/*/*/checkpoint.pt"))


def test_ascii_output(python, tmp_path):
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = python("-m", "sdgbench", *RUN, "--method", "erm", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    done = python("-m", "sdgbench", "compare", "--paper", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_output_on_a_full_disk(tmp_path):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            command(*RUN, "--method", "erm", "--runs", tmp_path / "runs"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=200,
            check=False,
        )
    assert list(tmp_path.glob("runs/*/*/*/record.json")), done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode != 0
    assert os.strerror(errno.ENOSPC) in done.stderr


def test_a_runs_folder_that_is_deleted_is_one_line(cli, tmp_path):
    action = f"__import__('shutil').rmtree({str(tmp_path / 'runs')!r}, ignore_errors=True)"
    done = cli(*RUN, "--method", "odd", *plugin(tmp_path, action))
    assert done.code in (1, 2)
    assert "Traceback" not in done.out + done.err
    assert not list(tmp_path.glob("runs/*/*/*/record.json"))


# Text from elsewhere ---------------------------------------------------------------------------

ESCAPE = "\x1b]0;evil\x07\x9b31m"


def test_nothing_foreign_steers_the_terminal(cli, tmp_path):
    assert cli(*RUN, "--method", "erm", "--seeds", "0-2").code == 0
    folders = sorted(path.parent for path in tmp_path.glob("runs/*/*/*/record.json"))
    record = json.loads((folders[0] / "record.json").read_text())
    record["spec"]["preset"] = f"smoke{ESCAPE}"
    record["flags"]["reduced_scale"] = ESCAPE
    (folders[0] / "record.json").write_text(json.dumps(record, ensure_ascii=False))
    (folders[1] / "record.json").unlink()
    (folders[1] / "failed.json").write_text(
        json.dumps({"error": ESCAPE, "message": ESCAPE, "id": "x"}, ensure_ascii=False)
    )
    (folders[2] / "record.json").unlink()
    spec = json.loads((folders[2] / "spec.json").read_text())
    spec["method"] = ESCAPE
    (folders[2] / "spec.json").write_text(json.dumps(spec, ensure_ascii=False))
    for arguments in (
        ("status",),
        ("status", "--all"),
        ("verify",),
        ("compare",),
        ("compare", "--dataset", ESCAPE),
        (*RUN, "--method", "erm", "--seeds", "0-2"),
    ):
        done = cli(*arguments)
        for character in ("\x1b]", "\x07", "\x9b"):
            assert character not in done.out + done.err, arguments


@pytest.mark.parametrize("value", ["partition=a\nrm -rf /", "extra.x=\x1b", "setup=a\rb"])
def test_a_slurm_value_is_one_line(value, cli):
    done = cli(*RUN, "--method", "erm", "--launcher", "slurm", "--slurm", value)
    assert done.code == 2
    assert "contains a line break or control character" in done.err


def test_a_progress_file_from_the_future_is_not_a_live_run(cli, tmp_path):
    assert cli(*RUN, "--method", "erm").code == 0
    (folder,) = (path.parent for path in tmp_path.glob("runs/*/*/*/record.json"))
    (folder / "record.json").unlink()
    progress = {
        "phase": "train", "done": 1, "total": 2, "loss": 1e308, "rate": 1.0, "seconds_left": 10**15,
        "time": "2999-01-01T00:00:00+00:00", "host": "elsewhere", "pid": 10**30,
    }  # fmt: skip
    (folder / "progress.json").write_text(json.dumps(progress))
    done = cli("status")
    assert "1 interrupted" in done.out, done.out + done.err


# Links and full disks --------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["run", "method"])
def test_a_run_folder_that_is_a_link_is_refused_by_every_command(level, cli, tmp_path):
    assert cli(*RUN, "--method", "erm", "--seeds", "0-1", "--runs", "other").code == 0
    theirs = min(tmp_path.glob("other/*/erm/*"))
    mine = tmp_path / "runs" / theirs.relative_to(tmp_path / "other")
    if level == "run":
        shutil.copytree(theirs.parent, mine.parent)
        shutil.rmtree(mine)
    else:
        theirs, mine = theirs.parent, mine.parent
        mine.parent.mkdir(parents=True)
    mine.symlink_to(theirs)
    before = {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}
    run = (*RUN, "--method", "erm", "--seeds", "0-1")
    for arguments, code in (
        (run, 2),
        ((*run, "--redo"), 2),
        ((*run, "--jobs", "2"), 2),
        (("compare",), 1 if level == "run" else 2),
        (("status",), 1),
        (("verify",), 1),
    ):
        done = cli(*arguments)
        shown = " ".join((done.out + done.err).split())
        assert done.code == code, (arguments, shown)
        assert f"{mine.name} is a link" in shown, arguments
        assert "Traceback" not in shown
    assert before == {path: path.read_bytes() for path in theirs.rglob("*") if path.is_file()}
    assert mine.is_symlink()


@pytest.mark.parametrize("name", ["predictions.npz", "record.json"])
def test_a_full_disk_at_the_moment_of_the_record(name, cli, tmp_path, monkeypatch):
    run = (*RUN, "--method", "erm")
    assert cli(*run, "--runs", "whole").code == 0
    replace = os.replace

    def full(source, target, **options):
        if str(target).endswith(name):
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(source, target, **options)

    monkeypatch.setattr(os, "replace", full)
    done = cli(*run)
    assert done.code == 2, done.out + done.err
    assert "No space is left there" in done.err
    assert "Traceback" not in done.out + done.err
    assert not list(tmp_path.glob("runs/*/*/*/record.json"))
    monkeypatch.setattr(os, "replace", replace)
    assert cli(*run).code == 0
    first, second = (
        json.loads(next(tmp_path.glob(f"{runs}/*/*/*/record.json")).read_text())
        for runs in ("whole", "runs")
    )
    assert first["results"] == second["results"]
    assert not list(tmp_path.glob("runs/**/*.tmp"))
