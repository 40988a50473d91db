"""Samples of source, augmented and target domains in the embedding of a trained network."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sdgbench.data.domain import Domain
from sdgbench.dataset import Dataset
from sdgbench.evaluation.hulls import AUGMENTED, FILE, SOURCE, TARGET, areas, growth, project
from sdgbench.method import Method
from sdgbench.records.arrays import write_arrays
from sdgbench.records.schema import Embedding
from sdgbench.spec.seeds import permutation
from sdgbench.training import checkpoint
from sdgbench.training.feeds import to_unit

PER_DOMAIN = 200  # images
MAX_TARGETS = 20  # the clean images and 19 corruptions at the highest severity
MAX_TARGET_IMAGES = 2000  # of all targets together


def images_of(domain: Domain, indices: np.ndarray) -> Tensor:
    """The images of a domain at these indices, in [0, 1]."""
    return to_unit(torch.from_numpy(np.array(domain.images[indices], dtype=np.uint8)))


def embed(method: Method, images: Tensor) -> np.ndarray:
    """Features of the task network, (N, D); of maps, their mean over all positions."""
    for module in checkpoint.modules(method).values():
        module.eval()
    features = []
    with torch.inference_mode():
        for batch in images.split(method.recipe.eval_batch):
            z = method.network.features(method.device.to_device(batch))
            features.append(z.flatten(2).mean(2) if z.ndim > 2 else z)
    return torch.cat(features).float().cpu().numpy()


def samples(
    method: Method, source: Domain, dataset: Dataset, targets: Sequence[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """Features of a fixed sample of each domain, by name.

    Augmented images are those that were made of the source's sample, where that is known: so
    their area differs from its area only as far as the method moved them.
    """
    sample = _sample(len(source))
    pool = method.pool
    yield f"{SOURCE}/{source.name}", embed(method, images_of(source, sample))
    for number, (start, stop) in enumerate(pool.domains, 1):
        of_sample = start + np.flatnonzero(np.isin(pool.source_indices[start:stop], sample))
        indices = of_sample[:PER_DOMAIN] if len(of_sample) else start + _sample(stop - start)
        yield f"{AUGMENTED}/{number}", embed(method, pool.gather(indices)[0])
    names = shown_targets(dataset, targets)
    limit = min(PER_DOMAIN, MAX_TARGET_IMAGES // max(1, len(names)))
    for name in names:
        domain = dataset.target(name).subsample(method.recipe.test_images)
        yield f"{TARGET}/{name}", embed(method, images_of(domain, _sample(len(domain), limit)))


def _sample(count: int, limit: int = PER_DOMAIN) -> np.ndarray:
    return np.sort(permutation(0, count, "embedding")[:limit])


def shown_targets(dataset: Dataset, targets: Sequence[str]) -> list[str]:
    """All targets; of corruptions only the clean images and the highest severity."""
    tags = dataset.target_tags(dataset.options)
    levels = {name: tags[name].get("severity") for name in targets}
    highest = max((level for level in levels.values() if level is not None), default=None)
    kept = [name for name in targets if highest is None or levels[name] in (None, 0, highest)]
    return kept[:MAX_TARGETS]


def keep(
    folder: Path, method: Method, source: Domain, dataset: Dataset, targets: Sequence[str]
) -> Embedding:
    """Write the samples of a finished run next to its record; returns what the record holds."""
    projected, share = project(dict(samples(method, source, dataset, targets)))
    write_arrays(folder / FILE, projected)
    hulls = areas(projected)
    return Embedding(
        sample={name: len(values) for name, values in projected.items()},
        components=next(iter(projected.values())).shape[1],
        variance_kept=share,
        hull_area_pca=hulls,
        # Where the origin of an image is unknown, the hull would show other images, too.
        hull_growth_pca=None if (method.pool.source_indices < 0).any() else growth(hulls),
    )
