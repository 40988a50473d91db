"""Samples of source, augmented and target domains in the embedding of a trained network."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdgbench import checkpoint, storage
from sdgbench.analysis.hulls import AUGMENTED, FILE, SOURCE, TARGET, areas, growth, project
from sdgbench.dataset import Dataset, Domain
from sdgbench.feed import to_unit
from sdgbench.method import Method
from sdgbench.seeds import permutation

PER_DOMAIN = 200  # images
MOST_TARGETS = 20  # of corruptions, clean and the highest severity are 20
MOST_OF_TARGETS = 2000  # images of all targets together


def source_images(domain: Domain, places: np.ndarray) -> Tensor:
    """Some images of a domain, in [0, 1]."""
    return to_unit(torch.from_numpy(np.array(domain.images[places], dtype=np.uint8)))


def embed(method: Method, images: Tensor) -> np.ndarray:
    """Features of the task network, (N, D); of maps, their mean over all positions."""
    for module in checkpoint.modules(method).values():
        module.eval()
    parts = []
    with torch.inference_mode():
        for batch in images.split(method.recipe.eval_batch):
            z = method.network.features(method.device.put(batch))
            parts.append(z.flatten(2).mean(2) if z.ndim > 2 else z)
    return torch.cat(parts).float().cpu().numpy()


def samples(
    method: Method, source: Domain, dataset: Dataset, targets: Sequence[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """Features of a fixed sample of each domain, by name.

    Augmented images are those that were made of the source's sample, where that is known: so
    they cover another area than it only as far as they were moved.
    """
    shown = _sample(len(source))
    pool = method.pool
    yield f"{SOURCE}/{source.name}", embed(method, source_images(source, shown))
    for number, (start, stop) in enumerate(pool.domains, 1):
        of_shown = start + np.flatnonzero(np.isin(pool.origins[start:stop], shown))
        places = of_shown[:PER_DOMAIN] if len(of_shown) else start + _sample(stop - start)
        yield f"{AUGMENTED}/{number}", embed(method, pool.gather(places)[0])
    names = shown_targets(dataset, targets)
    most = min(PER_DOMAIN, MOST_OF_TARGETS // max(1, len(names)))
    for name in names:
        domain = dataset.target(name).take(method.recipe.test_images)
        yield f"{TARGET}/{name}", embed(method, source_images(domain, _sample(len(domain), most)))


def _sample(count: int, most: int = PER_DOMAIN) -> np.ndarray:
    return np.sort(permutation(0, count, "embedding")[:most])


def shown_targets(dataset: Dataset, targets: Sequence[str]) -> list[str]:
    """All targets, or of corruptions the clean images and the highest severity."""
    tags = dataset.target_tags(dataset.options)
    levels = {name: tags[name].get("severity") for name in targets}
    highest = max((level for level in levels.values() if level is not None), default=None)
    kept = [name for name in targets if highest is None or levels[name] in (None, 0, highest)]
    return kept[:MOST_TARGETS]


def keep(
    folder: Path, method: Method, source: Domain, dataset: Dataset, targets: Sequence[str]
) -> dict[str, Any]:
    """Write the samples of a finished run beside its record; returns what the record tells."""
    found, share = project(dict(samples(method, source, dataset, targets)))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **found)  # type: ignore[arg-type]
    storage.write_atomic(folder / FILE, lambda file: file.write(buffer.getvalue()))
    hulls = areas(found)
    return {
        "sample": {name: len(values) for name, values in found.items()},
        "components": next(iter(found.values())).shape[1],
        "variance_kept": share,
        "hull_area_pca": hulls,
        # Where other images were made than the ones that are shown, a hull tells of them, too.
        "hull_growth_pca": None if (method.pool.origins < 0).any() else growth(hulls),
    }
