"""The numbers of a leaderboard. Fractions in [0, 1]; tables show per cent."""

from collections.abc import Mapping

import numpy as np

from sdgbench.errors import UserError

STANDARD_15 = (
    "gaussian_noise", "shot_noise", "impulse_noise",
    "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
    "snow", "frost", "fog", "brightness",
    "contrast", "elastic_transform", "pixelate", "jpeg_compression",
)  # fmt: skip
EXTRA_4 = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
ALL_19 = STANDARD_15 + EXTRA_4
# The groups of M-ADA's tables: brightness counts as digital there, and spatter too.
GROUPS = {
    "weather": ("fog", "snow", "frost"),
    "blur": ("zoom_blur", "defocus_blur", "glass_blur", "gaussian_blur", "motion_blur"),
    "noise": ("speckle_noise", "shot_noise", "impulse_noise", "gaussian_noise"),
    "digital": (
        "jpeg_compression", "pixelate", "spatter", "elastic_transform", "brightness", "saturate",
        "contrast",
    ),
}  # fmt: skip


def confusion_matrix(truth: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Count (truth, prediction) pairs; rows are the truth."""
    pairs = truth.astype(np.int64).ravel() * classes + predicted.astype(np.int64).ravel()
    return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)


def accuracy(confusion: np.ndarray) -> float:
    """Share of right decisions."""
    return float(np.trace(confusion) / confusion.sum())


def accuracy_per_class(confusion: np.ndarray) -> np.ndarray:
    """Share of right decisions on each class's own images; NaN for a class that does not occur."""
    own = confusion.sum(1)
    return np.divide(np.diag(confusion), own, out=np.full(len(own), np.nan), where=own > 0)


def iou_per_class(confusion: np.ndarray) -> np.ndarray:
    """Intersection over union; NaN for a class that neither occurs nor is predicted."""
    hits = np.diag(confusion).astype(float)
    union = confusion.sum(0) + confusion.sum(1) - hits
    return np.divide(hits, union, out=np.full(len(hits), np.nan), where=union > 0)


def mean_iou(iou: np.ndarray, leave_out: int | None = None) -> float:
    """Mean over the classes that have an IoU."""
    kept = np.delete(iou, leave_out) if leave_out is not None else iou
    return float(np.nanmean(kept)) if np.isfinite(kept).any() else 0.0


def mean_corruption_error(errors: Mapping[str, float], baseline: Mapping[str, float]) -> float:
    """MCE: the mean over corruptions of the error divided by the baseline's error."""
    return _mean_ratio(errors, baseline, 0.0, 0.0)


def relative_mean_corruption_error(
    errors: Mapping[str, float],
    clean: float,
    baseline: Mapping[str, float],
    baseline_clean: float,
) -> float:
    """RmCE: as mCE, of the errors' growth over the clean error.

    A method with a worse clean error looks better here; show clean accuracy beside it.
    """
    return _mean_ratio(errors, baseline, clean, baseline_clean)


def _mean_ratio(
    errors: Mapping[str, float], baseline: Mapping[str, float], clean: float, baseline_clean: float
) -> float:
    if set(errors) != set(baseline):
        odd = ", ".join(sorted(set(errors) ^ set(baseline)))
        raise UserError(f"The baseline covers other corruptions than the method: {odd}.")
    for name in errors:
        if baseline[name] == baseline_clean:
            raise UserError(f"The baseline's error on {name} is not above its reference: no ratio.")
    return float(np.mean([(errors[n] - clean) / (baseline[n] - baseline_clean) for n in errors]))
