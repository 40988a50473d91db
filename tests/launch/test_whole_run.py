"""The progress of a whole run: its share by expected cost, and the time left."""

from types import SimpleNamespace

import pytest
from helpers import Everything, make, trainer

from sdgbench import registry
from sdgbench.launch import whole_run
from sdgbench.launch.execute import execute
from sdgbench.launch.progress import StageTracker, percent
from sdgbench.launch.whole_run import WholeRun
from sdgbench.method import Phase
from sdgbench.records.store import Store
from sdgbench.reporter import PlannedStage, Silent
from sdgbench.spec.resolution import matrix
from sdgbench.training.device import Device

PLAN = [PlannedStage(*stage) for stage in (("a", 10.0), ("b", 60.0), ("a", 20.0), ("c", 10.0))]


@pytest.fixture
def now(monkeypatch):
    """A clock that a test sets."""
    clock = SimpleNamespace(time=0.0)
    monkeypatch.setattr(whole_run, "time", SimpleNamespace(monotonic=lambda: clock.time))
    return clock


def test_the_share_counts_stages_by_their_expected_cost(now):
    run = WholeRun()
    assert (run.share(), run.seconds_left(), run.position()) == (None, None, "")
    run.plan(PLAN, 0)
    assert (run.share(), run.seconds_left()) == (0.0, None)
    run.begin("a", 5, 0)
    assert run.position() == "1/4"
    run.update(4, 5)
    assert run.share() == pytest.approx(0.08)
    run.begin("b", 100, 0)
    assert run.share() == pytest.approx(0.10)
    run.update(50, 100)
    assert run.share() == pytest.approx(0.40)
    run.begin("a", 5, 0)
    run.begin("c", 5, 0)
    run.update(5, 5)
    assert run.share() == pytest.approx(1.0)


def test_the_time_left_follows_the_pace_of_each_kind_of_stage(now):
    run = WholeRun()
    run.plan(PLAN, 0)
    run.begin("a", 10, 0)
    now.time = 5.0
    run.update(5, 10)  # 1 s per unit of cost: 5 + 60 + 20 + 10 to go
    assert run.seconds_left() == pytest.approx(95)
    now.time = 10.0
    run.update(10, 10)
    run.begin("b", 60, 0)
    now.time = 30.0
    run.update(10, 60)  # 2 s per unit here: 100 + 20; for c the mean of 30 s for 20 units
    assert run.seconds_left() == pytest.approx(100 + 20 + 15)
    now.time = 130.0
    run.update(60, 60)
    run.begin("a", 20, 0)
    assert run.seconds_left() == pytest.approx(20 + 10 * 130 / 70)


def test_a_resumed_run_begins_where_it_stopped(now):
    run = WholeRun()
    run.plan(PLAN, 1)
    assert run.share() == pytest.approx(0.10)
    run.begin("b", 60, 30)
    assert run.share() == pytest.approx(0.40)
    assert run.seconds_left() is None  # nothing was measured in this process
    now.time = 6.0
    run.update(36, 60)
    assert run.seconds_left() == pytest.approx(24 + 20 + 10)


def test_work_that_is_not_in_the_plan_is_passed_over(now):
    run = WholeRun()
    run.begin("render", 7, 0)
    run.update(3, 7)
    assert run.share() is None
    run.plan([PlannedStage("train", 0.0), PlannedStage("train", 8.0)], 0)
    run.begin("train", 0, 0)  # a phase without steps
    run.begin("train", 8, 0)
    run.update(2, 8)
    assert run.share() == pytest.approx(0.25)
    assert run.position() == "2/2"


@pytest.mark.parametrize(("share", "text"), [(0.0, "0%"), (0.999, "99%"), (1.0, "100%")])
def test_all_is_done_only_at_the_end(share, text):
    assert percent(share) == text


class Shares(StageTracker):
    """Keeps the share of the whole run at each report."""

    def __init__(self):
        super().__init__()
        self.shares = []

    def update(self, done, loss, rate):
        super().update(done, loss, rate)
        self.shares.append(self.whole.share())


def test_a_training_announces_its_phases_and_ends_at_its_share(tmp_path):
    reporter = Shares()
    later = [PlannedStage("evaluate", 8.0)]
    trainer(make(Everything, tmp_path), tmp_path, reporter=reporter, later=later).run()
    labels = [stage.label for stage in reporter.whole.stages]
    assert labels == ["warm", "train", "generate", "train", "generate", "train", "evaluate"]
    # Two steps of 8 images; then two batches of 8; batches of 5; and so on.
    costs = [stage.cost for stage in reporter.whole.stages]
    assert costs == [16, 64, 15, 64, 15, 48, 8]
    assert reporter.shares == sorted(reporter.shares)
    assert reporter.shares[-1] == pytest.approx(1 - 8 / sum(costs))


def test_generating_by_ascent_is_expected_to_take_its_steps(tmp_path):
    cls = registry.get("method", "gud").load()
    method = make(cls, tmp_path, params=cls.Params(T_adv=7))
    assert method.cost_per_image(Phase("generate", 1)) == 7
    assert method.cost_per_image(Phase("train", 1)) == 1


def test_a_reporter_that_shows_nothing_takes_a_plan():
    Silent().plan(PLAN)


def test_a_run_says_what_it_does_to_its_end(data, tmp_path):
    """Distances and latency take a share of a short run: it is not at 100% while they last."""
    reporter = Shares()
    [spec] = matrix(["erm"], ["digits-mini"], [0], "smoke", [], [], [], "float32")
    execute(spec, Store(tmp_path), data, Device("cpu"), reporter)
    assert [stage.label for stage in reporter.whole.stages] == ["train", "evaluate", "measure"]
    assert reporter.stage.label == "measure"
    assert reporter.shares[-3] < reporter.shares[-2] < reporter.shares[-1] == 1
