"""The numbers of a leaderboard. Fractions in [0, 1]; tables show per cent."""

import numpy as np


def confusion_matrix(truth: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Count (truth, prediction) pairs; rows are the truth."""
    pairs = truth.astype(np.int64).ravel() * classes + predicted.astype(np.int64).ravel()
    return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)


def accuracy(confusion: np.ndarray) -> float:
    """Share of right predictions."""
    return float(np.trace(confusion) / confusion.sum())


def accuracy_per_class(confusion: np.ndarray) -> np.ndarray:
    """Share of right predictions on each class; NaN for a class that does not occur."""
    images = confusion.sum(1)
    shares = np.full(len(images), np.nan)
    np.divide(np.diag(confusion), images, out=shares, where=images > 0)
    return shares


def iou_per_class(confusion: np.ndarray) -> np.ndarray:
    """Intersection over union; NaN for a class that neither occurs nor is predicted."""
    hits = np.diag(confusion).astype(float)
    union = confusion.sum(0) + confusion.sum(1) - hits
    iou = np.full(len(hits), np.nan)
    np.divide(hits, union, out=iou, where=union > 0)
    return iou


def mean_iou(iou: np.ndarray, leave_out: int | None = None) -> float:
    """Mean over the classes that have an IoU, without the class ``leave_out``."""
    kept = np.delete(iou, leave_out) if leave_out is not None else iou
    return float(np.nanmean(kept)) if np.isfinite(kept).any() else 0.0
