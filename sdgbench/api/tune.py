"""Search for a method's setting on the source alone, and test the chosen one on fresh seeds."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdgbench import registry, storage
from sdgbench.api import arguments
from sdgbench.api.arguments import Folder, Names, Numbers
from sdgbench.api.records import Records
from sdgbench.errors import Interrupted, UserError
from sdgbench.records import searches as stored
from sdgbench.records.schema import utc_now
from sdgbench.records.searches import RULES, Search, Setting
from sdgbench.spec.parameters import show

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from sdgbench.launch.attempt import Result, RunOptions
    from sdgbench.spec.search import Declared
    from sdgbench.tuning.plan import Plan


class Tuning:
    """A finished search: ``search`` is its record, ``path`` the file that holds it.

    ``records`` are the runs of the chosen setting on fresh seeds, and of the default setting on the
    same seeds: ``records.compare()`` shows both, ``records.compare("cost")`` what they cost.

    >>> tuning = sdgbench.tune(
    ...     "erm", "digits-mini", preset="smoke", trials=2, seeds=0, fresh_seeds=1, progress=False
    ... )
    >>> list(tuning.values)
    ['recipe.lr']
    """

    def __init__(self, search: Search, path: Path, records: Records) -> None:
        self.search, self.path, self.records = search, path, records

    @property
    def values(self) -> dict[str, Any]:
        """The chosen value of each searched setting."""
        return dict(self.search.choice.values)

    def to_frame(self) -> "pd.DataFrame":
        """One row per setting that was tried: its values, and its mean score by each rule.

        >>> tuning = sdgbench.tune(
        ...     "erm", "digits-mini", preset="smoke", trials=2, seeds=0, fresh_seeds=1,
        ...     progress=False,
        ... )
        >>> len(tuning.to_frame())
        2
        """
        import pandas as pd

        search, oracle = self.search, self.search.oracle
        rows = [
            {
                "trial": setting.number,
                **setting.values,
                **{rule: setting.score(rule) for rule in RULES if rule in setting.scores},
                "failed": setting.failed,
                "chosen": setting.number == search.chosen,
                **({"oracle": oracle.averages.get(str(setting.number))} if oracle else {}),
            }
            for setting in search.settings
        ]
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return f"<Tuning {self.search.id}: {len(self.search.settings)} settings, {self.path}>"

    def __str__(self) -> str:
        return "\n".join(_summary(self.search))


def tune(
    method: str,
    dataset: str,
    *,
    trials: int = 20,
    seeds: Numbers = "0-2",
    fresh_seeds: Numbers | None = None,
    rule: str = "source",
    space: "Mapping[str, str | Declared] | None" = None,
    params: Mapping[str, Any] | None = None,
    search_seed: int = 0,
    preset: str = "paper",
    targets: Names = (),
    default: bool = True,
    oracle: bool = False,
    jobs: int | str = 1,
    device: str = "auto",
    threads: int | None = None,
    precision: str | None = None,
    runs: Folder = "runs",
    data: Folder = "data",
    searches: Folder = "searches",
    progress: bool = True,
    retry: bool = False,
    leaderboards: bool = True,
) -> Tuning:
    """Search for a method's setting by held-out source; only the chosen one is tested on targets.

    Trial 0 is the default setting, the others are drawn from the ranges that the method and the
    recipe declare; ``space`` gives others ({"beta": "log:100:10000"}) and ``params`` fixes values.
    A trial's score is the mean over ``seeds``. ``rule`` is "source", or "shifted": held-out source
    under families of changes that neither training nor the targets use. The chosen setting, and
    the default one unless ``default=False``, are then run on ``fresh_seeds`` (as many as ``seeds``,
    following them) in ``runs``. Trials are kept in ``searches``; the same call goes on where a
    stopped one ended. ``oracle`` also evaluates all trials on the targets, for the regret.

    >>> tuning = sdgbench.tune(
    ...     "erm", "digits-mini", preset="smoke", trials=2, seeds=0, fresh_seeds=1, progress=False
    ... )
    >>> len(tuning.records)
    2
    """
    registry.get("method", method)  # typos: before torch is imported
    registry.get("dataset", dataset)
    trial_seeds = arguments.some_numbers(seeds)
    fresh = _fresh_seeds(trial_seeds, fresh_seeds)
    assignments = arguments.assignments(params, "params")
    only = arguments.any_names(targets, "targets")
    processes = arguments.processes(jobs)
    if isinstance(trials, bool) or not isinstance(trials, int):
        raise UserError(f"trials takes a whole number, not {trials!r}.")

    from rich.console import Console

    from sdgbench.api.run import as_records, execute
    from sdgbench.launch.attempt import RunOptions
    from sdgbench.training import distributed
    from sdgbench.training.device import Execution
    from sdgbench.tuning.plan import make_plan

    if distributed.is_launched():
        raise UserError("A search is not for torchrun. Use --jobs for several processes.")
    execution = Execution(precision, threads=threads).resolved(device)
    plan = make_plan(
        method,
        dataset,
        preset=preset,
        trials=trials,
        seeds=trial_seeds,
        search_seed=search_seed,
        rule=rule,
        given=space or {},
        assignments=assignments,
        targets=only,
        precision=str(execution.precision),
    )
    console = Console(highlight=False, quiet=not progress)
    options = RunOptions(
        Path(searches), Path(data), device, retry=retry, execution=execution, trials=True
    )
    by_setting = plan.specs()
    distinct = {spec.id: spec for seed in zip(*by_setting, strict=True) for spec in seed}
    results = execute(list(distinct.values()), options, processes, console)
    search = _conclude(plan, results)
    path = stored.search_file(Path(searches), dataset, method, search.id)
    search = _keep(search, path)

    tuned = search.tuned(plan.base.recipe)
    final = RunOptions(
        Path(runs), Path(data), device, retry=retry, execution=execution, tuned=tuned
    )
    specs = [plan.spec(search.chosen, seed, search.id) for seed in fresh]
    specs += [plan.spec(0, seed) for seed in fresh] if default else []
    tested = execute(specs, final, processes, console)
    if leaderboards and any(result.outcome == "done" for result in tested):
        from sdgbench.api.leaderboards import try_to_refresh

        console.print(try_to_refresh(final.runs), markup=False, soft_wrap=True)
    records = as_records(tested, final)
    if oracle:
        search = _ask_oracle(search, results, options, console)
        storage.write_json(path, search)
    return Tuning(search, path, records)


def _fresh_seeds(seeds: Sequence[int], given: Numbers | None) -> list[int]:
    """The seeds of the final runs; none of them may be one of the search's."""
    if given is None:
        return list(range(max(seeds) + 1, max(seeds) + 1 + len(seeds)))
    fresh = arguments.some_numbers(given)
    if shared := sorted(set(fresh) & set(seeds)):
        raise UserError(
            f"The search uses seed {', '.join(map(str, shared))}, so it is not fresh. "
            "Choose others with --fresh-seeds."
        )
    return fresh


def _conclude(plan: "Plan", results: "Sequence[Result]") -> Search:
    """The record of a search whose trials have ended."""
    if any(result.outcome in ("stopped", "not started") for result in results):
        raise Interrupted("Stopped and saved. Call it again to go on.")
    by_id = {result.spec.id: result for result in results}
    if all(result.outcome == "refused" for result in results):
        raise UserError(" ".join(dict.fromkeys(result.remark for result in results)))
    settings = []
    for number, specs in enumerate(plan.specs()):
        ended = [by_id[spec.id] for spec in specs]
        done = [result.trial for result in ended if result.trial]
        complete = len(done) == len(ended)
        families = plan.asked.families
        scores: dict[stored.Rule, list[float]] = {"source": [trial.source_val for trial in done]}
        if families:
            scores["shifted"] = [trial.score("shifted") for trial in done]
        settings.append(
            Setting(
                number=number,
                values=plan.values[number],
                runs=[result.spec.id for result in ended],
                scores=scores if complete else {},
                failed="; ".join(dict.fromkeys(r.remark for r in ended if not r.trial)),
            )
        )
    trials = [result.trial for result in results if result.trial]
    return Search(
        id=plan.id,
        asked=plan.asked,
        rule=RULES[plan.asked.rule],
        excluded_families=plan.excluded if plan.asked.families else {},
        metric=plan.base.dataset_class.task.metric,
        settings=settings,
        chosen=stored.choose(settings, plan.asked.rule),
        budget=stored.total(trials),
        finished=utc_now(),
    )


def _keep(search: Search, path: Path) -> Search:
    """Write a search; what the oracle said of the same trials before stays."""
    import msgspec

    if path.exists():
        before = stored.read_search(path)
        if before.settings == search.settings:
            search = msgspec.structs.replace(search, oracle=before.oracle)
    storage.write_json(path, search)
    return search


def _ask_oracle(
    search: Search, results: "Sequence[Result]", options: "RunOptions", console: "Console"
) -> Search:
    """Evaluate all trials on the targets."""
    import msgspec

    from sdgbench.launch import progress
    from sdgbench.training.device import Device
    from sdgbench.tuning import oracle

    device = Device(options.device, options.execution)
    scored = {}
    with progress.reporter(console, "oracle: all trials on the targets") as reporter:
        for result in results:
            if trial := result.trial:
                folder = options.store.folder(result.spec)
                scored[trial.id] = oracle.score_trial(trial, folder, options.data, device, reporter)
    settings = [
        (setting.number, [scored[run] for run in setting.runs])
        for setting in search.settings
        if setting.scores
    ]
    return msgspec.structs.replace(search, oracle=oracle.judge(search, settings))


def _summary(search: Search) -> Iterator[str]:
    asked, budget, choice = search.asked, search.budget, search.choice
    spec, rule = asked.spec, asked.rule
    yield (
        f"Search {search.id}: {len(search.settings)} settings, seeds "
        f"{', '.join(map(str, asked.seeds))}, of "
        f"{spec['method']} on {spec['dataset']} ({spec['preset']}), chosen by {search.rule}; "
        "targets were closed."
    )
    if asked.families:
        yield f"families: {', '.join(asked.families)}"
    for reason in dict.fromkeys(search.excluded_families.values()):
        names = [name for name, why in search.excluded_families.items() if why == reason]
        yield f"not used, because {reason}: {', '.join(names)}"
    for key, values in asked.space.items():
        yield f"searched: {key} in {values}"
    failed = [setting for setting in search.settings if setting.failed]
    for setting in failed[:5]:
        yield f"trial {setting.number} failed: {setting.failed}"
    if len(failed) > 5:
        yield f"{len(failed) - 5} more trials failed"
    usual = search.settings[0].score(rule)
    than = "failed" if usual is None else f"{100 * usual:.2f}"
    values = ", ".join(f"{key}={show(value)}" for key, value in choice.values.items())
    name = f"trial {choice.number}" if choice.number else "trial 0, the default setting"
    score = choice.score(rule)
    assert score is not None
    yield f"chosen: {name}: {values} ({100 * score:.2f} by the rule; default: {than})"
    yield (
        f"cost of the search: {budget.runs} runs, {budget.images_forward:,} images forward, "
        f"{budget.seconds:,.0f} s"
    )
    if oracle := search.oracle:
        yield (
            f"oracle (chosen on targets: not a result): trial {oracle.best} has "
            f"{100 * oracle.averages[str(oracle.best)]:.2f} on the targets, the chosen one "
            f"{100 * oracle.chosen:.2f}: a regret of {100 * oracle.regret:.2f}, on the search's "
            "seeds"
        )
