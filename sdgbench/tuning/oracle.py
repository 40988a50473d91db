"""What the targets say of a search, on request: which trial would have been best."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from sdgbench import storage
from sdgbench.errors import UserError
from sdgbench.evaluation.evaluator import evaluate, summarise
from sdgbench.records.searches import ORACLE, Oracle, OracleTrial, Search, Trial
from sdgbench.reporter import Reporter
from sdgbench.spec.run_spec import RunSpec
from sdgbench.training import checkpoint
from sdgbench.training.device import Device
from sdgbench.training.trained_model import load_method


def score_trial(
    trial: Trial, folder: Path, data: Path, device: Device, reporter: Reporter
) -> OracleTrial:
    """Evaluate a finished trial on the targets; what was evaluated before is read."""
    path = folder / ORACLE
    if path.exists():
        return storage.read_struct(path, OracleTrial)
    spec: RunSpec = trial.spec
    dataset = spec.dataset_class(data, spec.build_options(), spec.build_recipe())
    dataset.prepare(reporter)
    names = list(spec.targets or dataset.target_tags(dataset.options))
    method = load_method(spec, trial.id, trial.source.train.count, folder, device)
    with device.settings(reporter.note):
        weights = {"last": checkpoint.copy_weights(method)}
        evaluation = evaluate(method, dataset, names, weights, reporter)  # type: ignore[arg-type]
    if not evaluation.domains:
        raise UserError(f"There is no data of any target of {spec.dataset}: omit --oracle.")
    metric, groups = dataset.task.metric, dataset.averages(list(evaluation.domains))
    domains = evaluation.results["last"]
    scored = OracleTrial(
        id=trial.id,
        average=summarise(domains, metric, groups).average,
        per_domain={name: domain.score(metric) for name, domain in domains.items()},
    )
    storage.write_json(path, scored)
    return scored


def judge(search: Search, scored: Sequence[tuple[int, Sequence[OracleTrial]]]) -> Oracle:
    """The regret of a search, from the target scores of its settings by number."""
    averages = {number: fmean(trial.average for trial in trials) for number, trials in scored}
    best = max(averages, key=lambda number: (averages[number], -number))
    chosen = averages[search.chosen]
    return Oracle(
        averages={str(number): value for number, value in averages.items()},
        best=best,
        chosen=chosen,
        regret=averages[best] - chosen,
    )
