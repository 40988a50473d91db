"""The specification of one run, every setting resolved, and its id."""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgbench import registry
from sdgbench.errors import UserError
from sdgbench.recipe import Recipe
from sdgbench.spec import parameters
from sdgbench.spec.labels import brief_labels, run_label, run_labels, run_settings
from sdgbench.spec.precision import DEFAULT_PRECISION

if TYPE_CHECKING:
    from sdgbench.dataset import Dataset
    from sdgbench.method import Method


@dataclass(frozen=True)
class RunSpec:
    """One run, every setting resolved. Plain values only."""

    method: str
    params: dict[str, Any]
    dataset: str
    dataset_version: int
    options: dict[str, Any]
    option_changes: tuple[str, ...]  # keys that differ from the dataset's defaults
    preset: str
    recipe: dict[str, Any]
    recipe_changes: tuple[str, ...]  # keys that differ from the preset
    seed: int
    targets: tuple[str, ...] = ()  # empty: all of the dataset's
    precision: str = DEFAULT_PRECISION  # of the computation
    tuned: str = ""  # id of the search that chose the setting; empty: none did

    @property
    def id(self) -> str:
        """A hash of all fields: the same specification has the same id."""
        # Not asdict, which copies everything: tables compute thousands of ids.
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.precision == DEFAULT_PRECISION:  # ids are older than the choice of precision
            del values["precision"]
        if not self.tuned:  # and older than searches
            del values["tuned"]
        if weights := values["recipe"].get("weights"):  # its hash matters, not where it is
            values["recipe"] = {**values["recipe"], "weights": Path(weights).name}
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """The name of the run in messages; ``label_runs`` names several that must differ."""
        return run_label(vars(self), self.known_param_changes())

    @property
    def settings_label(self) -> str:
        """The seed and what was set by hand."""
        settings = run_settings(vars(self), self.known_param_changes())
        return ",".join([f"seed={self.seed}", *settings])

    def known_param_changes(self) -> list[str]:
        """The same as ``changed_parameters``; nothing if the method's file is not here."""
        with suppress(UserError):  # else the method's file is not here, nor are its defaults
            return self.changed_parameters()
        return []

    @property
    def command(self) -> str:
        """The command that runs it."""
        usual = self._defaults(self.preset)
        sets = {k: v for k, v in self.params.items() if v != usual[k]}
        sets |= {key: self.options[key] for key in self.option_changes}
        sets |= {f"recipe.{key}": self.recipe[key] for key in self.recipe_changes}
        parts = [
            f"sdgbench run --method {self.method} --dataset {self.dataset} --preset {self.preset}",
            f"--seeds {self.seed}",
            *(f"--set {k}={parameters.as_text(v)}" for k, v in sets.items()),
            *([f"--targets {','.join(self.targets)}"] if self.targets else []),
        ]
        return " ".join(parts)

    @property
    def method_class(self) -> "type[Method]":
        """The class of the method."""
        return registry.get("method", self.method).load()

    @property
    def dataset_class(self) -> "type[Dataset]":
        """The class of the dataset."""
        return registry.get("dataset", self.dataset).load()

    def build_params(self) -> Any:
        """The parameters as the method's ``Params``."""
        return parameters.build(self.method_class.Params, self.params)

    def build_options(self) -> Any:
        """The options as the dataset's ``Options``."""
        return parameters.build(self.dataset_class.Options, self.options)

    def build_recipe(self) -> Recipe:
        """The recipe as a ``Recipe``."""
        recipe: Recipe = parameters.build(Recipe, self.recipe)
        return recipe

    def changed_parameters(self) -> list[str]:
        """Parameters that differ from the method's defaults for the dataset and preset."""
        usual = self._defaults(self.preset)
        return [key for key, value in self.params.items() if value != usual[key]]

    def reduced_parameters(self) -> dict[str, tuple[Any, Any]]:
        """Parameters that the preset changes: the value of this run, and the published one."""
        published = self._defaults("paper")
        usual = self._defaults(self.preset)
        return {
            key: (value, published[key])
            for key, value in self.params.items()
            if value == usual[key] != published[key]
        }

    def _defaults(self, preset: str) -> dict[str, Any]:
        size = self.recipe.get("image_size")  # old records may lack it
        return defaults(self.method_class, self.dataset_class, preset, size)

    def check_dataset_version(self) -> None:
        """Refuse a specification that was made for another version of its dataset."""
        if self.dataset_version != self.dataset_class.version:
            raise UserError(
                f"{self.label} was made with version {self.dataset_version} of {self.dataset}; "
                f"this sdgbench has version {self.dataset_class.version}, whose data differ."
            )

    def skipped(self) -> str | None:
        """Why the method makes no sense on this dataset, or None."""
        return self.method_class.skip(self.dataset_class.task)


def label_runs(specs: Sequence[RunSpec]) -> list[str]:
    """The names of several runs in messages."""
    return run_labels([vars(s) for s in specs], [s.known_param_changes() for s in specs])


def label_runs_briefly(specs: Sequence[RunSpec]) -> list[str]:
    """The names of several runs where there is little room."""
    return brief_labels([vars(spec) for spec in specs])


def defaults(
    method: "type[Method]",
    dataset: "type[Dataset]",
    preset: str,
    image_size: Sequence[int] | None = None,
) -> dict[str, Any]:
    """A method's parameters on a dataset; without an image size, for that of the preset."""
    return {
        name: value
        for name, (value, _) in explained_defaults(method, dataset, preset, image_size).items()
    }


def explained_defaults(
    method: "type[Method]",
    dataset: "type[Dataset]",
    preset: str,
    image_size: Sequence[int] | None = None,
) -> dict[str, tuple[Any, str]]:
    """A method's parameters on a dataset, each with where it comes from.

    They are the published defaults, then ``per_dataset`` from general to special. A preset alone,
    such as "smoke", is a key for all datasets. A dataset that has no key, nor has the one that it
    mimics, gets what ``Method.scaled`` makes of its image size.
    """
    family = dataset.family or dataset.name
    height, width = image_size or dataset.recipe(preset).image_size
    values = parameters.as_plain(parameters.build(method.Params, {}))
    origins = dict.fromkeys(values, "default")
    layers = []
    families = {key.partition("/")[0] for key in method.per_dataset}
    if family not in families and dataset.name not in method.per_dataset:
        rule = f"rule for {height} x {width} pixels"
        layers.append((rule, method.scaled((height, width))))
    special = (f"{family}/{preset}", f"{dataset.name}/{preset}")
    for key in (family, dataset.name, preset, *special):
        layers.append((key, method.per_dataset.get(key, {})))
    for origin, layer in layers:
        values.update(layer)
        origins.update(dict.fromkeys(layer, origin))
    values = parameters.as_plain(parameters.build(method.Params, values))
    return {name: (value, origins[name]) for name, value in values.items()}
