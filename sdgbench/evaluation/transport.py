"""The Wasserstein distance between samples, and between the source and augmented domains.

It is W2, the root of the least mean squared distance that a one-to-one assignment can have. Two
independent samples of one domain are far from each other where there are many dimensions, farther
than an augmented image is from its source image. So a domain is compared with those source images
that its own were made of: what is left is how far the method moved them.
"""

import math

import numpy as np

from sdgbench.data.domain import Domain
from sdgbench.evaluation.embeddings import embed, images_of
from sdgbench.method import Method
from sdgbench.records.schema import AugmentedDomain, Distances, Transport
from sdgbench.spec.seeds import permutation

MAX_EXACT = 500  # images; the time of an assignment is cubic in their number
MAX_SLICED = 2000  # images
MAX_ELEMENTS = 2**25  # numbers of a sample, 128 MB: fewer images where they are large
BLOCK = 4096  # dimensions converted to double precision at a time
DIRECTIONS = 128
MEASURE = (
    "W2 / sqrt(dimensions) between images of an augmented domain and the source images they were "
    "made of; exact: by assignment; sliced: sqrt(dimensions) times the root mean square over "
    "random directions of the one-dimensional W2, at most the exact value of the same sample; "
    "relative: in units of the source's standard deviation"
)


def exact(first: np.ndarray, second: np.ndarray) -> float:
    """W2 of two samples (N, D) of equal size, by the best assignment of one to the other."""
    from scipy.optimize import linear_sum_assignment

    _check(first, second)
    squares = np.zeros((len(first), len(second)))
    for start in range(0, first.shape[1], BLOCK):
        x, y = (part[:, start : start + BLOCK].astype(np.float64) for part in (first, second))
        squares += np.square(x).sum(1)[:, None] + np.square(y).sum(1) - 2 * x @ y.T
    squares = squares.clip(0)
    return math.sqrt(squares[linear_sum_assignment(squares)].mean())


def sliced(
    first: np.ndarray, second: np.ndarray, directions: int = DIRECTIONS, seed: int = 0
) -> float:
    """W2 over random one-dimensional projections, times sqrt(D).

    With that factor it is at most W2 (in the mean over directions), and equal to it where one
    sample is the other moved, and for isotropic Gaussians.
    """
    _check(first, second)
    axes = np.random.default_rng(seed).standard_normal((first.shape[1], directions))
    axes = (axes / np.linalg.norm(axes, axis=0)).astype(first.dtype)
    gaps = np.sort(first @ axes, axis=0) - np.sort(second @ axes, axis=0)
    return math.sqrt(first.shape[1] * np.square(gaps, dtype=np.float64).mean())


def _check(first: np.ndarray, second: np.ndarray) -> None:
    if first.shape != second.shape or first.ndim != 2 or not len(first):
        raise ValueError(
            f"both samples must have the same shape (N, D), not {first.shape} and {second.shape}"
        )


def measure(method: Method, source: Domain) -> Transport | None:
    """How far each domain in a method's pool is from the source, in pixels and in the embedding.

    None: it generated no domain, or it is not known which source image each was made of. The
    samples of all domains of a run have the same size.
    """
    pool = method.pool
    if not pool.domains or (pool.source_indices < 0).any():
        return None
    pixels = math.prod(source.images.shape[1:])
    smallest = min(stop - start for start, stop in pool.domains)
    count = min(MAX_SLICED, max(1, MAX_ELEMENTS // pixels), smallest)
    domains = []
    for start, stop in pool.domains:
        indices = start + permutation(0, stop - start, "transport")[:count]
        augmented = pool.gather(indices)[0]
        original = images_of(source, pool.source_indices[indices])
        domains.append(
            AugmentedDomain(
                images=stop - start,
                pixel=distances(original.flatten(1).numpy(), augmented.flatten(1).numpy()),
                embedding=distances(embed(method, original), embed(method, augmented)),
            )
        )
    return Transport(
        measure=MEASURE,
        sample={"exact": min(count, MAX_EXACT), "sliced": count},
        domains=domains,
    )


def distances(first: np.ndarray, second: np.ndarray) -> Distances:
    """Both distances between two samples, and the same relative to the spread of the first."""
    unit = math.sqrt(first.shape[1])
    spread = math.sqrt(np.var(first, axis=0, dtype=np.float64).sum()) / unit
    absolute = {
        "exact": exact(first[:MAX_EXACT], second[:MAX_EXACT]) / unit,
        "sliced": sliced(first, second) / unit,
    }
    # A dead network gives the same features to all images.
    relative = {f"{k}_relative": v / spread if spread else None for k, v in absolute.items()}
    return Distances(**absolute, **relative)
