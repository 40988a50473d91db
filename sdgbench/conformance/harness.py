"""One method on the synthetic twin of one dataset, for a few steps: seconds, and no download."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sdgbench import registry
from sdgbench.conformance.synthetic import SyntheticTwin
from sdgbench.dataset import Dataset
from sdgbench.errors import Interrupted
from sdgbench.method import Method, Phase
from sdgbench.reporter import Silent
from sdgbench.spec.resolution import resolve
from sdgbench.spec.run_spec import RunSpec
from sdgbench.training import checkpoint
from sdgbench.training.build_method import build_method
from sdgbench.training.device import Device
from sdgbench.training.trainer import Trainer

SHORTENED = {
    "recipe.steps": "6",
    "recipe.epochs": "0",
    "recipe.batch": "4",
    "recipe.eval_batch": "16",
    # Without validation nothing is predicted in training, so that a fault shows in one check.
    "recipe.validations": "0",
}
IMAGES = 6  # on which predictions are compared


@dataclass(frozen=True)
class FirstPrediction:
    """The first prediction after a restart, and the state of the method before it."""

    logits: Tensor
    state_before: dict[str, Any]


class MethodHarness:
    """Creates and trains a method; what several checks need is computed once.

    ``settings`` are those of ``--set``, such as ``alpha="0"``. Without a ``data`` folder, the
    dataset itself is never opened: only its synthetic twin is used.
    """

    def __init__(
        self,
        method: str,
        dataset: str,
        folder: Path,
        data: Path | None = Path("data"),
        **settings: str,
    ) -> None:
        self.method_name, self.dataset_name = method, dataset
        self.folder, self.data, self.settings = folder, data, settings

    @property
    def entry(self) -> registry.Entry:
        """The method's entry in the registry, which does not import it."""
        return registry.get("method", self.method_name)

    @property
    def method_class(self) -> type[Method]:
        """The method's class."""
        return self.entry.load()

    def resolve(self, changes: Mapping[str, str] = SHORTENED) -> RunSpec:
        """The smoke preset with these changes and ``settings``."""
        assignments = [*changes.items(), *self.settings.items()]
        return resolve(self.method_name, self.dataset_name, "smoke", 0, assignments)

    @cached_property
    def spec(self) -> RunSpec:
        """The short run that most checks use."""
        return self.resolve()

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset itself, which may need data that are missing."""
        assert self.data is not None
        cls = self.spec.dataset_class
        return cls(self.data, self.spec.build_options(), self.spec.build_recipe())

    @cached_property
    def twin(self) -> Dataset:
        """The dataset's synthetic twin."""
        cls = self.spec.dataset_class
        return SyntheticTwin(cls, self.spec.build_options(), self.spec.build_recipe())

    @cached_property
    def images(self) -> Tensor:
        """Some images to predict."""
        return torch.from_numpy(self.twin.source("val").images[:IMAGES]).float() / 255

    def new(self, name: str = "new", seed: int = 0) -> Method:
        """A method before its first step; ``name`` is that of its folder."""
        spec = replace(self.spec, seed=seed)
        source = self.twin.source("train")
        return build_method(spec, self.twin, Device("cpu"), source, self.folder / name / "pool")

    def train(
        self, name: str, seed: int = 0, should_stop: Callable[[], bool] = lambda: False
    ) -> Method:
        """Create a method and train it to the end, from a checkpoint in its folder if any."""
        method = self.new(name, seed)
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        Trainer(
            method,
            self.twin.source("train"),
            self.twin.source("val"),
            folder,
            "run",
            Silent(),
            checkpoint_seconds=1e9,
            should_stop=should_stop,
        ).run()
        return method

    @cached_property
    def uninterrupted(self) -> Method:
        """The method after one uninterrupted training. Do not change it: checks share it."""
        return self.train("whole")

    @cached_property
    def stopped(self) -> Method:
        """The method after the same training, stopped several times and resumed each time."""
        stops, steps = stopping_points(self.untrained.plan()), 0

        def stop() -> bool:
            nonlocal steps
            steps += 1
            return steps in stops

        while True:
            try:
                return self.train("stopped", should_stop=stop)
            except Interrupted:
                continue

    @cached_property
    def untrained(self) -> Method:
        """The method before its first step. Do not change it: checks share it."""
        return self.new()

    @cached_property
    def restored(self) -> Method:
        """A new object in the state of ``uninterrupted``. Undo your changes: checks share it."""
        _ = self.uninterrupted
        return self.train("whole")

    @cached_property
    def first_prediction(self) -> FirstPrediction:
        """What ``restored`` predicts for ``images`` before it has predicted anything else."""
        before = snapshot(self.restored)
        return FirstPrediction(self.predict(self.restored, self.images), before)

    def predict(self, method: Method, images: Tensor) -> Tensor:
        """Predict as the evaluator does."""
        for module in checkpoint.modules(method).values():
            module.eval()
        with torch.inference_mode():
            return method.predict(images)


def snapshot(method: Method) -> dict[str, Any]:
    """A copy of everything that is saved of a method, so that changes in place are noticed."""
    return {name: _copied(value) for name, value in checkpoint.capture(method).items()}


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(part) for part in value]
    return value


def changed_attribute(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """Name the first attribute that differs between two snapshots."""
    names = sorted(before.keys() | after.keys())
    return next((name for name in names if not _same(before.get(name), after.get(name))), None)


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_same(first[k], second[k]) for k in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_same, first, second))
    return type(first) is type(second) and bool(first == second)


def weights(method: Method) -> dict[str, Tensor]:
    """All weights and buffers of a method's modules, by name."""
    return {
        f"{name}.{key}": tensor
        for name, module in checkpoint.modules(method).items()
        for key, tensor in module.state_dict().items()
    }


def stopping_points(plan: Sequence[Phase]) -> set[int]:
    """Where to stop, in steps from the start of the run.

    Of the phases of one name: after the first step of the first, in the middle of one between,
    after the last step of the last. So stops meet all kinds of state.
    """
    by_name: dict[str, list[tuple[int, int]]] = {}
    before = 0
    for phase in plan:
        if phase.steps:
            by_name.setdefault(phase.name, []).append((before, phase.steps))
        before += phase.steps
    points = set()
    for phases in by_name.values():
        (first, _), (middle, steps), (last, all_steps) = (
            phases[0],
            phases[len(phases) // 2],
            phases[-1],
        )
        points |= {first + 1, middle + (steps + 1) // 2, last + all_steps}
    return points


def difference(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> str | None:
    """Name the first tensor that is not the same in both, bit for bit."""
    for key in sorted(first.keys() | second.keys()):
        if key not in first or key not in second or not torch.equal(first[key], second[key]):
            return key
    return None
