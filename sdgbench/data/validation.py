"""Whether the images and labels of a domain are what its dataset promises, for all datasets."""

import numpy as np

from sdgbench.data.domain import Domain, blocks
from sdgbench.errors import BadData
from sdgbench.task import Task


def check_domain(domain: Domain, task: Task, image_size: tuple[int, int], owner: str) -> None:
    """Refuse a domain whose shapes or labels do not fit; the error says how to correct them.

    ``owner`` names what the domain belongs to, such as "my-data, source".
    """
    name = f"{owner} {domain.name}"
    size = tuple(domain.images.shape[2:])
    if size != tuple(image_size):
        raise BadData(
            f"{name}: its images are {_by(size)} pixels, but the recipe says {_by(image_size)}. "
            "Resize the images, or set image_size in the recipes (--set recipe.image_size="
            f"{size[0]},{size[1]})."
        )
    expected = size if task.kind == "segmentation" else ()
    shape = tuple(domain.labels.shape[1:])
    if shape != expected:
        wanted = f"one per pixel (N, {size[0]}, {size[1]})" if expected else "one per image (N,)"
        raise BadData(
            f"{name}: a {task.kind} needs labels {wanted}, not {_shape(domain.labels.shape)}."
        )
    _check_labels(domain, task, name)


def _check_labels(domain: Domain, task: Task, name: str) -> None:
    lowest, highest = _range(domain.labels)
    last = task.classes - 1
    if lowest >= 0 and highest <= last:
        return
    if lowest >= 1 and highest == task.classes:
        fix = "They seem to count from 1: subtract 1."
    elif lowest < 0:
        fix = (
            "Remove images without a label, or give them a class of their own."
            if task.kind != "segmentation"
            else "Give pixels without a label the class that the task calls void."
        )
    else:
        fix = f"Correct them, or raise the number of classes of the task to {highest + 1}."
    raise BadData(
        f"{name}: its labels go from {lowest} to {highest}, but {task.classes} classes are "
        f"numbered from 0 to {last}. {fix}"
    )


def _range(labels: np.ndarray) -> tuple[int, int]:
    """The lowest and the highest label, read in blocks that fit into memory."""
    ranges = [(int(block.min()), int(block.max())) for block in map(np.asarray, blocks(labels))]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _by(size: tuple[int, ...]) -> str:
    return "x".join(map(str, size))


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
