"""Fine-tunes a copy of a finished run on few images and scores it on the rest of the target."""

import copy
import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from sdgbench import checkpoint, provenance, record, registry, storage
from sdgbench.adapt.results import KIND, PROTOCOL, SCHEMA, Asked, Result, read
from sdgbench.adapt.samples import Target
from sdgbench.device import Device
from sdgbench.errors import Interrupted, UserError
from sdgbench.evaluate import score_domain
from sdgbench.feed import Feed, Images
from sdgbench.method import Method, Read
from sdgbench.pool import Pool
from sdgbench.runner import new_method
from sdgbench.seeds import seed_everything
from sdgbench.spec import RunSpec
from sdgbench.stream import open_images
from sdgbench.train import Diverged

OnStep = Callable[[int, float], object]  # steps done, the loss


class Parent:
    """A finished run, from whose weights each adaptation starts anew."""

    def __init__(self, spec: RunSpec, folder: Path, record: record.Record) -> None:
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
        recipe, size = self.spec.build_recipe(), self.record["source"]["train"]["count"]
        pool = Pool(self.folder / "adapt" / "pool", (3, *recipe.image_size), ())
        method = new_method(self.spec, self.spec.dataset_class.task, device, size, pool)
        checkpoint.restore(method, copy.deepcopy(self._state(device)["method"]))
        return method

    def _state(self, device: Device) -> dict[str, Any]:
        if self._loaded is None or self._loaded[0] is not device:
            state = checkpoint.load(self.path, device.torch)
            if state["run"] != self.spec.id:
                raise UserError(f"{self.path} belongs to the run {state['run']}. Delete it and "
                                f"train again: {self.spec.command} --redo")  # fmt: skip
            self._loaded = (device, state)
        return self._loaded[1]

    _loaded: tuple[Device, dict[str, Any]] | None = None


def finished(asked: Asked, parent: Parent) -> Result | None:
    """The result that is there already, if it was made from the weights that are there now."""
    path = asked.path(parent.folder)
    found = read(path) if path.exists() else None
    return found if found and found["parent"]["checkpoint"] == parent.checkpoint_sha256 else None


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
    place = ("adapt", asked.target, asked.draw, asked.shots)
    read = Read(batch=asked.batch)
    feed = Feed("/".join(map(str, place)), read, images, method.pool, method.recipe, seed)
    for module in checkpoint.modules(method).values():
        module.train()
    for step in range(1, asked.iterations + 1):
        if should_stop():
            raise Interrupted(f"in {asked.shots} shots, draw {asked.draw} of {asked.target}")
        seed_everything(seed, *place, step)
        loss = float(method.adapt_step(*feed.next(), optimizer))
        if not math.isfinite(loss):
            raise Diverged(f"the loss became {loss} at step {step} of {asked.target}")
        on_step(step, loss)


def adapt(
    parent: Parent,
    asked: Asked,
    target: Target,
    device: Device,
    surroundings: dict[str, Any],
    on_step: OnStep = lambda step, loss: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Make one adaptation and keep its result; the run itself stays as it is."""
    started, began = record.now(), time.perf_counter()
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
    result = {
        "schema": SCHEMA,
        "kind": KIND,
        "id": asked.id,
        "asked": asdict(asked),
        "parent": {
            "id": parent.record["id"],
            "spec": parent.record["spec"],
            "checkpoint": parent.checkpoint_sha256,
            "method_file_sha256": parent.record.get("code", {}).get("method_file_sha256"),
            # The same images as the run's own evaluation, where none is held out.
            "results": parent.record["results"]["last"]["per_domain"].get(target.name),
        },
        "protocol": PROTOCOL if asked.iterations else "the untouched network",
        "drawn": {
            "split": asked.drawn_from,
            "of": len(target.split),
            "rows": [int(row) for row in rows],
            "sha256": drawn.sha256() if drawn else None,
        },
        "evaluation": {
            "count": len(domain),
            "sha256": domain.sha256(),
            "whole": {"count": len(target.whole), "sha256": target.whole_sha256},
        },
        "results": results,
        "fit": fit,  # on the images that were learned from
        "flags": target.flags,
        "started": started,
        "finished": record.now(),
        "seconds": round(time.perf_counter() - began, 3),
        **surroundings,
    }
    storage.write_json(asked.path(parent.folder), result)
    return result


def surroundings(spec: RunSpec, device: Device) -> dict[str, Any]:
    """What made the results of one command: code, packages, machine."""
    code = {
        **provenance.code(),
        "method_file_sha256": registry.get("method", spec.method).source_sha256,
        "dataset_file_sha256": registry.get("dataset", spec.dataset).source_sha256,
    }
    return {"code": code, "packages": provenance.packages(), "machine": device.describe()}


def _score(method: Method, images: Images) -> dict[str, Any]:
    for module in checkpoint.modules(method).values():
        module.eval()
    return score_domain(method, images, method.recipe.eval_batch)[0]
