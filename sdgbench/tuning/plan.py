"""What a search tries: its ranges, the settings that are drawn from them, and their runs."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec
import numpy as np

from sdgbench.errors import UserError, unknown
from sdgbench.recipe import SEARCHABLE, Recipe
from sdgbench.records.searches import RULES, Asked, Rule
from sdgbench.spec import parameters, search, shifts
from sdgbench.spec.parameters import as_text
from sdgbench.spec.precision import DEFAULT_PRECISION
from sdgbench.spec.resolution import RECIPE, Assignment, check_keys, resolve
from sdgbench.spec.run_spec import RunSpec
from sdgbench.spec.search import Around, Declared, Range
from sdgbench.spec.seeds import derive

Space = dict[str, Range]  # by key, such as "beta" or "recipe.lr"


@dataclass(frozen=True)
class Plan:
    """A search before it begins: everything is resolved and nothing is run."""

    base: RunSpec  # the default setting
    space: Space
    asked: Asked
    excluded: dict[str, str]  # families that may not be used, and why
    values: list[dict[str, Any]]  # of each setting; the first is the default one
    assignments: Sequence[Assignment]
    targets: Sequence[str]

    @property
    def id(self) -> str:
        """A hash of what determines the search; seeds of the final runs do not."""
        text = msgspec.json.encode(self.asked, order="sorted")
        return hashlib.sha256(text).hexdigest()[:12]

    def spec(self, number: int, seed: int, tuned: str = "") -> RunSpec:
        """The run of a setting and a seed; ``tuned`` marks it as the choice of that search."""
        base = self.base
        drawn = [(key, as_text(value)) for key, value in self.values[number].items()]
        spec = resolve(
            base.method,
            base.dataset,
            base.preset,
            seed,
            [*self.assignments, *(drawn if number else ())],
            self.targets,
            base.precision,
        )
        return replace(spec, tuned=tuned)

    def specs(self) -> list[list[RunSpec]]:
        """The runs of each setting, one per seed of the search."""
        return [
            [self.spec(number, seed) for seed in self.asked.seeds]
            for number in range(len(self.values))
        ]


def make_plan(
    method: str,
    dataset: str,
    *,
    preset: str,
    trials: int,
    seeds: Sequence[int],
    search_seed: int,
    rule: str,
    given: Mapping[str, "str | Declared"],
    assignments: Sequence[Assignment] = (),
    targets: Sequence[str] = (),
    precision: str = DEFAULT_PRECISION,
) -> Plan:
    """Resolve a search; UserError: it cannot be run."""
    if trials < 2:
        raise UserError(
            f"{trials} trials leave nothing to choose from: the first is the default setting. "
            "Use 2 or more."
        )
    if rule not in RULES:
        raise unknown("rule", rule, RULES)
    if any(key == RECIPE for key, _ in assignments):
        raise UserError("A search starts from the shared recipe. Omit recipe=published.")
    check_keys([key for key, _ in assignments], [method], [dataset])
    base = resolve(method, dataset, preset, min(seeds), assignments, targets, precision)
    if reason := base.skipped():
        raise UserError(f"{method} makes no sense on {dataset}: {reason}.")
    families, excluded = shifts.usable_for(base)
    if rule == "shifted" and not families:
        raise UserError(
            f"No family of changes is left to score {method} on {dataset} under: training or the "
            "targets use each of them. Use --rule source."
        )
    space = search_space(base, given, [key for key, _ in assignments])
    chosen: Rule = "source" if rule == "source" else "shifted"
    asked = Asked(
        spec=_plain({k: v for k, v in asdict(base).items() if k not in ("seed", "tuned")}),
        space={key: str(values) for key, values in space.items()},
        trials=trials,
        seeds=list(seeds),
        search_seed=search_seed,
        rule=chosen,
        families=families if rule == "shifted" else [],
    )
    drawn = [draw(space, search_seed, number) for number in range(1, trials)]
    values = [_plain(setting) for setting in (_usual(base, space), *drawn)]
    if len({json.dumps(setting, sort_keys=True) for setting in values}) == 1:
        raise UserError("All trials have the default setting. Use a wider range or more trials.")
    return Plan(base, space, asked, excluded, values, assignments, targets)


def search_space(
    base: RunSpec, given: Mapping[str, "str | Declared"], fixed: Sequence[str]
) -> Space:
    """The range of each setting that is searched: declared ones, unless set, and given ones."""
    recipe_fields = parameters.fields(Recipe)
    fields = dict(parameters.fields(base.method_class.Params))
    fields |= {f"recipe.{name}": recipe_fields[name] for name in SEARCHABLE}
    usual = {**base.params, **{f"recipe.{name}": base.recipe[name] for name in SEARCHABLE}}
    own = f"{base.method}."
    fixed = [key.removeprefix(own) for key in fixed]
    declared: dict[str, str | Declared] = {
        key: field.search for key, field in fields.items() if field.search and key not in fixed
    }
    wanted = {key.removeprefix(own): values for key, values in given.items()}
    space: Space = {}
    for key, values in {**declared, **wanted}.items():
        if key not in fields:
            raise unknown(f"setting of {base.method} to search, called", key, fields)
        if key in fixed:
            raise UserError(f"{key} is both set and searched. Omit one of them.")
        found = search.parse(key, values, fields[key]) if isinstance(values, str) else values
        around = found.around(usual[key]) if isinstance(found, Around) else found
        if around is None and key in wanted:
            raise UserError(f"{key} is {parameters.show(usual[key])}: no range is around that.")
        if around is not None:
            search.check_fits(key, fields[key], around)
            space[key] = around
    if not space:
        raise UserError(f"{base.method} has no setting left to search. Give one with --search.")
    return space


def draw(space: Mapping[str, Range], search_seed: int, number: int) -> dict[str, Any]:
    """The values of one setting: each depends on the seed, its number and its key alone."""
    return {
        key: values.at(np.random.default_rng(derive(search_seed, "tune", number, key)).random())
        for key, values in space.items()
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """The values as they are read from a file, in which tuples are lists."""
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def _usual(base: RunSpec, space: Mapping[str, Range]) -> dict[str, Any]:
    recipe = {f"recipe.{name}": value for name, value in base.recipe.items()}
    return {key: {**base.params, **recipe}[key] for key in space}
