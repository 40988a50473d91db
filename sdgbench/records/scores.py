"""The scores of one domain as records hold them: a part of the schema that tasks return."""

from typing import Annotated

from msgspec import Meta, Struct

Fraction = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=2**62)]


class DomainScore(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The metrics of one domain: those of its task, the others are absent."""

    accuracy: Fraction | None = None  # classification: share of images that are right
    correct: Count | None = None  # images that are right
    count: Count | None = None  # images in all
    class_accuracy: list[Fraction | None] = []  # by class; None: the class does not occur
    mIoU: Fraction | None = None  # segmentation: mean IoU over the classes that occur
    mIoU_without_void: Fraction | None = None  # the same without the void class
    pixel_accuracy: Fraction | None = None  # share of pixels that are right
    iou: list[Fraction | None] = []  # by class; None: neither occurs nor is predicted

    def score(self, metric: str) -> float:
        """The value of the task's metric."""
        value = getattr(self, metric, None)
        if value is None:
            raise ValueError(f"a domain has no {metric}")
        return float(value)

    @property
    def per_class(self) -> list[float | None]:
        """The score of each class: its IoU, or its accuracy."""
        return self.iou or self.class_accuracy
