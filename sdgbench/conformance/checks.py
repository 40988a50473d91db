"""The checks, in the order in which they are reported to a contributor."""

import dataclasses
import json
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from sdgbench.conformance import values
from sdgbench.conformance.dataset import check_dataset
from sdgbench.conformance.harness import (
    IMAGES,
    MethodHarness,
    changed_attribute,
    difference,
    snapshot,
    stopping_points,
    weights,
)
from sdgbench.conformance.outcome import Check, Failed, Skipped
from sdgbench.data.domain import Domain
from sdgbench.data.downloaded_dataset import DownloadedDataset
from sdgbench.dataset import Dataset
from sdgbench.errors import UserError
from sdgbench.launch.execute import execute
from sdgbench.method import Method, Phase
from sdgbench.records.store import Store
from sdgbench.reporter import Silent
from sdgbench.spec import parameters
from sdgbench.training import checkpoint
from sdgbench.training.curve import Diverged
from sdgbench.training.device import Device

CHECKS: list[Check] = []
TOLERANCE = 1e-4  # of predictions: a batch of another size may be summed in another order
ROUNDED_SHARE = 1e-4  # of the logits may differ by more, because of rounding
SAVE_STATE = (
    "Keep everything it depends on in attributes without a leading underscore, because only these "
    "are saved, or compute it from them whenever it is needed."
)
NOT_OPENED = "Only the synthetic twin (--all-datasets opens the dataset itself)."
_Function = Callable[[MethodHarness], None]


def _check(
    name: str, rule: str, *needs: str, once: bool = False
) -> Callable[[_Function], _Function]:
    def decorate(function: _Function) -> _Function:
        CHECKS.append(Check(name, rule, function, needs, once))
        return function

    return decorate


# What can be read without training ---------------------------------------------------------


@_check("load", "The file can be imported and registers the method.", once=True)
def _load(harness: MethodHarness) -> None:
    _ = harness.method_class


@_check("values", "Parameters have defaults, and all values fit their types.", "load", once=True)
def _values(harness: MethodHarness) -> None:
    values.check(harness.method_class, _fields(harness.method_class))


@_check(
    "documentation", "The class and each of its parameters are documented.", "values", once=True
)
def _documentation(harness: MethodHarness) -> None:
    cls = harness.method_class
    if not harness.entry.doc.strip():
        raise Failed(
            f"{cls.__name__} has no docstring. Write one sentence that says what the method does: "
            "it is what sdgbench list shows."
        )
    if set(cls.flags) != set(harness.entry.details.get("flags", {})):
        raise Failed(
            f"{cls.__name__} has the flags {', '.join(cls.flags)}, but its decorator has others. "
            'Write them there: @register_method(..., flags={"reconstruction": "why"}).'
        )
    bare = [name for name, field in _fields(cls).items() if len(field.doc.strip()) <= 5]
    if bare:
        raise Failed(
            f"The parameter {', '.join(bare)} is not documented. Declare it with a line that says "
            f'what it does: {bare[0]}: ... = param(default, "what it does").'
        )


def _fields(cls: type[Method]) -> dict[str, parameters.Field]:
    kind = cls.Params
    frozen = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    if not frozen:
        raise Failed(
            f"{cls.__name__}.Params is not a frozen dataclass. Write @dataclass(frozen=True) above "
            "it, so that nothing can change the parameters during a run."
        )
    return parameters.fields(kind)


@_check("setup", "The method can be created for the dataset.", "load", "values")
def _setup(harness: MethodHarness) -> None:
    _ = harness.untrained


@_check("plan", "The plan never changes, and each phase has its step.", "setup")
def _plan(harness: MethodHarness) -> None:
    method = harness.untrained
    plan = list(method.plan())
    for phase in plan:
        if not isinstance(phase, Phase):
            raise Failed(f"plan() returned {phase!r}. Return a list of Phase(name, steps).")
        if not isinstance(phase.steps, int) or phase.steps < 0:
            raise Failed(f'The phase "{phase.name}" has {phase.steps} steps. Give a whole number.')
        if not callable(getattr(method, f"{phase.name}_step", None)):
            raise Failed(
                f'The plan has a phase "{phase.name}", but there is no {phase.name}_step. Write '
                f"that function, or take the phase out of plan()."
            )
    if not any(phase.name == "train" and phase.steps for phase in plan):
        raise Failed(
            'The plan has no phase called "train" with a step in it. Give this name to '
            "the phases that train the task network: the learning-rate schedule and the source "
            "validation follow them."
        )
    if plan != list(method.plan()) or plan != list(harness.new().plan()):
        raise Failed(
            "plan() returned another plan when it was called again. Let it depend on self.params "
            "and self.recipe alone: a run that is resumed calls it again."
        )


@_check("data", "The dataset's images and labels fit its task and recipe.", "load", "values")
def _data(harness: MethodHarness) -> None:
    if harness.data is None:
        raise Skipped(NOT_OPENED)
    check_dataset(harness.dataset)


# Training ----------------------------------------------------------------------------------


@_check("save", "All public attributes of the method can be saved.", "plan")
def _save(harness: MethodHarness) -> None:
    try:
        checkpoint.capture(harness.untrained)
        _ = harness.uninterrupted  # saves at the end of each phase
    except UserError as error:
        raise Failed(str(error)) from None
    except Exception:
        return  # training fails for another reason, which "learn" will report


@_check("learn", "Training changes the weights, and its loss is finite.", "save")
def _learn(harness: MethodHarness) -> None:
    try:
        trained = harness.uninterrupted
    except Diverged as error:
        raise Failed(
            f"On easy images with the dataset's own learning rate, {error}. Look for a division "
            "or a logarithm of 0 in the loss, or for a weight of a term that is far too large."
        ) from None
    lines = (harness.folder / "whole" / "train.jsonl").read_text().splitlines()
    losses = [point["loss"] for point in map(json.loads, lines) if point["name"] == "train"]
    if not any(loss is not None for loss in losses):
        raise Failed(
            "train_step returned no loss, so the curve would be empty. End it with "
            "return self.optimise(loss)."
        )
    if difference(weights(harness.untrained), weights(trained)) is None:
        raise Failed(
            "No weight changed in training. Let train_step call self.optimise(loss), which does "
            "the backward pass and the step."
        )


@_check("repeat", "The same seed gives the same weights, another seed others.", "learn")
def _repeat(harness: MethodHarness) -> None:
    first = weights(harness.uninterrupted)
    if not _resumed_equal(harness) and (key := difference(first, weights(harness.train("again")))):
        raise Failed(
            f"Two trainings with the same seed ended differently, first in {key}. Draw random "
            "numbers from torch, numpy.random or random without seeding them, since each step "
            "starts seeded, and keep nothing in globals or on the class."
        )
    if difference(weights(harness.untrained), weights(harness.new(seed=1))):
        return  # different initial weights
    if difference(first, weights(harness.train("other", seed=1))) is None:
        raise Failed(
            "Two trainings with different seeds ended with the same weights. Make networks with "
            "self.new_network(), and do not set seeds of your own."
        )


def _resumed_equal(harness: MethodHarness) -> bool:
    """Whether the stopped and resumed training of the next check repeats the uninterrupted one."""
    try:
        return difference(weights(harness.uninterrupted), weights(harness.stopped)) is None
    except Exception:
        return False  # "resume" will report it


@_check("resume", "A stopped and resumed training ends with the same weights.", "repeat")
def _resume(harness: MethodHarness) -> None:
    if key := difference(weights(harness.uninterrupted), weights(harness.stopped)):
        stops = len(stopping_points(harness.untrained.plan()))
        raise Failed(
            f"After {stops} stops the training ended with other weights, first in {key}. "
            f"{SAVE_STATE}"
        )


@_check("targets", "The method holds no reference to a dataset or domain.", "learn")
def _targets(harness: MethodHarness) -> None:
    for owner, where in (
        (harness.uninterrupted, "self"),
        (type(harness.uninterrupted), "the class"),
    ):
        if path := _path_to_data(dict(vars(owner)), where):
            raise Failed(
                f"{path} is a dataset. A method may learn only from the batches that its steps "
                "are given, so that it cannot reach an unseen domain."
            )


def _path_to_data(value: Any, where: str) -> str | None:
    todo, seen = [(value, where)], set()
    while todo:
        value, where = todo.pop()
        if isinstance(value, Dataset | Domain) or (
            isinstance(value, type) and issubclass(value, Dataset)
        ):
            return where
        if id(value) in seen or isinstance(value, type | ModuleType | Tensor):
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            todo += [(part, f"{where}.{key}") for key, part in value.items()]
        elif isinstance(value, list | tuple | set | frozenset):
            todo += [(part, f"{where}[{position}]") for position, part in enumerate(value)]
        elif hasattr(value, "__dict__"):
            todo.append((vars(value), where))
    return None


# Prediction --------------------------------------------------------------------------------


@_check("predict", "predict returns logits, with the classes in dimension 1.", "learn")
def _predict(harness: MethodHarness) -> None:
    labels = harness.twin.source("val").labels[:IMAGES]
    expected = (IMAGES, harness.twin.task.classes, *labels.shape[1:])
    logits = harness.first_prediction.logits
    if not isinstance(logits, Tensor) or tuple(logits.shape) != expected:
        actual = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise Failed(
            f"predict returned {actual} for {IMAGES} images. Return a tensor of {expected}: "
            "images, classes, and for segmentation height and width."
        )
    if not torch.isfinite(logits).all():
        raise Failed("predict returned logits that are not finite numbers.")


@_check("independence", "A prediction depends on its image alone.", "predict")
def _independence(harness: MethodHarness) -> None:
    method, images = harness.restored, harness.images
    whole = harness.first_prediction.logits
    if not torch.allclose(whole, harness.predict(method, images), atol=TOLERANCE):
        raise Failed(
            "predict returned other logits for the same images when it was called again. Draw no "
            "random numbers in it, and do not depend on earlier calls."
        )
    single = torch.cat([harness.predict(method, image[None]) for image in images])
    order = torch.arange(len(images)).flip(0)
    for other, how in (
        (single, "one by one"),
        (harness.predict(method, images[order])[order], "in another order"),
    ):
        differs = (whole - other).abs() > TOLERANCE + 1e-5 * other.abs()
        # Where a method takes the more confident of two networks, a rounding may flip one pixel.
        if differs.float().mean() > ROUNDED_SHARE:
            largest = (whole - other).abs().max().item()
            raise Failed(
                f"Predicted {how}, the same images get other logits, by up to {largest:.2g}. Use "
                "no means, sorting or normalisation over the batch in predict."
            )


@_check("restart", "After a restart it predicts the same.", "resume", "independence")
def _restart(harness: MethodHarness) -> None:
    before = harness.predict(harness.uninterrupted, harness.images)
    if not torch.equal(before, harness.first_prediction.logits):
        raise Failed(
            f"With the same weights, predict returns other logits after a restart. {SAVE_STATE}"
        )


@_check("purity", "predict changes no attribute of the method.", "predict")
def _purity(harness: MethodHarness) -> None:
    state = harness.first_prediction.state_before
    if changed := changed_attribute(state, snapshot(harness.restored)):
        raise Failed(
            f"predict changed self.{changed}. Update in the training steps only: a second "
            "evaluation must give the same numbers."
        )


@_check("size", "inference_modules lists all modules that predict uses.", "independence")
def _size(harness: MethodHarness) -> None:
    method, images = harness.restored, harness.images
    listed = list(method.inference_modules())
    counted = {id(tensor) for module in listed for tensor in module.parameters()}
    if not counted:
        raise Failed(
            "inference_modules() lists no module with weights. Return the modules that predict "
            "uses, such as [self.network]: they count as the method's size."
        )
    counted |= {id(tensor) for module in listed for tensor in module.buffers()}
    others = [
        tensor
        for module in checkpoint.modules(method).values()
        for tensor in module.state_dict(keep_vars=True).values()  # constants are not in it
        if id(tensor) not in counted and tensor.is_floating_point()
    ]
    if not others:
        return
    saved = [tensor.detach().clone() for tensor in others]
    with torch.no_grad():
        for tensor in others:
            tensor += 1 + tensor.abs()
    changed = harness.predict(method, images)
    with torch.no_grad():
        for tensor, values in zip(others, saved, strict=True):
            tensor.copy_(values)
    if not torch.equal(harness.first_prediction.logits, changed):
        raise Failed(
            "predict uses modules that inference_modules() does not list. Add them to its list, "
            "so that tables show the real size of the method."
        )


@_check("swap", "When weights are exchanged, predictions follow them.", "independence")
def _swap(harness: MethodHarness) -> None:
    method, images = harness.restored, harness.images
    before = harness.first_prediction.logits
    trained = checkpoint.copy_weights(method)
    checkpoint.assign_weights(method, checkpoint.copy_weights(harness.untrained))
    swapped = harness.predict(method, images)
    checkpoint.assign_weights(method, trained)
    if torch.equal(before, swapped):
        raise Failed(
            "With the weights from before the training, predict returns the same logits as after "
            "it. Keep the networks that predict uses in attributes without a leading underscore, "
            "and keep no copy of their weights: evaluation replaces them by those that validation "
            "selected."
        )
    if not torch.equal(before, harness.predict(method, images)):
        raise Failed(
            "When the trained weights are restored, predict returns other logits than before. Let "
            "it depend on the images and on the weights alone."
        )


# A real run --------------------------------------------------------------------------------


@_check(
    "run", "A real run at the smoke preset leaves a readable record.", "data", "resume", "predict"
)
def _run(harness: MethodHarness) -> None:
    if harness.data is None:
        raise Skipped(NOT_OPENED)
    if issubclass(harness.spec.dataset_class, DownloadedDataset):
        raise Skipped("A real run is done only on datasets that need no download.")
    spec, runs = harness.resolve(changes={}), harness.folder / "runs"
    execute(spec, Store(runs), harness.data, Device("cpu"), Silent())
    for record in Store(runs).records():
        if isinstance(record, UserError):
            raise record
        score = record.last.average
        if record.id != spec.id or not math.isfinite(score):
            raise Failed(f"The run's record has the id {record.id} and the score {score}.")
