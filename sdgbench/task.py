"""What is to be learned: the loss, the predictions and the score.

Methods are written against ``Task`` and never ask which one they have.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from sdgbench.data.domain import label_type
from sdgbench.evaluation import metrics
from sdgbench.records.scores import DomainScore


@dataclass(frozen=True)
class Task:
    """A dense or a plain classification into ``classes``; logits have the classes in dim 1."""

    classes: int
    names: tuple[str, ...] = ()  # of the classes; empty: they are numbered
    metric: ClassVar[str]
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if self.names and len(self.names) != self.classes:
            raise ValueError(f"{len(self.names)} names for {self.classes} classes")

    @property
    def class_names(self) -> tuple[str, ...]:
        """The name of each class; its number where it has no name."""
        return self.names or tuple(f"class {number}" for number in range(self.classes))

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy over everything that has a label (images or pixels)."""
        return F.cross_entropy(logits, labels)

    def loss_per_image(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean cross-entropy of each image."""
        return F.cross_entropy(logits, labels, reduction="none").reshape(len(labels), -1).mean(1)

    def predictions(self, logits: Tensor) -> Tensor:
        """The predicted class of each image or pixel, as one byte each."""
        kind: torch.dtype = getattr(torch, np.dtype(label_type(self.classes)).name)
        return logits.argmax(1).to(kind)

    def score(self, confusion: np.ndarray) -> DomainScore:
        """Turn one domain's confusion matrix (rows: truth) into its metrics."""
        raise NotImplementedError


@dataclass(frozen=True)
class Classification(Task):
    """One label per image."""

    metric: ClassVar[str] = "accuracy"
    kind: ClassVar[str] = "classification"

    def score(self, confusion: np.ndarray) -> DomainScore:
        """Accuracy, with the counts it comes from, and that of each class."""
        return DomainScore(
            accuracy=metrics.accuracy(confusion),
            correct=int(np.trace(confusion)),
            count=int(confusion.sum()),
            class_accuracy=_with_gaps(metrics.accuracy_per_class(confusion)),
        )


@dataclass(frozen=True)
class Segmentation(Task):
    """One label per pixel; ``void`` is the class of unlabelled pixels, if there is one."""

    void: int | None = 0
    metric: ClassVar[str] = "mIoU"
    kind: ClassVar[str] = "segmentation"

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy over all pixels."""
        # Torch's own mean over pixels has no deterministic kernel on a GPU; this one has.
        return F.cross_entropy(logits, labels, reduction="none").mean()

    def score(self, confusion: np.ndarray) -> DomainScore:
        """MIoU over the classes that occur, with and without void, and each class's IoU."""
        iou = metrics.iou_per_class(confusion)
        return DomainScore(
            mIoU=metrics.mean_iou(iou),
            mIoU_without_void=metrics.mean_iou(iou, leave_out=self.void),
            pixel_accuracy=metrics.accuracy(confusion),
            iou=_with_gaps(iou),
        )


def _with_gaps(values: np.ndarray) -> list[float | None]:
    """A list for JSON, with None for NaN."""
    return [None if np.isnan(value) else float(value) for value in values]
