"""Datasets: one source domain, its unseen targets, the task and the recipe."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sdgbench.data.domain import Domain, Split
from sdgbench.data.validation import check_domain
from sdgbench.errors import MissingData, unknown
from sdgbench.recipe import Recipe
from sdgbench.reporter import Reporter
from sdgbench.spec.parameters import param
from sdgbench.task import Task

__all__ = ["Dataset", "Domain", "MissingData", "Recipe", "Split", "param"]


class Dataset:
    """Base class of all datasets: a contributor subclasses it in one file of ``datasets/``."""

    name: ClassVar[str]
    task: Task  # of the class: with the default options
    family: ClassVar[str] = (
        ""  # for an embedded twin: the dataset whose method parameters it shares
    )
    version: ClassVar[int] = 1  # raise it when content or protocol changes: records then differ
    streams: ClassVar[bool] = False  # its images are large: set it on the domains that it makes
    families: ClassVar[tuple[str, ...]] = ()  # of spec/shifts.py, that its targets resemble
    colours: ClassVar[tuple[tuple[int, int, int], ...]] = ()  # of the classes, on label maps

    @dataclass(frozen=True)
    class Options:
        """This dataset has no options."""

    def __init__(self, root: Path, options: Any, recipe: Recipe) -> None:
        self.root = root / self.name
        self.options = options
        self.recipe_used = recipe
        self.task = self.task_for(options)

    @classmethod
    def recipes(cls) -> dict[str, Recipe]:
        """The recipe of each preset."""
        raise NotImplementedError

    @classmethod
    def recipe(cls, preset: str) -> Recipe:
        """The recipe of one preset."""
        recipes = cls.recipes()
        if preset not in recipes:
            raise unknown("preset", preset, recipes)
        return recipes[preset]

    @classmethod
    def task_for(cls, options: Any) -> Task:
        """The task with these options; a dataset whose classes depend on them overrides it."""
        return cls.task

    @classmethod
    def target_tags(cls, options: Any) -> dict[str, dict[str, Any]]:
        """The targets in order, with their tags; known without opening any data."""
        raise NotImplementedError

    @classmethod
    def source_name(cls, options: Any) -> str:
        """The name of the source domain."""
        raise NotImplementedError

    def prepare(self, reporter: Reporter | None = None) -> None:
        """Check or generate the data before training: idempotent and safe in parallel processes."""

    def data_flags(self) -> dict[str, Any]:
        """What a table must state about the data that was used, such as unverified data."""
        return {}

    @classmethod
    def averages(cls, targets: Sequence[str]) -> dict[str, list[str]]:
        """Named groups of targets to average over; the first is the ranked one."""
        return {"average": list(targets)}

    def source(self, split: Split) -> Domain:
        """The one domain that methods learn from; "val" is held out from it."""
        raise NotImplementedError

    def target(self, name: str) -> Domain:
        """One of the domains that are never seen before evaluation; may raise MissingData."""
        raise NotImplementedError

    def open_source(self, split: Split) -> Domain:
        """``source``, checked: labels and shapes that do not fit are refused with a sentence."""
        return self._checked(self.source(split), f"source ({split})")

    def open_target(self, name: str) -> Domain:
        """``target``, checked like ``open_source``."""
        return self._checked(self.target(name), "target")

    def _checked(self, domain: Domain, role: str) -> Domain:
        size = self.recipe_used.image_size
        check_domain(domain, self.task, size, f"{self.name}, {role}")
        return domain

    def target_train(self, name: str) -> Domain | None:
        """The training split of a target, for few-shot samples; None: it has none.

        Only ``sdgbench adapt`` opens it, after training.
        """
        return None
