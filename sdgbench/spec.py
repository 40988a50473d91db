"""What was asked: a run in full, its identity, and the matrix of runs of one command."""

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from sdgbench import networks, record, registry, settings
from sdgbench.dataset import Dataset, Recipe
from sdgbench.device import EXACT
from sdgbench.errors import UserError, unknown
from sdgbench.method import Method

SCALE = ("network", "image_size", "steps", "epochs", "test_images")  # of a recipe
Assignment = tuple[str, str]  # key and value, as typed


@dataclass(frozen=True)
class RunSpec:
    """One run, every setting resolved. Plain values only."""

    method: str
    params: dict[str, Any]
    dataset: str
    dataset_version: int
    options: dict[str, Any]
    option_changes: tuple[str, ...]  # what was set away from the dataset's defaults
    preset: str
    recipe: dict[str, Any]
    recipe_changes: tuple[str, ...]  # what was set away from the preset
    seed: int
    targets: tuple[str, ...] = ()  # empty: all of the dataset's
    precision: str = EXACT  # of the computation

    @property
    def id(self) -> str:
        """A hash of all of it: the same question has the same id."""
        asked = asdict(self)
        if self.precision == EXACT:  # as before there was a choice
            del asked["precision"]
        text = json.dumps(asked, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def label(self) -> str:
        """What a person calls it."""
        return record.label(vars(self))

    @property
    def command(self) -> str:
        """What to type to run it."""
        usual = _defaults(self.method_class, self.dataset_class, self.preset)
        sets = {k: v for k, v in self.params.items() if v != usual[k]}
        sets |= {key: self.options[key] for key in self.option_changes}
        sets |= {f"recipe.{key}": self.recipe[key] for key in self.recipe_changes}
        parts = [
            f"sdgbench run --method {self.method} --dataset {self.dataset} --preset {self.preset}",
            f"--seeds {self.seed}", *(f"--set {k}={settings.show(v)}" for k, v in sets.items()),
            *([f"--targets {','.join(self.targets)}"] if self.targets else []),
        ]  # fmt: skip
        return " ".join(parts)

    @property
    def method_class(self) -> type[Method]:
        """The class behind the name."""
        return registry.get("method", self.method).load()

    @property
    def dataset_class(self) -> type[Dataset]:
        """The class behind the name."""
        return registry.get("dataset", self.dataset).load()

    def build_params(self) -> Any:
        """The method's parameters as its own type."""
        return _revive(self.method_class.Params, self.params)

    def build_options(self) -> Any:
        """The dataset's options as its own type."""
        return _revive(self.dataset_class.Options, self.options)

    def build_recipe(self) -> Recipe:
        """The recipe."""
        recipe: Recipe = _revive(Recipe, self.recipe)
        return recipe

    def changed_parameters(self) -> list[str]:
        """Parameters that were set away from what the method has for the dataset and preset."""
        usual = _defaults(self.method_class, self.dataset_class, self.preset)
        return [key for key, value in self.params.items() if value != usual[key]]

    def reduced_parameters(self) -> dict[str, list[Any]]:
        """Parameters that the preset makes cheaper: what ran, and what is published."""
        published = _defaults(self.method_class, self.dataset_class, "paper")
        usual = _defaults(self.method_class, self.dataset_class, self.preset)
        return {
            key: [value, published[key]]
            for key, value in self.params.items()
            if value == usual[key] != published[key]
        }

    def skipped(self) -> str | None:
        """Why the method makes no sense on this dataset, or None."""
        return self.method_class.skip(self.dataset_class.task)


def as_spec(record: Mapping[str, Any]) -> RunSpec:
    """The specification that a record holds."""
    known = {field.name for field in fields(RunSpec)}
    values = {key: value for key, value in record["spec"].items() if key in known}
    for key in ("targets", "option_changes", "recipe_changes"):
        values[key] = tuple(values.get(key, ()))
    spec = RunSpec(**values)
    if spec.dataset_version != spec.dataset_class.version:
        raise UserError(
            f"{spec.label} was made with version {spec.dataset_version} of {spec.dataset}; this "
            f"sdgbench has version {spec.dataset_class.version}, whose data are not the same."
        )
    return spec


def _revive(cls: type, values: dict[str, Any]) -> Any:
    return settings.build(
        cls, {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    )


def resolve(
    method: str,
    dataset: str,
    preset: str,
    seed: int,
    assignments: Iterable[Assignment] = (),
    targets: Sequence[str] = (),
    precision: str = EXACT,
) -> RunSpec:
    """Resolve one run. Assignments that concern neither its method nor its dataset are ignored."""
    method_class: type[Method] = registry.get("method", method).load()
    dataset_class: type[Dataset] = registry.get("dataset", dataset).load()
    if seed < 0:
        raise UserError(f"The seed {seed} is negative. Seeds are 0 and up, such as --seeds 0-4.")
    values = {
        "method": _defaults(method_class, dataset_class, preset),
        "dataset": settings.as_plain(settings.build(dataset_class.Options, {})),
        "recipe": settings.as_plain(dataset_class.recipe(preset)),
    }
    classes = {"method": method_class.Params, "dataset": dataset_class.Options, "recipe": Recipe}
    names = {"method": method, "dataset": dataset, "recipe": "recipe"}
    preset_recipe = dict(values["recipe"])
    for key, text in assignments:
        scope, dot, name = key.rpartition(".")
        for role, cls in classes.items():
            field = settings.fields(cls).get(name)
            # Without a scope it is a parameter or an option; the shared recipe must be named.
            if field and (names[role] == scope if dot else role != "recipe"):
                values[role][name] = settings.parse_field(names[role], field, text)
    params, options, recipe = (
        settings.as_plain(_revive(cls, values[role])) for role, cls in classes.items()
    )
    networks.check(recipe["network"])
    changes = tuple(k for k, v in recipe.items() if v != preset_recipe[k])
    # Whoever shortens a recipe by hand is at reduced scale, too, and every table must say so.
    shortened = [f"{key}={settings.show(recipe[key])}" for key in SCALE if key in changes]
    recipe["reduced"] = "; ".join(filter(None, [recipe["reduced"], ", ".join(shortened)]))
    usual = settings.as_plain(settings.build(dataset_class.Options, {}))
    option_changes = tuple(k for k, v in options.items() if v != usual[k])
    known = dataset_class.target_tags(_revive(dataset_class.Options, options))
    for name in targets:
        if name not in known:
            raise unknown(f"target of {dataset} called", name, known)
    return RunSpec(
        method, params, dataset, dataset_class.version, options, option_changes, preset, recipe,
        changes, seed, tuple(name for name in known if name in targets), precision,
    )  # fmt: skip


def _defaults(method: type[Method], dataset: type[Dataset], preset: str) -> dict[str, Any]:
    """Published defaults, then what is known for the dataset's family, itself, and the preset."""
    values = settings.as_plain(settings.build(method.Params, {}))
    family = dataset.family or dataset.name
    for key in (family, dataset.name, f"{family}/{preset}", f"{dataset.name}/{preset}"):
        values.update(method.per_dataset.get(key, {}))
    return settings.as_plain(_revive(method.Params, values))


def check_keys(keys: Iterable[str], methods: Sequence[str], datasets: Sequence[str]) -> None:
    """Refuse a key that no method or dataset of the matrix knows, or that two kinds know."""
    method_fields: dict[str, set[str]] = {}
    for name in methods:
        method: type[Method] = registry.get("method", name).load()
        method_fields[name] = set(settings.fields(method.Params))
    dataset_fields: dict[str, set[str]] = {}
    for name in datasets:
        dataset: type[Dataset] = registry.get("dataset", name).load()
        dataset_fields[name] = set(settings.fields(dataset.Options))
    by_scope = {**method_fields, **dataset_fields, "recipe": set(settings.fields(Recipe))}
    for key in keys:
        scope, dot, name = key.rpartition(".")
        if dot:
            if scope not in by_scope:
                raise unknown("method, dataset or recipe in this command called", scope, by_scope)
            if name not in by_scope[scope]:
                raise unknown(f"setting of {scope} called", name, by_scope[scope])
            continue
        in_methods = any(name in known for known in method_fields.values())
        in_datasets = any(name in known for known in dataset_fields.values())
        if in_methods and in_datasets:
            raise UserError(f'"{name}" is a setting of a method and of a dataset. Name it in full, '
                            f"such as {methods[0]}.{name}=...")  # fmt: skip
        if not in_methods and not in_datasets:
            every = set().union(*method_fields.values(), *dataset_fields.values())
            every |= {f"recipe.{field}" for field in by_scope["recipe"]}
            if name in by_scope["recipe"]:
                raise UserError(f'"{name}" belongs to the recipe that all methods share. To change '
                                f"it: --set recipe.{name}=...")  # fmt: skip
            raise unknown("setting", name, every, f"All: sdgbench info {methods[0]}")


def matrix(
    methods: Sequence[str],
    datasets: Sequence[str],
    seeds: Sequence[int],
    preset: str,
    assignments: Sequence[Assignment] = (),
    grid: Sequence[tuple[str, Sequence[str]]] = (),
    targets: Sequence[str] = (),
    precision: str = EXACT,
) -> list[RunSpec]:
    """All runs of a command, without repetition, seeds in the outer loop.

    With seeds outside, an interrupted matrix has compared all methods on the first seeds.
    """
    check_keys([key for key, _ in (*assignments, *grid)], methods, datasets)
    axes = [[(key, value) for value in values] for key, values in grid]
    specs: dict[str, RunSpec] = {}
    for seed, dataset, method in itertools.product(seeds, datasets, methods):
        for point in itertools.product(*axes):
            asked = [*assignments, *point]
            spec = resolve(method, dataset, preset, seed, asked, targets, precision)
            specs.setdefault(spec.id, spec)
    return list(specs.values())
