"""Samples of domains in the embedding, and the area that they cover. Nothing here imports torch.

A run keeps them as ``embeddings.npz``: the first principal components of all samples together, so
that the file stays small whatever the network. Areas are of convex hulls in the plane: of the
first two components, which keep distances as far as a plane can, or of t-SNE, which does not.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sdgbench.records.arrays import read_arrays

FILE = "embeddings.npz"
COMPONENTS = 50
MAX_TSNE_POINTS = 800  # the time of a t-SNE grows faster than their number
SOURCE, AUGMENTED, TARGET = "source", "augmented", "target"  # before the slash of a name
Samples = Mapping[str, np.ndarray]


def project(samples: Samples, components: int = COMPONENTS) -> tuple[dict[str, np.ndarray], float]:
    """The first principal components of all samples together, and their share of the variance."""
    every = np.concatenate(list(samples.values())).astype(np.float64)
    middle = every.mean(axis=0)
    # The sign of an axis is arbitrary: its largest entry is made positive, so files are repeatable.
    values, axes = np.linalg.eigh(
        np.cov(every - middle, rowvar=False).reshape(2 * (every.shape[1],))
    )
    axes = axes[:, ::-1][:, :components]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), range(axes.shape[1])] < 0, -1, 1)
    total = values.sum()
    share = float(values[::-1][:components].sum() / total) if total > 0 else 1.0
    return {name: ((z - middle) @ axes).astype(np.float32) for name, z in samples.items()}, share


def border(points: np.ndarray) -> np.ndarray:
    """The corners of the convex hull of points in the plane; none where they are on a line."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.asarray(points[ConvexHull(points[:, :2]).vertices, :2])
    except (QhullError, ValueError):
        return np.empty((0, 2))


def hull_area(points: np.ndarray) -> float:
    """The area of the convex hull of points in the plane; 0 where they are on a line."""
    x, y = border(points).astype(np.float64).T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def joined(samples: Samples, *kinds: str) -> np.ndarray:
    """The samples of all domains of these kinds in one array."""
    parts = [values for name, values in samples.items() if name.partition("/")[0] in kinds]
    return np.concatenate(parts) if parts else np.empty((0, 2))


def areas(samples: Samples) -> dict[str, float]:
    """Hull areas in the first two components: source, source with augmented, targets."""
    return {
        "source": hull_area(joined(samples, SOURCE)),
        "source+augmented": hull_area(joined(samples, SOURCE, AUGMENTED)),
        "target": hull_area(joined(samples, TARGET)),
    }


def growth(hulls: Mapping[str, float]) -> float | None:
    """The hull area of source and augmented domains, divided by that of the source."""
    before = hulls.get("source")
    return hulls["source+augmented"] / before if before else None


def read(folder: Path | None) -> dict[str, np.ndarray]:
    """The samples in a run's folder; empty if there are none, or the file is damaged."""
    return read_arrays(folder / FILE) if folder else {}


def flat(samples: Samples, seed: int = 0) -> dict[str, np.ndarray]:
    """A joint t-SNE of all samples; of too many points, every second or third is used."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    step = -(-sum(map(len, samples.values())) // MAX_TSNE_POINTS)
    thinned = {name: values[::step] for name, values in samples.items()}
    every = np.concatenate(list(thinned.values()))
    perplexity = min(30.0, max(1.0, (len(every) - 1) / 3))
    with threadpool_limits(1):  # its threads wait for each other at every step: more are slower
        plane = TSNE(init="pca", random_state=seed, perplexity=perplexity).fit_transform(every)
    ends = np.cumsum([len(values) for values in thinned.values()])
    return dict(zip(thinned, np.split(plane, ends[:-1]), strict=True))
