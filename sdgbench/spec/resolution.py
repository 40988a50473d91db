"""Turn names and assignments into full specifications: of one run, or of a matrix of runs."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sdgbench import networks, registry
from sdgbench.dataset import Dataset
from sdgbench.errors import UserError, unknown
from sdgbench.method import Method
from sdgbench.networks.weights import hash_of
from sdgbench.recipe import PRESETS, Recipe
from sdgbench.spec import parameters
from sdgbench.spec.precision import DEFAULT_PRECISION
from sdgbench.spec.run_spec import RunSpec, defaults

RECIPE, SHARED, PUBLISHED = "recipe", "shared", "published"  # --set recipe=published
RECIPES = (SHARED, PUBLISHED)
SCALE_SETTINGS = ("network", "image_size", "steps", "epochs", "test_images")  # of a recipe


Assignment = tuple[str, str]  # key and value of --set, as text


def resolve(
    method: str,
    dataset: str,
    preset: str,
    seed: int,
    assignments: Iterable[Assignment] = (),
    targets: Sequence[str] = (),
    precision: str = DEFAULT_PRECISION,
) -> RunSpec:
    """Resolve one run. Assignments that concern neither its method nor its dataset are ignored."""
    method_class: type[Method] = registry.get("method", method).load()
    dataset_class: type[Dataset] = registry.get("dataset", dataset).load()
    if seed < 0:
        raise UserError(f"The seed {seed} is negative. Seeds are 0 and up, such as --seeds 0-4.")
    values: dict[str, dict[str, Any]] = {
        "method": defaults(method_class, dataset_class, preset),
        "dataset": parameters.as_plain(parameters.build(dataset_class.Options, {})),
        "recipe": parameters.as_plain(dataset_class.recipe(preset)),
    }
    set_params: dict[str, Any] = {}
    classes = {"method": method_class.Params, "dataset": dataset_class.Options, "recipe": Recipe}
    names = {"method": method, "dataset": dataset, "recipe": "recipe"}
    preset_recipe = dict(values["recipe"])
    assignments = list(assignments)
    published = published_recipe(method_class, dataset_class, preset, assignments)
    values["recipe"].update(published)
    for key, text in assignments:
        scope, dot, name = key.rpartition(".")
        for role, cls in classes.items():
            field = parameters.fields(cls).get(name)
            # Without a scope it is a parameter or an option; the shared recipe must be named.
            if field and (names[role] == scope if dot else role != "recipe"):
                values[role][name] = parameters.parse_field(
                    names[role], field, text, values[role][name], f" (preset {preset})"
                )
                if role == "method":
                    set_params[name] = values[role][name]
    recipe = parameters.as_plain(parameters.build(Recipe, values["recipe"]))
    # Those that are not set may depend on the recipe.
    usual_params = defaults(method_class, dataset_class, preset, recipe["image_size"])
    values["method"] = {**usual_params, **set_params}
    params, options = (
        parameters.as_plain(parameters.build(classes[role], values[role]))
        for role in ("method", "dataset")
    )
    networks.check(
        recipe["network"],
        tuple(recipe["image_size"]),
        dataset_class.task.kind,
        recipe["pretrained"],
        recipe["weights"],
    )
    recipe["weights_sha256"] = weights_hash(recipe["weights"], recipe["weights_sha256"])
    recipe = Recipe.without_defaults_of_later_fields(recipe)
    changes = tuple(k for k, v in recipe.items() if v != preset_recipe[k])
    # A recipe that was shortened by hand is at reduced scale, too, and tables must show that.
    shortened = [
        f"{key}={parameters.show(recipe[key])}"
        for key in SCALE_SETTINGS
        if key in changes and recipe[key] != published.get(key)
    ]
    recipe["reduced"] = "; ".join(filter(None, [recipe["reduced"], ", ".join(shortened)]))
    usual = parameters.as_plain(parameters.build(dataset_class.Options, {}))
    option_changes = tuple(k for k, v in options.items() if v != usual[k])
    known = dataset_class.target_tags(parameters.build(dataset_class.Options, options))
    for name in targets:
        if name not in known:
            raise unknown(f"target of {dataset} called", name, known)
    return RunSpec(
        method,
        params,
        dataset,
        dataset_class.version,
        options,
        option_changes,
        preset,
        recipe,
        changes,
        seed,
        tuple(name for name in known if name in targets),
        precision,
    )


def weights_hash(path: str, expected: str) -> str:
    """The hash of a file of weights, which must be the expected one if there is one."""
    if not path:
        return ""
    found = hash_of(Path(path))
    if expected and expected != found:
        raise UserError(
            f"{path} has the sha256 {found}, not {expected}. Use the right file, or omit "
            "recipe.weights_sha256."
        )
    return found


def published_recipe(
    method: type[Method], dataset: type[Dataset], preset: str, assignments: Iterable[Assignment]
) -> Mapping[str, Any]:
    """What ``recipe=published`` sets: the recipe of the method's own paper, if it has one here."""
    chosen = [text for key, text in assignments if key == RECIPE]
    for text in chosen:
        if text not in RECIPES:
            raise unknown("recipe called", text, RECIPES)
    if not chosen or chosen[-1] == SHARED:
        return {}
    if preset != PRESETS[0]:
        raise UserError(f"A published recipe is not {preset}. Add --preset {PRESETS[0]}.")
    return method.recipes.get(dataset.family or dataset.name, {})


def check_keys(keys: Iterable[str], methods: Sequence[str], datasets: Sequence[str]) -> None:
    """Refuse a key that no method or dataset of the matrix has, or that both kinds have."""
    method_fields: dict[str, set[str]] = {}
    for name in methods:
        method: type[Method] = registry.get("method", name).load()
        method_fields[name] = set(parameters.fields(method.Params))
    dataset_fields: dict[str, set[str]] = {}
    for name in datasets:
        dataset: type[Dataset] = registry.get("dataset", name).load()
        dataset_fields[name] = set(parameters.fields(dataset.Options))
    by_scope = {**method_fields, **dataset_fields, "recipe": set(parameters.fields(Recipe))}
    for key in keys:
        if key == RECIPE:
            if not any(registry.get("method", name).load().recipes for name in methods):  # type: ignore[attr-defined]
                raise UserError(f"{', '.join(methods)}: no published recipe of its own is known.")
            continue
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
            raise UserError(
                f'"{name}" is a setting of a method and of a dataset. Name it in full, '
                f"such as {methods[0]}.{name}=..."
            )
        if not in_methods and not in_datasets:
            every = set().union(*method_fields.values(), *dataset_fields.values())
            every |= {f"recipe.{field}" for field in by_scope["recipe"]}
            if name in by_scope["recipe"]:
                raise UserError(
                    f'"{name}" belongs to the recipe that all methods share. To change '
                    f"it: --set recipe.{name}=..."
                )
            raise unknown("setting", name, every, f"All: sdgbench info {methods[0]}")


def matrix(
    methods: Sequence[str],
    datasets: Sequence[str],
    seeds: Sequence[int],
    preset: str,
    assignments: Sequence[Assignment] = (),
    grid: Sequence[tuple[str, Sequence[str]]] = (),
    targets: Sequence[str] = (),
    precision: str = DEFAULT_PRECISION,
) -> list[RunSpec]:
    """All runs of a command, without repetition, seeds in the outer loop.

    With seeds outside, an interrupted matrix has compared all methods on the first seeds.
    """
    check_keys([key for key, _ in (*assignments, *grid)], methods, datasets)
    axes = [[(key, value) for value in values] for key, values in grid]
    specs: dict[str, RunSpec] = {}
    for seed, dataset, method in itertools.product(seeds, datasets, methods):
        for point in itertools.product(*axes):
            settings = [*assignments, *point]
            spec = resolve(method, dataset, preset, seed, settings, targets, precision)
            specs.setdefault(spec.id, spec)
    return list(specs.values())
