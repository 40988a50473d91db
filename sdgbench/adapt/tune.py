"""Fine-tunes a copy of a finished run on few images and scores it on the rest of the target."""

import copy
import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import torch

from sdgbench import storage
from sdgbench.adapt.samples import Target
from sdgbench.errors import Interrupted, UserError
from sdgbench.evaluation.evaluator import score_domain
from sdgbench.method import Method, Read
from sdgbench.records import provenance
from sdgbench.records.adaptations import (
    PROTOCOL,
    Adaptation,
    Asked,
    Drawn,
    Evaluated,
    ParentRun,
    read,
)
from sdgbench.records.schema import Code, Machine, Record, SplitContent, utc_now
from sdgbench.records.scores import DomainScore
from sdgbench.spec.run_spec import RunSpec
from sdgbench.spec.seeds import seed_everything
from sdgbench.training import checkpoint
from sdgbench.training.build_method import new_method
from sdgbench.training.curve import Diverged
from sdgbench.training.device import Device
from sdgbench.training.feeds import Feed, Images
from sdgbench.training.pool import Pool
from sdgbench.training.streaming import open_images

OnStep = Callable[[int, float | None], object]  # steps done, the loss that was read last
READ_EVERY = 10  # steps between two readings of the loss


class Parent:
    """A finished run, from whose weights each adaptation starts."""

    def __init__(self, spec: RunSpec, folder: Path, record: Record) -> None:
        self.spec, self.folder, self.record = spec, folder, record

    @property
    def path(self) -> Path:
        """Where its weights are."""
        return self.folder / "checkpoint.pt"

    @cached_property
    def checkpoint_sha256(self) -> str:
        """Which weights these are."""
        return storage.sha256(self.path)

    def copy(self, device: Device) -> Method:
        """The method as it stood at the end of training."""
        recipe, size = self.spec.build_recipe(), self.record.source.train.count
        pool = Pool(self.folder / "adapt" / "pool", (3, *recipe.image_size), ())
        task = self.spec.dataset_class.task_for(self.spec.build_options())
        method = new_method(self.spec, task, device, size, pool, restored=True)
        checkpoint.restore(method, copy.deepcopy(self._state(device)["method"]))
        return method

    def _state(self, device: Device) -> dict[str, Any]:
        if self._loaded is None or self._loaded[0] is not device:
            state = checkpoint.load(self.path, device.torch)
            if state["run"] != self.spec.id:
                raise UserError(
                    f"{self.path} belongs to the run {state['run']}. Delete it and "
                    f"train again: {self.spec.command} --redo"
                )
            self._loaded = (device, state)
        return self._loaded[1]

    _loaded: tuple[Device, dict[str, Any]] | None = None


def finished(asked: Asked, parent: Parent) -> Adaptation | None:
    """The result that is there already, if it was made from the weights that are there now."""
    path = asked.path(parent.folder)
    earlier = read(path) if path.exists() else None
    same_weights = earlier and earlier.parent.checkpoint == parent.checkpoint_sha256
    return earlier if same_weights else None


def fine_tune(
    method: Method,
    images: Images,
    asked: Asked,
    seed: int,
    on_step: OnStep = lambda step, loss: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Train what the method predicts with on a few images, all of it, by Adam."""
    weights = [w for module in method.inference_modules() for w in module.parameters()]
    optimizer = torch.optim.Adam(weights, asked.lr)
    stream = ("adapt", asked.target, asked.draw, asked.shots)
    read = Read(batch=asked.batch)
    feed = Feed("/".join(map(str, stream)), read, images, method.pool, method.recipe, seed)
    for module in checkpoint.modules(method).values():
        module.train()
    recent: float | None = None
    for step in range(1, asked.iterations + 1):
        if should_stop():
            raise Interrupted(f"in {asked.shots} shots, draw {asked.draw} of {asked.target}")
        seed_everything(seed, *stream, step)
        loss = method.adapt_step(*feed.next(), optimizer)
        if step % READ_EVERY == 0 or step == asked.iterations:  # reading waits for a GPU
            recent = float(loss)
            if not math.isfinite(recent):
                raise Diverged(f"the loss became {recent} at step {step} of {asked.target}")
        on_step(step, recent)


def adapt(
    parent: Parent,
    asked: Asked,
    target: Target,
    device: Device,
    environment: "Environment",
    on_step: OnStep = lambda step, loss: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Adaptation:
    """Make one adaptation and keep its result; the run itself stays as it is."""
    started, began = utc_now(), time.perf_counter()
    spec = parent.spec
    method = parent.copy(device)
    rows = target.draw(spec.seed, asked.draw, asked.shots)
    drawn = target.split.select(rows) if len(rows) else None
    fit = None
    if drawn is not None:
        with closing(open_images(drawn, device)) as images:
            fine_tune(method, images, asked, spec.seed, on_step, should_stop)
            fit = _score(method, images)
    domain = target.evaluation(spec.seed, asked.draw, asked.held_out)
    with closing(open_images(domain, device)) as images:
        results = _score(method, images)
    adaptation = Adaptation(
        id=asked.id,
        asked=asked,
        parent=ParentRun(
            id=parent.record.id,
            spec=parent.record.spec,
            checkpoint=parent.checkpoint_sha256,
            method_file_sha256=parent.record.code.method_file_sha256,
            # The same images as the run's own evaluation, where none is held out.
            results=parent.record.last.per_domain.get(target.name),
        ),
        protocol=PROTOCOL if asked.iterations else "the untouched network",
        drawn=Drawn(
            split=asked.drawn_from,
            of=len(target.split),
            rows=[int(row) for row in rows],
            sha256=drawn.sha256() if drawn else None,
        ),
        evaluation=Evaluated(
            count=len(domain),
            sha256=domain.sha256(),
            whole=SplitContent(count=len(target.whole), sha256=target.whole_sha256),
        ),
        results=results,
        fit=fit,
        flags=target.flags,
        started=started,
        finished=utc_now(),
        seconds=round(time.perf_counter() - began, 3),
        code=environment.code,
        packages=environment.packages,
        machine=environment.machine,
    )
    storage.write_json(asked.path(parent.folder), msgspec.to_builtins(adaptation))
    return adaptation


@dataclass(frozen=True)
class Environment:
    """What made the results of one command: code, packages, machine."""

    code: Code
    packages: dict[str, str]
    machine: Machine


def environment_of(spec: RunSpec, device: Device) -> Environment:
    """The environment of this process."""
    machine = msgspec.convert(device.describe(), Machine)
    return Environment(provenance.code(spec), provenance.packages(), machine)


def _score(method: Method, images: Images) -> DomainScore:
    for module in checkpoint.modules(method).values():
        module.eval()
    return score_domain(method, images, method.recipe.eval_batch)[0]
