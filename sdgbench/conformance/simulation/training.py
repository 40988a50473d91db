"""Trains methods on a simulated GPU, in a process that was started with one.

``python -m sdgbench.conformance.simulation`` is that process: it reads cases as JSON from standard
input and prints one result per line.
"""

import json
import math
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from sdgbench import registry
from sdgbench.conformance.simulation.preload import environment

PRECISIONS = ("float32", "bf16", "fp16")
FRAMES = 6  # of a traceback that a result keeps


@dataclass(frozen=True)
class Case:
    """One training to simulate."""

    method: str
    dataset: str
    precision: str = "float32"
    channels_last: bool = False
    graphs: bool = False  # capture the steps


@dataclass
class Simulated:
    """What came out of a case."""

    case: Case
    error: str = ""  # the end of the traceback
    waits: list[tuple[str, str, str, int]] = field(default_factory=list)  # see ``Wait``; count
    steps: dict[str, int] = field(default_factory=dict)  # by name of the step
    operations: dict[str, int] = field(default_factory=dict)  # on the device, by step
    points: int = 0  # of the curve
    captured: list[str] = field(default_factory=list)  # names of steps
    not_captured: dict[str, str] = field(default_factory=dict)  # names of steps, and why

    @property
    def waits_in_steps(self) -> list[str]:
        """Each place in the method's steps where the host waits, in words."""
        return [
            f"{step}_step {reason} at {where} ({count} times)"
            for reason, where, step, count in self.waits
            if step
        ]

    @property
    def graphs(self) -> tuple[str, str]:
        """The steps that ran as a CUDA graph, and those that could not, with the reasons."""
        reasons = [f"{step} {reason}" for step, reason in sorted(self.not_captured.items())]
        return ", ".join(sorted(self.captured)), "; ".join(reasons)

    @property
    def waits_of_loop(self) -> int:
        """How often the training loop itself waits."""
        return sum(count for _, _, step, count in self.waits if not step)


def simulate(cases: Sequence[Case], plugins: Sequence[Path] = ()) -> Iterator[Simulated]:
    """Run the cases in a process with a simulated GPU; yields each result as it ends."""
    with TemporaryDirectory(prefix="sdgbench-simulation-") as folder:
        request = {
            "cases": [asdict(case) for case in cases],
            "plugins": [str(file) for file in [*registry.plugins(), *plugins]],
        }
        with subprocess.Popen(
            [sys.executable, "-m", __package__],
            env=environment(Path(folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            with closing(process.stdin) as stdin:
                json.dump(request, stdin)
            remaining = list(cases)
            for line in process.stdout:
                result = json.loads(line)
                yield Simulated(**{**result, "case": remaining.pop(0)})
        for case in remaining:
            yield Simulated(case, f"the process died (exit code {process.returncode})")


def train(case: Case) -> Simulated:
    """Train, validate, evaluate and adapt on the simulated GPU of this process."""
    from sdgbench.conformance.simulation.mode import SimulatedGPU

    result = Simulated(case)
    gpu = SimulatedGPU()
    with TemporaryDirectory(prefix="sdgbench-simulated-run-") as folder:
        try:
            with gpu.active():
                _train(case, gpu, Path(folder), result)
        except Exception:
            lines = traceback.format_exc().strip().splitlines()
            result.error = "\n".join(lines[-2 * FRAMES :])
        points = Path(folder) / "train.jsonl"
        result.points = len(points.read_text().splitlines()) if points.exists() else 0
    result.waits = [
        (wait.reason, wait.where, wait.step, count) for wait, count in gpu.census.waits.items()
    ]
    result.steps, result.operations = dict(gpu.census.steps), dict(gpu.census.operations)
    return result


def _train(case: Case, gpu: Any, folder: Path, result: Simulated) -> None:
    import torch

    from sdgbench.conformance.harness import SHORTENED, MethodHarness
    from sdgbench.conformance.simulation.mode import SimulatedGraphs
    from sdgbench.evaluation.evaluator import score_domain
    from sdgbench.reporter import Silent
    from sdgbench.training import checkpoint, curve, steps
    from sdgbench.training.build_method import build_method
    from sdgbench.training.device import Device, Execution
    from sdgbench.training.streaming import open_images
    from sdgbench.training.trainer import Trainer

    harness = MethodHarness(case.method, case.dataset, folder)
    length = {"recipe.steps": "8" if case.graphs else "4", "recipe.validations": "1"}
    harness.spec = harness.resolve({**SHORTENED, **length})
    twin = harness.twin
    device = Device("cuda", Execution(case.precision, case.channels_last))
    if case.graphs:
        device.graphs = SimulatedGraphs(gpu)
    source, validation = twin.source("train"), twin.source("val")
    with device.settings(lambda text: None):
        method = build_method(harness.spec, twin, device, source, folder / "pool")
        names = {f"{phase.name}_step" for phase in method.plan()}
        counted = {name: _counted(gpu, name, getattr(type(method), name)) for name in names}
        counted["begin"] = _ignored(gpu, type(method).begin)  # once per phase, it may wait
        method.__class__ = type(type(method).__name__, (type(method),), counted)
        trainer = Trainer(method, source, validation, folder, "run", Silent(), 1e9)
        gpu.census.waits.clear()  # setting up may wait
        with (
            patch.object(checkpoint, "save"),  # there are no values to save
            patch.object(steps, "WARM_UP", 1),  # there are few steps: a graph must come early
            patch.object(curve, "READ_SECONDS", math.inf),  # a step takes longer than on a GPU
        ):
            trainer.run()
        waits = gpu.census.waits.copy()
        result.captured, result.not_captured = device.captured, device.not_captured
        name = next(iter(harness.spec.dataset_class.target_tags(harness.spec.build_options())))
        with closing(open_images(twin.target(name), device)) as images:
            score_domain(method, images, harness.spec.recipe["eval_batch"])
            x, y = images.gather(torch.arange(4).numpy())
        weights = [w for module in method.inference_modules() for w in module.parameters()]
        with device.autocast():
            method.adapt_step(x, y, torch.optim.SGD(weights, 0.1))
        gpu.census.waits = waits  # evaluation may wait, once per domain


def _counted(gpu: Any, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(step)
    def counted(*args: Any) -> Any:
        with gpu.inside_step(name.removesuffix("_step")):
            return step(*args)

    return counted


def _ignored(gpu: Any, begin: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(begin)
    def ignored(*args: Any) -> Any:
        waits = gpu.census.waits.copy()
        result = begin(*args)
        gpu.census.waits = waits
        return result

    return ignored


def main() -> None:
    """Read cases from standard input, print their results."""
    request = json.load(sys.stdin)
    for file in request["plugins"]:
        registry.add_plugin(Path(file))
    for case in request["cases"]:
        print(json.dumps(asdict(train(Case(**case)))), flush=True)
