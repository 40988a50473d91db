"""One damaged file in a runs folder stops no command: it is named, the rest is shown, exit code 1."""

import json
import os

import pytest
from leaderboard.test_few_shot import write as write_adapted
from sample_records import make, save

HUGE = "1" + "0" * 400
NESTED = "[" * 100_000
# What takes the place of a file; None: a pipe, which would block whoever opens it.
DAMAGE = {
    "pipe": None,
    "empty": "",
    "nested": NESTED,
    "nested object": '{"a":' * 50_000,
    "huge number": HUGE,
    "null": "null",
    "list": "[]",
    "text": "\x00\x1b[31m",
    "cut": '{"schema": "2.3", "id": "',
}


def put(path, content):
    path.unlink(missing_ok=True)
    if content is None:
        os.mkfifo(path)
    else:
        path.write_text(content, encoding="utf-8")


def changed(record, path, value):
    """The record as JSON with another value at a path; the value is JSON, too."""
    where = record
    *parents, last = path.split("/")
    for parent in parents:
        where = where[parent]
    where[last] = "@@@"
    return json.dumps(record).replace('"@@@"', value)


@pytest.fixture
def runs(tmp_path):
    """Two good records and the folder of a third one."""
    for seed in (0, 1):
        folder = save(tmp_path / "runs", make("erm", seed, "digits-mini", "smoke")).parent
        (folder / "spec.json").write_text(json.dumps(make("erm", seed, "digits-mini")["spec"]))
    folder = save(tmp_path / "runs", make("erm", 2, "digits-mini", "smoke")).parent
    return folder


RECORDS = DAMAGE | {
    "parameters": ("spec/params", "true"),
    "infinite score": ("results/last/average", HUGE),
    "huge step": ("results/last/step", HUGE),
    "huge count": ("domains/scan/count", HUGE),
    "nested parameters": ("spec/params", '{"a":' * 2000 + "1" + "}" * 2000),
    "tags": ("domains/scan/tags", "7"),
    "seed": ("spec/seed", '"zero"'),
}


@pytest.mark.parametrize("damage", RECORDS)
def test_a_damaged_record(damage, runs, cli):
    content = RECORDS[damage]
    if isinstance(content, tuple):
        content = changed(make("erm", 2, "digits-mini", "smoke"), *content)
    put(runs / "record.json", content)
    for command in (("compare",), ("report", "--no-samples", "--output", "page.html")):
        done = cli(*command)
        assert done.code == 1, (command, done.err)
        assert "Skipped: " in done.err
        assert runs.name in done.err
        assert "Traceback" not in done.err
    assert "n" in cli("compare").out
    done = cli("verify", "--data", "nothing")
    assert done.code == 1
    assert "3 not checked" in done.out or "2 unverified" in done.out or "2 differs" in done.out
    assert "Traceback" not in done.out + done.err


STATUS = {
    "progress.json": {
        "phase": "train", "done": 1, "total": 2, "loss": 0.5, "rate": 1.0, "seconds_left": 5,
        "time": "2026-01-01T00:00:00+00:00", "host": "x", "pid": 4,
    },
    "failed.json": {"error": "x", "message": "y"},
    "queued.json": {"job": "7"},
    "spec.json": {"method": "erm", "dataset": "d", "preset": "smoke", "seed": 0},
}  # fmt: skip


@pytest.mark.parametrize("name", STATUS)
def test_damaged_files_of_a_run_in_status(name, runs, cli):
    (runs / "record.json").unlink()
    contents = dict(DAMAGE)
    for key in STATUS[name]:
        if key in ("pid", "seconds_left", "loss", "rate", "job"):
            contents[key] = changed(dict(STATUS[name]), key, HUGE if key != "job" else "{}")
    for damage, content in contents.items():
        put(runs / "spec.json", json.dumps(STATUS["spec.json"]))
        put(runs / name, content)
        done = cli("status")
        assert done.code == 1, damage
        assert name in done.err, damage
        assert "2 done" in done.out
        assert "Traceback" not in done.out + done.err


@pytest.mark.parametrize("pid", [10**30, 2**31, 0, -1])
def test_a_process_number_that_cannot_be_is_not_alive(pid, runs, cli):
    import socket

    from sdgbench.records.schema import utc_now

    (runs / "record.json").unlink()
    about = {**STATUS["progress.json"], "pid": pid, "host": socket.gethostname()}
    put(runs / "spec.json", json.dumps(STATUS["spec.json"]))
    put(runs / "progress.json", json.dumps({**about, "time": utc_now()}))
    done = cli("status")
    assert "1 interrupted" in done.out
    assert "running" not in done.out


def test_damaged_adaptations_in_the_few_shot_view(cli, tmp_path):
    write_adapted(tmp_path / "runs")
    good = sorted((tmp_path / "runs").rglob("adapt/*.json"))
    original = good[0].read_text()
    contents = dict(DAMAGE)
    for path, value in (
        ("results/accuracy", HUGE),
        ("asked/shots", HUGE),
        ("asked/lr", "null"),
        ("asked/draw", "-1e999"),
        ("evaluation/count", '"many"'),
        ("flags", '{"unverified_data": 7}'),
        ("parent/spec/params", "true"),
        ("drawn/rows", "[[]]"),
        ("drawn/of", "0"),
    ):
        contents[path] = changed(json.loads(original), path, value)
    for damage, content in contents.items():
        put(good[0], content)
        done = cli("compare", "--view", "few-shot")
        assert done.code == 1, (damage, done.err)
        assert good[0].name in done.err, damage
        assert "mnist → svhn" in done.out, damage
        assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "content", [None, NESTED, HUGE, '{"name": "train", "step": 1e999}', "\x00"]
)
def test_a_damaged_curve_leaves_the_page_whole(content, runs, cli):
    put(runs / "train.jsonl", content)
    (runs / "predictions.npz").unlink()
    os.mkfifo(runs / "predictions.npz")
    done = cli("report", "--output", "page.html")
    assert "Traceback" not in done.err
    assert done.code == 0, done.err
