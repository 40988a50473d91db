"""Opens a dataset as a run does, and checks everything that a run would need of it."""

from contextlib import suppress

import numpy as np
import torch

from sdgbench import networks
from sdgbench.conformance.outcome import Failed, Skipped
from sdgbench.data.domain import Domain
from sdgbench.dataset import Dataset
from sdgbench.errors import BadData, MissingData
from sdgbench.reporter import Reporter

BATCH = 8  # images that the network is tried on


def check_dataset(dataset: Dataset, reporter: Reporter | None = None) -> dict[str, int]:
    """Open the source and every target that is stored here, and try the network on a batch.

    Returns how many images each has; the source's are those to train on.
    """
    targets = dataset.target_tags(dataset.options)
    if not targets:
        raise Failed(f"{dataset.name} has no target. Name at least one in target_tags.")
    for group, names in dataset.averages(list(targets)).items():
        if strangers := [name for name in names if name not in targets]:
            raise Failed(
                f'{dataset.name}: its average "{group}" covers {strangers[0]}, which target_tags '
                "does not name. Correct averages or target_tags."
            )
    try:
        dataset.prepare(reporter)
    except MissingData as error:
        raise Skipped(f"{str(error).split('. ')[0]}.") from None
    try:
        source = dataset.open_source("train")
        dataset.open_source("val")
        images = {source.name: len(source)}
        for name in targets:
            with suppress(MissingData):
                images[name] = len(dataset.open_target(name))
    except BadData as error:
        raise Failed(str(error)) from None
    _try_batch(dataset, source)
    return images


def _try_batch(dataset: Dataset, domain: Domain) -> None:
    """Pass some images through the recipe's network, with random weights."""
    recipe, task = dataset.recipe_used, dataset.task
    networks.check(recipe.network, recipe.image_size, task.kind)
    network = networks.build(recipe.network, task.classes, recipe.image_size)
    images = torch.from_numpy(np.array(domain.images[:BATCH])).float() / 255
    labels = torch.from_numpy(np.array(domain.labels[:BATCH], dtype=np.int64))
    loss = task.loss(network(images), labels)
    if not torch.isfinite(loss):
        raise Failed(
            f"{dataset.name}: the loss of {recipe.network} on the first {len(images)} images of "
            f"{domain.name} is {loss.item()}. Look for images without any label."
        )
