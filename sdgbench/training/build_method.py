"""Build a method from a run's specification."""

from dataclasses import replace
from pathlib import Path

from sdgbench.data.domain import Domain
from sdgbench.dataset import Dataset
from sdgbench.method import Method, MethodContext
from sdgbench.spec.run_spec import RunSpec
from sdgbench.task import Task
from sdgbench.training.device import Device
from sdgbench.training.pool import Pool


def build_method(
    spec: RunSpec, dataset: Dataset, device: Device, source: Domain, pool_folder: Path
) -> Method:
    """A method before its first step, for a source domain of which it sees only the shape."""
    shapes = source.images.shape[1:], source.labels.shape[1:]
    pool = Pool(pool_folder, *shapes, dataset.task.classes, device)
    return new_method(spec, dataset.task, device, len(source), pool)


def new_method(
    spec: RunSpec,
    task: Task,
    device: Device,
    source_size: int,
    pool: Pool,
    restored: bool = False,
) -> Method:
    """A method before its first step, without any data.

    If it will be ``restored`` from a checkpoint, pretrained weights are not needed, nor their file.
    """
    recipe = spec.build_recipe()
    if restored:
        recipe = replace(recipe, pretrained=False, weights="")
    return spec.method_class(
        MethodContext(
            params=spec.build_params(),
            task=task,
            recipe=recipe,
            device=device,
            seed=spec.seed,
            source_size=source_size,
            pool=pool,
        )
    )
