"""How long the checks of a method will take, from its plans and one measured step."""

import time
from collections.abc import Sequence

import torch

from sdgbench.conformance.harness import MethodHarness
from sdgbench.launch.cpu_count import available_cpus
from sdgbench.method import Method
from sdgbench.training.build_method import build_method
from sdgbench.training.device import Device

TRAININGS = 2  # of the short kind: an uninterrupted one, and one with stops
OTHER_SECONDS = 4.0  # per dataset: loading torch, predictions, files, the measures of a real run
FORWARD_COST = 1 / 3  # of an image that is only predicted, relative to training on it


def expected_seconds(harnesses: Sequence[MethodHarness]) -> float | None:
    """Seconds until all checks are done; None if the method cannot be created."""
    try:
        # On the first dataset alone, as if all took as long. On the others the method may end its
        # process, which must not be this one.
        each = [_seconds(harnesses[0])] * len(harnesses)
    except Exception:  # the contributor's code may raise anything: a check will say what
        return None
    parallel = min(available_cpus(), len(each))
    return max(max(each), sum(each) / parallel)


def _seconds(harness: MethodHarness) -> float:
    if harness.spec.skipped():
        return 0.0
    short = harness.new()
    smoke = harness.resolve(changes={})
    source = harness.twin.source("train")
    method = build_method(smoke, harness.twin, Device("cpu"), source, harness.folder / "plan")
    images = TRAININGS * _images(short) + _images(method)
    targets = harness.spec.dataset_class.target_tags(harness.spec.build_options())
    images += FORWARD_COST * len(targets) * (method.recipe.test_images or len(source))
    return OTHER_SECONDS + images * _seconds_per_image(short, harness)


def _images(method: Method) -> float:
    """The images of a method's plan, weighted by their expected cost."""
    batch = method.recipe.batch
    return sum(
        phase.steps
        * sum(read.batch or batch for read in phase.reads)
        * method.cost_per_image(phase)
        for phase in method.plan()
    )


def _seconds_per_image(method: Method, harness: MethodHarness) -> float:
    """Measure a plain training step; the first one is not counted."""
    x = harness.images
    labels = harness.twin.source("val").labels[: len(x)]
    y = torch.from_numpy(labels.astype("int64"))
    for _ in range(2):
        began = time.perf_counter()
        method.task.loss(method.network(x), y).backward()
        seconds = time.perf_counter() - began
    return seconds / len(x)
