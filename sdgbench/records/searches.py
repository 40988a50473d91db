"""Searches for a setting, and the trials that they are made of: their schema and their files.

A trial is a run that ends with its scores on held-out source, ``trial.json``. A search leaves
``<dataset>/<method>/search-<id>.json`` in the folder that its trials are in. Neither is a record:
tables of results do not read them.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from msgspec import Struct

from sdgbench import storage
from sdgbench.errors import UserError
from sdgbench.records.schema import Code, Cost, Machine, Source, Tuned
from sdgbench.records.scores import Count, Fraction
from sdgbench.spec.run_spec import RunSpec

SCHEMA = 1
TRIAL, ORACLE = "trial.json", "oracle.json"  # files of a trial's folder
Rule = Literal["source", "shifted"]
RULES: dict[Rule, str] = {
    "source": "the score on held-out source",
    "shifted": "the mean score on held-out source under families of changes that neither training "
    "nor the targets use",
}


class Trial(Struct, kw_only=True, frozen=True):
    """What one run of a search leaves. No target was opened."""

    schema: int = SCHEMA
    kind: Literal["trial"] = "trial"
    id: str  # the hash of the specification
    spec: RunSpec
    started: str = ""
    finished: str = ""
    metric: str
    source_val: Fraction  # score on held-out source, of the last iterate
    families: dict[str, Fraction] = {}  # the same under each family that is not excluded
    source: Source = Source()
    cost: Cost = Cost()
    code: Code = Code()
    packages: dict[str, str] = {}
    machine: Machine = Machine()

    def score(self, rule: str) -> float:
        """What a rule chooses by."""
        return self.source_val if rule == "source" else fmean(self.families.values())


class OracleTrial(Struct, kw_only=True, frozen=True):
    """What a trial scored on the targets: evaluated on request, never for a choice."""

    schema: int = SCHEMA
    kind: Literal["oracle"] = "oracle"
    id: str
    average: Fraction  # the ranked mean over the targets, of the last iterate
    per_domain: dict[str, Fraction] = {}


class Setting(Struct, kw_only=True, frozen=True):
    """One setting that a search tried."""

    number: Count  # 0: the default setting
    values: dict[str, Any] = {}  # of each searched setting
    runs: list[str] = []  # ids, one per seed
    scores: dict[Rule, list[Fraction]] = {}  # by rule, one per seed
    failed: str = ""  # why there are no scores

    def score(self, rule: Rule) -> float | None:
        """The mean over seeds; None: the setting failed."""
        values = self.scores.get(rule)
        return fmean(values) if values else None


class Budget(Struct, kw_only=True, frozen=True):
    """What the trials of a search took, all seeds together."""

    runs: Count = 0
    images_forward: Count = 0  # through the networks, in training
    images_with_gradient: Count = 0
    train_seconds: float = 0.0
    seconds: float = 0.0  # with validation and checkpoints


class Oracle(Struct, kw_only=True, frozen=True):
    """What the targets say of a search: chosen on targets, so not a result."""

    averages: dict[str, Fraction] = {}  # by number of the setting: mean over the search's seeds
    best: Count = 0  # the setting that is best on the targets
    chosen: Fraction = 0.0  # the average of the setting that was chosen on source
    regret: float = 0.0  # by how much the best is above it


class Asked(Struct, kw_only=True, frozen=True):
    """What determines a search; its id is the hash of it."""

    spec: dict[str, Any]  # the default setting, without a seed
    space: dict[str, str]  # range of each searched setting
    trials: Count
    seeds: list[int]
    search_seed: int  # that values are drawn with
    rule: Rule
    families: list[str] = []  # that the rule uses


class Search(Struct, kw_only=True, frozen=True):
    """What a finished search leaves."""

    schema: int = SCHEMA
    kind: Literal["search"] = "search"
    id: str
    asked: Asked
    rule: str = ""  # in words
    excluded_families: dict[str, str] = {}  # and why
    metric: str = ""
    settings: list[Setting]
    chosen: Count  # number of the setting
    budget: Budget = Budget()
    finished: str = ""
    oracle: Oracle | None = None  # None: nobody asked

    @property
    def choice(self) -> Setting:
        """The setting that was chosen."""
        return self.settings[self.chosen]

    def tuned(self, recipe: dict[str, Any]) -> Tuned:
        """What the records of the chosen setting say; ``recipe`` has the preset's values."""
        asked, budget = self.asked, self.budget
        names = [key.removeprefix("recipe.") for key in asked.space if key.startswith("recipe.")]
        return Tuned(
            search=self.id,
            rule=asked.rule,
            trials=len(self.settings),
            trial=self.chosen,
            seeds=list(asked.seeds),
            values=dict(self.choice.values),
            recipe={name: recipe[name] for name in names},
            images_forward=budget.images_forward,
            images_with_gradient=budget.images_with_gradient,
            seconds=budget.seconds,
        )


def search_file(folder: Path, dataset: str, method: str, search_id: str) -> Path:
    """Where a search is kept, in the folder of its trials."""
    return folder / dataset / method / f"search-{search_id}.json"


def read_trial(folder: Path) -> Trial:
    """Read the trial of a run's folder."""
    return storage.read_struct(folder / TRIAL, Trial)


def read_search(path: Path) -> Search:
    """Read a search; UserError: it is damaged, or newer than this sdgbench."""
    search = storage.read_struct(path, Search)
    if search.schema > SCHEMA or search.chosen >= len(search.settings):
        raise UserError(f"{path} is damaged, or of a newer sdgbench. Move it away.")
    return search


def choose(settings: Sequence[Setting], rule: Rule) -> int:
    """The number of the best setting by a rule; of equal ones the first, so rather the default."""
    scored = [(score, -s.number) for s in settings if (score := s.score(rule)) is not None]
    if not scored:
        reasons = "; ".join(dict.fromkeys(setting.failed for setting in settings))
        raise UserError(f"Every trial failed, so nothing can be chosen: {reasons}")
    return -max(scored)[1]


def total(trials: Sequence[Trial]) -> Budget:
    """What trials took together."""
    costs = [trial.cost for trial in trials]
    return Budget(
        runs=len(costs),
        images_forward=sum(cost.images_forward or 0 for cost in costs),
        images_with_gradient=sum(cost.images_with_gradient or 0 for cost in costs),
        train_seconds=round(sum(cost.train_seconds or 0.0 for cost in costs), 3),
        seconds=round(sum(cost.seconds for cost in costs), 3),
    )
