"""The checks, in the order in which a contributor wants to hear of them."""

import dataclasses
import json
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from sdgbench import checkpoint, settings
from sdgbench.conformance import values
from sdgbench.conformance.outcome import Check, Failed, Skipped
from sdgbench.conformance.world import IMAGES, World, difference, stopping_places, weights
from sdgbench.dataset import Dataset, Domain
from sdgbench.device import Device
from sdgbench.embedded import EmbeddedDataset
from sdgbench.errors import UserError
from sdgbench.method import Method, Phase
from sdgbench.progress import Silent
from sdgbench.record import Store
from sdgbench.runner import execute
from sdgbench.train import Diverged

CHECKS: list[Check] = []
TOLERANCE = 1e-4  # of predictions: a batch of another size may be summed in another order
KEEP = (
    "What it depends on must be kept in attributes without a leading underscore, because only "
    "these are saved, or be computed from them whenever it is needed."
)
_Function = Callable[[World], None]


def _check(
    name: str, rule: str, *needs: str, once: bool = False
) -> Callable[[_Function], _Function]:
    def decorate(function: _Function) -> _Function:
        CHECKS.append(Check(name, rule, function, needs, once))
        return function

    return decorate


# What can be read without training ---------------------------------------------------------


@_check("load", "The file can be imported and registers the method.", once=True)
def _load(world: World) -> None:
    _ = world.method_class


@_check("values", "Parameters have defaults, and all values fit their types.", "load", once=True)
def _values(world: World) -> None:
    values.check(world.method_class, _fields(world.method_class))


@_check(
    "documentation", "The class and each of its parameters say what they do.", "values", once=True
)
def _documentation(world: World) -> None:
    cls = world.method_class
    if not world.entry.doc.strip():
        raise Failed(
            f"{cls.__name__} has no docstring. Write one sentence that says what the method does: "
            "it is what sdgbench list shows."
        )
    bare = [name for name, field in _fields(cls).items() if len(field.doc.strip()) <= 5]
    if bare:
        raise Failed(
            f"The parameter {', '.join(bare)} is not documented. Declare it with a line that says "
            f'what it does: {bare[0]}: ... = param(default, "what it does").'
        )


def _fields(cls: type[Method]) -> dict[str, settings.Field]:
    kind = cls.Params
    frozen = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    if not frozen:
        raise Failed(
            f"{cls.__name__}.Params is not a frozen dataclass. Write @dataclass(frozen=True) above "
            "it, so that nothing changes the parameters of a run on its way."
        )
    return settings.fields(kind)


@_check("setup", "The method can be made for the dataset.", "load", "values")
def _setup(world: World) -> None:
    world.new()


@_check("plan", "The plan never changes, and each phase has its step.", "setup")
def _plan(world: World) -> None:
    method = world.new()
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
            'The plan has no phase called "train" with a step in it. Call the phases that '
            "train the task network so: the learning-rate schedule and the source validation "
            "follow them."
        )
    if plan != list(method.plan()) or plan != list(world.new().plan()):
        raise Failed(
            "plan() gave another answer when it was asked again. Let it depend on self.params and "
            "self.recipe alone: a run that goes on after a stop asks again."
        )


# Training ----------------------------------------------------------------------------------


@_check("save", "All that the method keeps in its attributes can be saved.", "plan")
def _save(world: World) -> None:
    try:
        checkpoint.capture(world.new())
        _ = world.undisturbed  # saves at the end of each phase
    except UserError as error:
        raise Failed(str(error)) from None
    except Exception:
        return  # training fails for another reason, and "learn" will tell


@_check("learn", "Training changes the weights, and its loss is finite.", "save")
def _learn(world: World) -> None:
    try:
        trained = world.undisturbed
    except Diverged as error:
        raise Failed(
            f"On easy images with the dataset's own learning rate, {error}. Look for a division "
            "or a logarithm of 0 in the loss, or for a weight of a term that is far too large."
        ) from None
    lines = (world.folder / "whole" / "train.jsonl").read_text().splitlines()
    losses = [point["loss"] for point in map(json.loads, lines) if point["name"] == "train"]
    if not any(loss is not None for loss in losses):
        raise Failed(
            "train_step returned no loss, so the curve would be empty. End it with "
            "return self.optimise(loss)."
        )
    if difference(weights(world.new()), weights(trained)) is None:
        raise Failed(
            "No weight changed in training. Let train_step call self.optimise(loss), which does "
            "the backward pass and the step."
        )


@_check("repeat", "The same seed gives the same weights, another seed others.", "learn")
def _repeat(world: World) -> None:
    first = weights(world.undisturbed)
    if not _resumed_equal(world) and (key := difference(first, weights(world.train("again")))):
        raise Failed(
            f"Two trainings with the same seed ended differently, first in {key}. Draw random "
            "numbers from torch, numpy.random or random without seeding them, since each step "
            "starts seeded, and keep nothing in globals or on the class."
        )
    if difference(weights(world.new()), weights(world.new(seed=1))):
        return  # they start differently
    if difference(first, weights(world.train("other", seed=1))) is None:
        raise Failed(
            "Two trainings with different seeds ended with the same weights. Make networks with "
            "self.new_network(), and do not set seeds of your own."
        )


def _resumed_equal(world: World) -> bool:
    """Whether the training of the next check, stopped and resumed, repeats the undisturbed one."""
    try:
        return difference(weights(world.undisturbed), weights(world.stopped)) is None
    except Exception:
        return False  # "resume" will tell


@_check("resume", "Stopped inside its phases, it goes on to the same weights.", "repeat")
def _resume(world: World) -> None:
    if key := difference(weights(world.undisturbed), weights(world.stopped)):
        places = len(stopping_places(world.new().plan()))
        raise Failed(
            f"After {places} stops the training ended with other weights, first in {key}. {KEEP}"
        )


@_check("targets", "Nothing that the method holds leads to a target domain.", "learn")
def _targets(world: World) -> None:
    for owner, where in ((world.undisturbed, "self"), (type(world.undisturbed), "the class")):
        if found := _path_to_data(dict(vars(owner)), where):
            raise Failed(
                f"{found} is a dataset. A method learns from the batches that its steps are "
                "handed, and from nothing else: no unseen domain may be within its reach."
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


@_check("predict", "predict gives logits, with the classes in dimension 1.", "learn")
def _predict(world: World) -> None:
    labels = world.twin.source("val").labels[:IMAGES]
    wanted = (IMAGES, world.twin.task.classes, *labels.shape[1:])
    logits = world.predict(world.restored(), world.images)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise Failed(
            f"predict returned {got} for {IMAGES} images. Return a tensor of {wanted}: images, "
            "classes, and for segmentation height and width."
        )
    if not torch.isfinite(logits).all():
        raise Failed("predict returned logits that are not finite numbers.")


@_check("independence", "A prediction depends on its image alone.", "predict")
def _independence(world: World) -> None:
    method, images = world.restored(), world.images
    whole = world.predict(method, images)
    if not torch.allclose(whole, world.predict(method, images), atol=TOLERANCE):
        raise Failed(
            "predict gave other logits for the same images when it was called again. Draw no "
            "random numbers in it, and let nothing depend on earlier calls."
        )
    single = torch.cat([world.predict(method, image[None]) for image in images])
    order = torch.arange(len(images)).flip(0)
    for other, how in (
        (single, "one by one"),
        (world.predict(method, images[order])[order], "in another order"),
    ):
        if not torch.allclose(whole, other, atol=TOLERANCE):
            off = (whole - other).abs().max().item()
            raise Failed(
                f"Predicted {how}, the same images get other logits, by up to {off:.2g}. Use no "
                "means, sorting or normalisation over the batch in predict."
            )


@_check("restart", "Evaluated after a restart, it predicts the same.", "resume", "independence")
def _restart(world: World) -> None:
    before, after = (
        world.predict(method, world.images) for method in (world.undisturbed, world.restored())
    )
    if not torch.equal(before, after):
        raise Failed(f"With the same weights, predict gives other logits after a restart. {KEEP}")


@_check("purity", "predict changes nothing.", "predict")
def _purity(world: World) -> None:
    method = world.restored()
    # By value: a tensor that is changed in place must still be found.
    before = _snapshot(method)
    world.predict(method, world.images)
    after = _snapshot(method)
    changed = [name for name in sorted(before.keys() | after.keys())
               if not _same(before.get(name), after.get(name))]  # fmt: skip
    if changed:
        raise Failed(
            f"predict changed self.{changed[0]}. Update in the training steps only: whoever "
            "evaluates twice must get the same numbers."
        )


def _snapshot(method: Method) -> dict[str, Any]:
    return {name: _copied(value) for name, value in checkpoint.capture(method).items()}


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(part) for part in value]
    return value


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_same(first[k], second[k]) for k in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_same, first, second))
    return type(first) is type(second) and bool(first == second)


@_check("swap", "Predictions follow the weights that are put in place.", "independence")
def _swap(world: World) -> None:
    method, images = world.restored(), world.images
    trained, own = checkpoint.copy_weights(method), world.predict(method, images)
    checkpoint.assign_weights(method, checkpoint.copy_weights(world.new()))
    if torch.equal(own, world.predict(method, images)):
        raise Failed(
            "With the weights from before the training, predict gives the same logits as after "
            "it. Keep the networks that predict uses in attributes without a leading underscore, "
            "and keep no copy of their weights: the weights that validation chose are put there."
        )
    checkpoint.assign_weights(method, trained)
    if not torch.equal(own, world.predict(method, images)):
        raise Failed(
            "When its own weights are put back, predict no longer gives its own logits. Let it "
            "depend on the images and on the weights alone."
        )


@_check("size", "inference_modules lists all modules that predict uses.", "independence")
def _size(world: World) -> None:
    method, images = world.restored(), world.images
    listed = list(method.inference_modules())
    counted = {id(tensor) for module in listed for tensor in module.parameters()}
    if not counted:
        raise Failed(
            "inference_modules() lists no module with weights. Return the modules that predict "
            "uses, such as [self.network]: they count as the method's size."
        )
    counted |= {id(tensor) for module in listed for tensor in module.buffers()}
    before = world.predict(method, images)
    with torch.no_grad():
        for module in checkpoint.modules(method).values():
            for tensor in (*module.parameters(), *module.buffers()):
                if id(tensor) not in counted and tensor.is_floating_point():
                    tensor += 1 + tensor.abs()
    if not torch.equal(before, world.predict(method, images)):
        raise Failed(
            "predict uses modules that inference_modules() does not list. Add them to its list, "
            "so that tables show the method's true size."
        )


# All of it ---------------------------------------------------------------------------------


@_check("run", "A real run at the smoke preset leaves a readable record.", "resume",
        "predict")  # fmt: skip
def _run(world: World) -> None:
    if not issubclass(world.spec.dataset_class, EmbeddedDataset):
        raise Skipped("A real run is made on embedded datasets only, which need no download.")
    asked, runs = world.resolve(cut={}), world.folder / "runs"
    execute(asked, Store(runs), world.data, Device("cpu"), Silent())
    for found in Store(runs).records():
        if isinstance(found, UserError):
            raise found
        score = found["results"]["last"]["average"]
        if found["id"] != asked.id or not math.isfinite(score):
            raise Failed(f"The run's record has the id {found['id']} and the score {score}.")
