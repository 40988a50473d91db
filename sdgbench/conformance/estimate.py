"""How long the checks of a method will take, from its plans and a few measured operations."""

import time
from collections.abc import Sequence

import torch

from sdgbench.conformance.harness import MethodHarness, stopping_points
from sdgbench.data.generated_dataset import GeneratedDataset
from sdgbench.launch.cpu_count import available_cpus
from sdgbench.method import Method
from sdgbench.training.build_method import build_method
from sdgbench.training.device import Device

TRAININGS = 2  # of the short kind: an uninterrupted one, and one with stops
BUILDS = 5  # other objects of the method that the checks create
BUILDS_PER_STOP = 3.0  # to save, create and restore a method takes about as long as to create three
FORWARD_COST = 1 / 3  # of an image that is only predicted, relative to training on it
RUN_SECONDS = 0.5  # the measures and the record of a real run
RENDER_SECONDS = 10.0  # an embedded dataset that is not cached yet; they take 6 to 30
TARGET_SECONDS = 0.06  # to open, check and hash a target


def total_seconds(each: Sequence[float | None]) -> float | None:
    """Seconds on all CPUs until the checks on all datasets are done; None if one is unknown."""
    known = [seconds for seconds in each if seconds is not None]
    if not known or len(known) < len(each):
        return None
    return max(max(known), sum(known) / min(available_cpus(), len(known)))


def expected_seconds(harness: MethodHarness) -> float | None:
    """CPU seconds of the checks on one dataset; None if the method cannot be created."""
    try:
        return 0.0 if harness.spec.skipped() else _seconds(harness)
    except Exception:  # the contributor's code may raise anything: a check will say what
        return None


def _seconds(harness: MethodHarness) -> float:
    short = harness.untrained
    per_image = _seconds_per_image(harness)
    began = time.process_time()
    plan = list(harness.new().plan())
    build = time.process_time() - began
    builds = BUILDS + TRAININGS * len(plan) + BUILDS_PER_STOP * len(stopping_points(plan))
    twin = TRAININGS * _images(short) * per_image + builds * build
    # What this process has used so far: most of it for loading packages.
    return time.process_time() + twin + (_run_seconds(harness, per_image) if harness.data else 0.0)


def _run_seconds(harness: MethodHarness, per_image: float) -> float:
    """CPU seconds to open the dataset, to render it if it is not cached, and of a real run."""
    assert harness.data is not None
    cls, smoke = harness.spec.dataset_class, harness.resolve(changes={})
    source = harness.twin.source("train")
    method = build_method(smoke, harness.twin, Device("cpu"), source, harness.folder / "plan")
    targets = len(cls.target_tags(harness.spec.build_options()))
    images = _images(method)
    images += FORWARD_COST * targets * (method.recipe.test_images or len(source))
    seconds = RUN_SECONDS + 2 * TARGET_SECONDS * targets + images * per_image
    if issubclass(cls, GeneratedDataset) and not (harness.data / cls.name).is_dir():
        seconds += RENDER_SECONDS
    return seconds


def _images(method: Method) -> float:
    """The images of a method's plan, weighted by their expected cost."""
    batch = method.recipe.batch
    return sum(
        phase.steps
        * sum(read.batch or batch for read in phase.reads)
        * method.cost_per_image(phase)
        for phase in method.plan()
    )


def _seconds_per_image(harness: MethodHarness) -> float:
    """Measure a plain training step; the first one is not counted."""
    method, x = harness.new(), harness.images
    labels = harness.twin.source("val").labels[: len(x)]
    y = torch.from_numpy(labels.astype("int64"))
    for _ in range(2):
        began = time.process_time()
        method.task.loss(method.network(x), y).backward()
        seconds = time.process_time() - began
    return seconds / len(x)
