"""One method on the tiny twin of one dataset, cut to a few steps: seconds, and no data at all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from sdgbench import checkpoint, registry, spec
from sdgbench.dataset import Dataset
from sdgbench.device import Device
from sdgbench.errors import Interrupted
from sdgbench.method import Method, Phase
from sdgbench.progress import Silent
from sdgbench.runner import build_method
from sdgbench.train import Trainer

CUT = {
    "recipe.steps": "6",
    "recipe.epochs": "0",
    "recipe.batch": "4",
    "recipe.eval_batch": "16",
    # Without validation no prediction is made in training, so a fault has one place to show.
    "recipe.validations": "0",
}
IMAGES = 12  # that predictions are compared on


class World:
    """Makes and trains a method; what several checks need is done once.

    ``settings`` are those of ``--set``: ``World("mixup", "digits-mini", folder, alpha="0")``.
    """

    def __init__(
        self, method: str, dataset: str, folder: Path, data: Path = Path("data"), **settings: str
    ) -> None:
        self.method_name, self.dataset_name = method, dataset
        self.folder, self.data, self.settings = folder, data, settings

    @property
    def entry(self) -> registry.Entry:
        """What is known of the method without importing it."""
        return registry.get("method", self.method_name)

    @property
    def method_class(self) -> type[Method]:
        """The method's class."""
        return self.entry.load()

    def resolve(self, cut: Mapping[str, str] = CUT) -> spec.RunSpec:
        """What is asked of the method; without ``cut``, the dataset's own smoke preset."""
        assignments = [*cut.items(), *self.settings.items()]
        return spec.resolve(self.method_name, self.dataset_name, "smoke", 0, assignments)

    @cached_property
    def spec(self) -> spec.RunSpec:
        """The short run that most checks look at."""
        return self.resolve()

    @cached_property
    def twin(self) -> Dataset:
        """The dataset's synthetic twin."""
        cls = self.spec.dataset_class
        return cls.tiny(self.spec.build_options(), self.spec.build_recipe())

    @property
    def images(self) -> Tensor:
        """Some images to predict."""
        return torch.from_numpy(self.twin.source("val").images[:IMAGES]).float() / 255

    def new(self, name: str = "new", seed: int = 0) -> Method:
        """A method before its first step; ``name`` is that of its folder."""
        asked = replace(self.spec, seed=seed)
        source = self.twin.source("train")
        return build_method(asked, self.twin, Device("cpu"), source, self.folder / name / "pool")

    def train(
        self, name: str, seed: int = 0, should_stop: Callable[[], bool] = lambda: False
    ) -> Method:
        """Make a method and carry it to its end, from wherever its folder says it stands."""
        method = self.new(name, seed)
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        Trainer(
            method, self.twin.source("train"), self.twin.source("val"), folder, "run", Silent(),
            checkpoint_seconds=1e9, should_stop=should_stop,
        ).run()  # fmt: skip
        return method

    @cached_property
    def undisturbed(self) -> Method:
        """The method after one whole training. Look, but do not change it."""
        return self.train("whole")

    @cached_property
    def stopped(self) -> Method:
        """The same training, stopped here and there, and resumed each time."""
        places, steps = stopping_places(self.new().plan()), 0

        def stop() -> bool:
            nonlocal steps
            steps += 1
            return steps in places

        while True:
            try:
                return self.train("stopped", should_stop=stop)
            except Interrupted:
                continue

    def restored(self) -> Method:
        """Another object with the same training behind it, to do with what one likes."""
        _ = self.undisturbed
        return self.train("whole")

    def predict(self, method: Method, images: Tensor) -> Tensor:
        """Predict as the evaluator does."""
        for module in checkpoint.modules(method).values():
            module.eval()
        with torch.inference_mode():
            return method.predict(images)


def weights(method: Method) -> dict[str, Tensor]:
    """All weights and buffers of a method's modules, by name."""
    return {
        f"{name}.{key}": tensor
        for name, module in checkpoint.modules(method).items()
        for key, tensor in module.state_dict().items()
    }


def stopping_places(plan: Sequence[Phase]) -> set[int]:
    """Where to stop, in steps from the start of the run.

    Of the phases of one name: in the first after its first step, in one between in the middle, in
    the last after its last step. There all kinds of state come by.
    """
    by_name: dict[str, list[tuple[int, int]]] = {}
    before = 0
    for phase in plan:
        if phase.steps:
            by_name.setdefault(phase.name, []).append((before, phase.steps))
        before += phase.steps
    places = set()
    for phases in by_name.values():
        (first, _), (middle, steps), (last, all_steps) = (
            phases[0], phases[len(phases) // 2], phases[-1]
        )  # fmt: skip
        places |= {first + 1, middle + (steps + 1) // 2, last + all_steps}
    return places


def difference(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> str | None:
    """Name the first tensor that is not the same in both, bit for bit."""
    for key in sorted(first.keys() | second.keys()):
        if key not in first or key not in second or not torch.equal(first[key], second[key]):
            return key
    return None
