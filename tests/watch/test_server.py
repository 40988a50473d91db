"""The server of ``sdgbench watch``: who may ask, what it answers, and that it only reads."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
import sample_records as records

from sdgbench.launch.matrix_file import MatrixProgress, WaitingRun
from sdgbench.records import curve as curve_file
from sdgbench.records.schema import utc_now
from sdgbench.storage import write_json


@pytest.fixture
def ask(server):
    """Send a request and return its status and text."""

    def send(path, host=None, method="GET"):
        port = server.server_address[1]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {} if host is None else {"Host": host}
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    return send


@pytest.fixture
def state(ask):
    return lambda: json.loads(ask("/api/state")[1])


def read_curve(ask, run, offset=0, check=""):
    status, text = ask(f"/api/curve?run={run.key}&offset={offset}&check={check}")
    assert status == 200
    return json.loads(text)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:9000", 200),  # through an ssh tunnel
        ("LOCALHOST", 200),
        ("evil.example", 403),  # whose name resolves to 127.0.0.1
        ("evil.example:8421", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
def test_only_names_of_this_machine_are_answered(ask, host, status):
    for path in ("/", "/api/state", "/report"):
        assert ask(path, host)[0] == status


def test_no_other_machine_can_ask(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_what_is_not_there_or_not_asked_for_properly(ask, fake, tmp_path):
    run = fake()
    run.train(1)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "train.jsonl").write_text(run.curve.read_text())
    assert ask("/nothing")[0] == 404
    assert ask("/../secret/train.jsonl")[0] == 404
    assert ask("/", method="POST")[0] == 501
    assert ask("/", method="HEAD") == (200, "")
    for key in ("../../../secret", "..", "", str(tmp_path / "secret"), f"{run.key}/../{run.key}"):
        status, text = ask(f"/api/curve?run={key}&offset=0")
        assert status == 400
        assert text.startswith("There is no run")
    for offset in ("-1", "x", "", "9" * 30):
        assert ask(f"/api/curve?run={run.key}&offset={offset}")[0] == 400


def test_a_folder_that_does_not_exist_yet(state, ask):
    assert state()["exists"] is False
    assert state()["runs"] == []
    assert json.loads(ask("/api/tables")[1])["boards"] == []


def test_runs_with_their_progress_and_those_that_wait(state, fake, tmp_path):
    first, second = fake(0.001), fake(0.01)
    first.train(50)
    second.report("train", stopped="at train step 7/200")
    waiting = [WaitingRun(f"digits-mini/erm/{name}", f"erm {name}") for name in ("0-0.001", "new")]
    matrix = MatrixProgress(
        socket.gethostname(), 1, utc_now(), "", "4 runs: 1 running", 61, 4, 0.125, 600, waiting, 3
    )
    write_json(tmp_path / "runs" / ".matrix-0a1b2c3d.json", matrix)
    shown = state()
    assert [(run["label"], run["state"]) for run in shown["runs"]] == [
        ("erm on digits-mini (quick, seed 0, recipe.lr=0.001)", "running"),
        ("erm new", "waiting"),
        ("erm on digits-mini (quick, seed 0, recipe.lr=0.01)", "interrupted"),
    ]
    running = shown["runs"][0]
    assert (running["share"], running["left"], running["phase"]) == (0.25, 125, "train")
    assert running["bytes"] == first.curve.stat().st_size
    assert shown["matrices"][0]["share"] == 0.125
    assert shown["matrices"][0]["text"] == "4 runs: 1 running; 0:01:01 so far"
    assert shown["counts"]["waiting"] == 3


def test_a_curve_comes_in_pieces_and_from_the_start_after_a_resume(ask, fake):
    run = fake()
    run.train(3)
    whole = read_curve(ask, run)
    assert whole["series"]["train"] == [[0, 1, 2.3], [0, 2, 1.15], [0, 3, 0.766667]]
    assert whole["series"]["validation"] == [[0, 3, 66.6667]]
    assert whole["offset"] == run.curve.stat().st_size
    run.train(1)
    news = read_curve(ask, run, whole["offset"], whole["check"])
    assert news["series"]["train"] == [[0, 4, 0.575]]
    assert not news["from_start"]
    with run.curve.open("a") as file:  # a line that is still being written
        file.write('{"phase": 0, "name": "tr')
    half = read_curve(ask, run, news["offset"], news["check"])
    assert (half["series"], half["offset"]) == ({}, news["offset"])
    lines = run.curve.read_text().splitlines(keepends=True)
    longer = lines[0].replace("2.3", "2.3000000000000001")  # the same length is reached again
    run.curve.write_text(longer + "".join(lines[1:5]) * 3)
    again = read_curve(ask, run, news["offset"], news["check"])
    assert again["from_start"]
    assert len(again["series"]["train"]) > 5
    run.curve.unlink()
    assert read_curve(ask, run, news["offset"], news["check"])["from_start"]


def test_a_long_curve_comes_in_bounded_answers(ask, fake, monkeypatch):
    monkeypatch.setattr(curve_file, "MOST_BYTES", 1000)
    run = fake()
    run.train(100)
    with run.curve.open("a") as file:
        file.write("x" * 3000 + "\n")  # damage
        file.write('{"phase": 0, "name": "train", "step": 101, "loss": NaN}\n')
        file.write('{"phase": 0, "name": "train", "step": 1e999, "loss": 1}\n[1]\n\n')
        file.write('{"phase": 0, "name": "train", "step": 102, "loss": 0.5}\n')
    steps, offset, check, answers = [], 0, "", 0
    while True:
        news = read_curve(ask, run, offset, check)
        answers += 1
        steps += [step for _, step, _ in news["series"].get("train", [])]
        assert news["offset"] - offset <= 1000
        offset, check = news["offset"], news["check"]
        if not news["is_more"]:
            break
    assert steps == [*range(1, 101), 102]
    assert answers > 5


def test_finished_tables_and_the_report(ask, state, tmp_path):
    records.write(tmp_path / "runs", ("erm", "mada"), range(2), ["digits"])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    version = state()["tables"]
    tables = json.loads(ask("/api/tables")[1])
    assert tables["version"] == version
    (board,) = tables["boards"]
    assert {line["name"] for line in board["table"]["lines"]} == {"erm", "mada"}
    status, page = ask("/report")
    assert status == 200
    assert "sdgbench report" in page
    assert len(state()["runs"]) == 4
    # Only read: no file came or changed.
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    path = records.write(tmp_path / "runs", ("gud",), [0], ["digits"])[0]
    assert state()["tables"] != version
    path.write_text("{")
    tables = json.loads(ask("/api/tables")[1])
    assert str(path) in tables["problems"][0]
    assert tables["boards"][0]["title"] == board["title"]


def test_names_cannot_become_markup(ask, fake):
    hostile = "</script><b>"
    fake(method="x<img>").report(phase=hostile)
    text = ask("/api/state")[1]
    assert "<" not in text
    (run,) = json.loads(text)["runs"]
    assert (run["phase"], run["key"]) == (hostile, "digits-mini/x<img>/0-0.001")


def test_a_port_in_use_is_one_line(cli, server):
    done = cli("watch", "--no-open", "--port", server.server_address[1])
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert "--port 0" in done.err


def test_a_file_in_place_of_the_folder_is_refused(cli, tmp_path):
    (tmp_path / "file").touch()
    done = cli("watch", "--no-open", "--runs", "file", "--port", "0")
    assert done.code == 2
    assert "Error: Cannot use the runs folder file" in done.err


def test_the_command_stops_cleanly_and_needs_no_torch(fake, tmp_path):
    fake().train(2)
    code = (
        "import signal, sys; from sdgbench.cli.app import main\n"
        # A shell that starts the tests in the background has SIGINT ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try: main(sys.argv[1:])\n"
        "finally: print('torch' in sys.modules)"
    )
    arguments = ["watch", "--port", "0", "--no-open", "--runs", tmp_path / "runs"]
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    url = next(word for word in process.stdout.readline().split() if word.startswith("http"))
    with urllib.request.urlopen(f"{url}api/state", timeout=60) as answer:
        assert len(json.load(answer)["runs"]) == 1
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines() == ["Stopped watching. Runs go on.", "False"]
