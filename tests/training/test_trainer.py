import json
from dataclasses import replace

import pytest
import torch
from helpers import RECIPE, Everything, assert_same_weights, erm, make, trainer, weights

from sdgbench.errors import Interrupted, UserError
from sdgbench.method import Method, Phase
from sdgbench.training import checkpoint
from sdgbench.training.curve import Diverged, LossMean


class StopAfter:
    """Asks for a stop after a given number of steps."""

    def __init__(self, steps):
        self.steps = steps

    def __call__(self):
        self.steps -= 1
        return self.steps < 0


def curve(folder):
    lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


@pytest.mark.parametrize("cls", [erm(), Everything], ids=["erm", "everything"])
def test_stopping_and_going_on_at_every_step_changes_nothing(cls, tmp_path):
    whole = make(cls, tmp_path / "whole")
    position = trainer(whole, tmp_path / "whole").run()
    total = sum(phase.steps for phase in whole.plan())

    starts = 0
    while True:
        part = make(cls, tmp_path / "parts")  # nothing survives but the folder
        starts += 1
        try:
            again = trainer(part, tmp_path / "parts", should_stop=StopAfter(0)).run()
            break
        except Interrupted:
            assert starts <= total
    assert starts == total + 1
    assert_same_weights(weights(whole), weights(part))
    assert curve(tmp_path / "whole") == curve(tmp_path / "parts")
    assert again.starts == starts
    assert again.images_forward == position.images_forward
    assert again.images_with_gradient == position.images_with_gradient
    assert again.best["step"] == position.best["step"]
    if cls is Everything:
        assert whole.history == part.history
        assert torch.equal(whole.running, part.running)
        assert whole.draws.random() == part.draws.random()
        for name in ("images.f32", "labels.u8"):
            files = [tmp_path / side / "pool" / name for side in ("whole", "parts")]
            assert files[0].read_bytes() == files[1].read_bytes()
            assert len(files[0].read_bytes())


def test_work_after_the_last_checkpoint_is_done_again(tmp_path):
    """A kill loses steps, a pool's tail and curve points; all come back the same."""
    whole = make(Everything, tmp_path / "whole")
    trainer(whole, tmp_path / "whole").run()

    class Killed(BaseException):
        pass

    def killer(at):
        count = 0

        def stop():
            nonlocal count
            count += 1
            if count == at:
                raise Killed
            return False

        return stop

    for at in (3, 5, 4, 6, 2, 7, 5):
        method = make(Everything, tmp_path / "killed")
        with pytest.raises(Killed):
            trainer(method, tmp_path / "killed", should_stop=killer(at)).run()
        if method.pool.count > 10:
            break
    method = make(Everything, tmp_path / "killed")
    trainer(method, tmp_path / "killed").run()
    assert_same_weights(weights(whole), weights(method))
    assert curve(tmp_path / "whole") == curve(tmp_path / "killed")


def test_checkpoints_come_by_the_clock(tmp_path):
    method = make(erm(), tmp_path)
    run = trainer(method, tmp_path, checkpoint_seconds=0.0)
    saved = []
    original = run._save
    run._save = lambda finished=False: (saved.append(run.position.step), original(finished))
    run.run()
    assert saved == [*range(1, 13), 0]


def test_a_finished_checkpoint_holds_no_optimiser(tmp_path):
    method = make(erm(), tmp_path)
    trainer(method, tmp_path).run()
    state = checkpoint.load(tmp_path / "checkpoint.pt", torch.device("cpu"))
    assert "network" in state["method"]
    assert "optimizer" not in state["method"]


def test_the_curve_and_validation(tmp_path):
    method = make(erm(), tmp_path)
    position = trainer(method, tmp_path).run()
    points = curve(tmp_path)
    losses = [point for point in points if point["name"] == "train"]
    scores = [point for point in points if point["name"] == "validation"]
    assert [point["step"] for point in losses] == list(range(1, 13))
    assert all(point["loss"] > 0 and point["lr"] == RECIPE.lr for point in losses)
    assert [point["train_step"] for point in scores] == [4, 8, 12]
    assert position.best["score"] == max(point["score"] for point in scores)
    assert position.last_score == scores[-1]["score"]
    assert position.seconds["0 train"] > 0
    assert position.seconds["validation"] > 0


def test_the_mean_loss_is_a_plain_sum_and_leaves_the_losses_alone():
    """A method may return the same tensor at each step."""
    losses = [torch.tensor(0.1 * n) for n in range(5)]
    mean, total = LossMean(), 0.0
    for loss in losses:
        mean.add(loss, None)
        total = total + loss
    assert torch.equal(mean.total, total)
    assert mean.count == 5
    assert losses == [torch.tensor(0.1 * n) for n in range(5)]


def test_validation_spans_all_train_phases(tmp_path):
    method = make(Everything, tmp_path, replace(RECIPE, validations=4))
    trainer(method, tmp_path).run()
    steps = [p["train_step"] for p in curve(tmp_path) if p["name"] == "validation"]
    assert steps == [3, 6, 9, 12]


def test_the_best_on_held_out_source_is_kept(tmp_path):
    class Worsens(Method):
        name = "worsens"

        def train_step(self, x, y):
            if self.updates < 40:
                return self.optimise(self.task.loss(self.network(x), y))
            with torch.no_grad():  # spoil it after the second validation
                self.network.classifier.weight.zero_()
            return None

    recipe = replace(RECIPE, network="convnet-8", lr=2e-3, steps=60)
    method = make(Worsens, tmp_path, recipe)
    position = trainer(method, tmp_path).run()
    assert position.best["step"] in (20, 40)
    assert position.best["score"] > position.last_score
    kept = position.best["weights"]["network"]["classifier.weight"]
    assert kept.abs().sum() > 0
    assert method.network.classifier.weight.abs().sum() == 0


def test_images_are_counted_without_validation(tmp_path):
    position = trainer(make(erm(), tmp_path), tmp_path).run()
    assert position.images_forward == position.images_with_gradient == 12 * 8


def test_a_loss_that_is_no_number_stops_the_run(tmp_path):
    class Explodes(Method):
        name = "explodes"

        def train_step(self, x, y):
            return self.optimise(self.task.loss(self.network(x), y) * float("inf"))

    with pytest.raises(Diverged, match="became (inf|nan) at train step 1"):
        trainer(make(Explodes, tmp_path), tmp_path).run()


def test_a_phase_without_its_step_is_explained(tmp_path):
    class Forgets(Method):
        name = "forgets"

        def plan(self):
            return [Phase("dream", 3)]

    with pytest.raises(UserError, match='plans a phase "dream" but has no dream_step'):
        trainer(make(Forgets, tmp_path), tmp_path)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    trainer(make(erm(), tmp_path), tmp_path).run()
    again = trainer(make(erm(), tmp_path), tmp_path)
    again.run_id = "another"
    with pytest.raises(UserError, match="belongs to the run toy-run"):
        again.run()


def test_dropout_and_batch_norm_are_off_in_validation(tmp_path):
    class Dropping(Method):
        name = "dropping"

        def setup(self):
            self.dropout = torch.nn.Dropout(0.5)
            self.modes = []

        def predict(self, x):
            self.modes.append(self.dropout.training)
            return self.network(x)

        def train_step(self, x, y):
            self.modes.append(self.dropout.training)
            return self.optimise(self.task.loss(self.network(x), y))

    method = make(Dropping, tmp_path, replace(RECIPE, steps=2, validations=1))
    trainer(method, tmp_path).run()
    assert method.modes[:2] == [True, True]
    assert not any(method.modes[2:])
