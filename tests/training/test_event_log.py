"""``--log tensorboard``: event files with the points of the curve, each of them once."""

import errno
import importlib.util
import json

import pytest
from helpers import Everything, make, trainer

from sdgbench.errors import Interrupted
from sdgbench.reporter import Silent
from sdgbench.training.event_log import EventLog

loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")


class StopAfter:
    """Asks for a stop after some steps."""

    def __init__(self, steps):
        self.steps = steps

    def __call__(self):
        self.steps -= 1
        return self.steps < 0


class Notes(Silent):
    def __init__(self):
        self.texts = []

    def note(self, text):
        self.texts.append(text)


def events(folder):
    """All scalars of the one event file: tag, step and value, and the times of the events."""
    (file,) = (folder / "tensorboard").rglob("events.out.tfevents.*")
    scalars, times = [], []
    for event in loader.LegacyEventFileLoader(str(file)).Load():
        times.append(event.wall_time)
        for value in event.summary.value:
            scalars.append((value.tag, event.step, round(value.simple_value, 6)))
    return scalars, times


def expected(folder):
    """The same from the curve: steps are counted over all phases of one name."""
    scalars, steps = [], {}
    for point in map(json.loads, (folder / "train.jsonl").read_text().splitlines()):
        name = point["name"]
        if name == "validation":
            score = round(point["score"], 6)
            scalars.append(("validation/score", point["train_step"], score))
            continue
        phases = steps.setdefault(name, {})
        phases[point["phase"]] = point["step"]
        if point["loss"] is not None:
            scalars.append((f"loss/{name}", sum(phases.values()), round(point["loss"], 6)))
        scalars.append((f"lr/{name}", sum(phases.values()), round(point["lr"], 6)))
    return scalars


def test_a_resumed_run_has_each_point_once(tmp_path):
    for stop in (3, 6, 2, 100):
        method = make(Everything, tmp_path)
        log = EventLog(tmp_path, "seed=0,recipe.lr=1e-3", print)
        running = trainer(method, tmp_path, should_stop=StopAfter(stop), log=log)
        if stop == 100:
            running.run()
        else:
            with pytest.raises(Interrupted):
                running.run()
        assert events(tmp_path)[0] == expected(tmp_path)  # flushed: readable while it runs
        log.close()
        with (tmp_path / "train.jsonl").open("a") as file:  # as if killed after its checkpoint
            file.write('{"phase": 9, "name": "train", "step": 1, "loss": 1.0, "lr": 1.0}\n')
        log.add({"phase": 9, "name": "train", "step": 1, "loss": 1.0, "lr": 1.0})
    scalars, times = events(tmp_path)
    assert len(scalars) == len(set(scalars)) > 30
    assert times == sorted(times)
    assert [path.name for path in (tmp_path / "tensorboard").iterdir()] == ["seed=0,recipe.lr=1e-3"]


@pytest.mark.parametrize("where", ["open", "write"])
def test_a_full_disk_does_not_stop_the_run(tmp_path, monkeypatch, where):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(EventLog, f"_{where}", fail)
    notes = Notes()
    log = EventLog(tmp_path, "seed=0", notes.note)
    trainer(make(Everything, tmp_path), tmp_path, log=log).run()
    assert [text for text in notes.texts if "TensorBoard" in text] == [
        "no more events for TensorBoard (No space left on device); the run goes on"
    ]


def test_a_link_in_place_of_the_folder_is_left_alone(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").touch()
    (tmp_path / "tensorboard").symlink_to(tmp_path / "elsewhere")
    notes = Notes()
    EventLog(tmp_path, "seed=0", notes.note).restart([])
    assert notes.texts
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file"]


def test_the_command_writes_them_into_the_folder_of_the_run(cli, tmp_path):
    arguments = ("run", "--method", "erm", "--dataset", "digits-mini", "--preset", "smoke")
    settings = ("--set", "recipe.lr=0.002", "--no-leaderboards")
    done = cli(*arguments, *settings, "--log", "tensorboard")
    assert done.code == 0, done.err
    (record,) = (tmp_path / "runs").rglob("record.json")
    assert events(record.parent)[0] == expected(record.parent)
    (folder,) = (record.parent / "tensorboard").iterdir()
    assert folder.name == "seed=0,recipe.lr=0.002"
    assert list((tmp_path / "runs").glob(".matrix*")) == []


def test_without_the_package_it_says_how_to_install_it(cli, monkeypatch):
    arguments = ("run", "--method", "erm", "--dataset", "digits-mini", "--preset", "smoke")
    done = cli(*arguments, "--log", "tensorbord")
    assert done.code == 2
    assert 'No kind of log "tensorbord". Did you mean "tensorboard"?' in done.err
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "tensorboard" else found(name)
    )
    done = cli(*arguments, "--log", "tensorboard")
    assert done.code == 2
    assert done.err.splitlines() == [
        "Error: --log tensorboard needs the package tensorboard. Install it: pip install "
        "'sdgbench[tensorboard]'"
    ]
