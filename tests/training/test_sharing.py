"""Processes that share a device: who measures has it alone."""

import fcntl
import threading
from contextlib import contextmanager

import pytest
from helpers import erm, make, wait_for

from sdgbench.evaluation import efficiency
from sdgbench.training.device import Device
from sdgbench.training.sharing import DeviceShare


@contextmanager
def stepping(share):
    """Do steps in a thread, as another process would; the list says what happens."""
    happened, end, began = [], threading.Event(), threading.Event()

    def work():
        with share.working():
            while not end.is_set():
                share.pause_if_asked(lambda: happened.append("finished"))
                happened.append("step")
                began.set()

    thread = threading.Thread(target=work)
    thread.start()
    began.wait(60)
    try:
        yield happened
    finally:
        end.set()
        thread.join(60)


def test_others_pause_at_their_next_step_and_go_on(tmp_path):
    first, second = (DeviceShare(tmp_path, "cuda:0", 2) for _ in range(2))
    with stepping(second) as happened, first.working():
        with first.alone(60) as alone:
            assert alone
            steps = len(happened)
            assert happened[-1] == "finished"  # its queued work, too
            threading.Event().wait(0.05)
            assert len(happened) == steps
        wait_for(lambda: len(happened) > steps + 2, 60)
    assert "step" in happened[steps:]


def test_who_does_not_pause_in_time_is_noticed(tmp_path):
    first, second = (DeviceShare(tmp_path, "cuda:0", 2) for _ in range(2))
    with second.working(), first.working(), first.alone(0.0) as alone:
        assert not alone


def test_two_that_measure_take_turns(tmp_path):
    shares = [DeviceShare(tmp_path, "cuda:0", 2) for _ in range(2)]
    inside, together, alone = [], [], []

    def measure(share):
        with share.working(), share.alone(60) as has_it:
            alone.append(has_it)
            inside.append(share)
            threading.Event().wait(0.02)
            together.append(len(inside))
            inside.remove(share)

    threads = [threading.Thread(target=measure, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert together == [1, 1]
    assert alone == [True, True]


def test_one_that_died_while_it_measured_stops_nobody(tmp_path):
    dead, alive = (DeviceShare(tmp_path, "cuda:0", 2) for _ in range(2))
    dead._asked[0] = 1  # the kernel frees its locks, but not this
    with alive.working():
        alive.pause_if_asked(lambda: None)
        assert dead._asked[0] == 0


def test_devices_do_not_disturb_each_other(tmp_path):
    first, second = (DeviceShare(tmp_path, f"cuda:{index}", 2) for index in range(2))
    with first.working(), second.working(), second.alone(0.0) as alone:
        assert alone
        assert first._asked[0] == 0


@pytest.mark.parametrize(("others_work", "alone"), [(False, True), (True, False)])
def test_the_record_says_whether_latency_was_measured_alone(
    others_work, alone, tmp_path, monkeypatch
):
    monkeypatch.setattr(DeviceShare.alone.__wrapped__, "__defaults__", (0.0,))
    device = Device("cpu")
    device.share, other = (DeviceShare(tmp_path, "cuda:0", 3) for _ in range(2))
    method = make(erm(), tmp_path, device=device)
    if others_work:
        fcntl.flock(other._work, fcntl.LOCK_SH)
    with device.share.working():
        assert efficiency.measure(method, quickly=True).alone is alone
    assert device.describe()["runs_on_device"] == 3
    device.share = None
    assert efficiency.measure(method, quickly=True).alone is None
    assert device.describe()["runs_on_device"] == 1
