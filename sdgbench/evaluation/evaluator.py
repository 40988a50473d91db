"""Evaluation: each target image is read once and classified with each set of weights."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sdgbench.dataset import Dataset
from sdgbench.errors import Interrupted, MissingData
from sdgbench.evaluation import metrics
from sdgbench.method import Method
from sdgbench.records.schema import Average, Choice, ChoiceResult, DomainContent
from sdgbench.records.scores import DomainScore
from sdgbench.reporter import Reporter
from sdgbench.training import checkpoint, distributed
from sdgbench.training.feeds import ScoredImages
from sdgbench.training.streaming import open_images

Weights = dict[str, dict[str, Tensor]]


class NotFinite(RuntimeError):
    """A method's outputs are not numbers, so that any class would be as wrong as another."""


def score_domain(
    method: Method, images: ScoredImages, batch: int, name: str = "a domain"
) -> tuple[DomainScore, np.ndarray]:
    """Metrics and predictions of the method with its current weights; NotFinite names ``name``."""
    classes = method.task.classes
    batches = [(start, start + batch) for start in range(0, len(images), batch)]
    whole = distributed.shard_of(len(batches))  # each process predicts some of them
    mine = whole.take(batches) if whole else batches
    batches_predicted: list[Tensor] = []
    extremes: list[Tensor] = []
    with torch.inference_mode(), images.device.autocast():
        for span in mine:
            outputs = method.predict(images.span(*span))
            batches_predicted.append(method.task.predictions(outputs))
            extremes.extend(outputs.aminmax())  # both are NaN where any output is
    predicted = torch.cat(batches_predicted).cpu().numpy()
    finite = bool(torch.stack(extremes).isfinite().all())
    first = mine[0][0]
    confusion: np.ndarray = np.sum(
        [
            metrics.confusion_matrix(
                images.truth(start, stop), predicted[start - first : stop - first], classes
            )
            for start, stop in mine
        ],
        axis=0,
    )
    if whole:
        parts = distributed.all_gather((predicted, confusion, finite))
        predicted = np.concatenate([part[0] for part in parts])
        confusion = np.sum([part[1] for part in parts], axis=0)
        finite = all(part[2] for part in parts)
    if not finite:
        raise NotFinite(
            f"the outputs on {name} are not finite numbers: the weights have diverged, or predict "
            "divides by zero"
        )
    return method.task.score(confusion), predicted


@dataclass
class Evaluation:
    """What came out on the targets."""

    results: dict[Choice, dict[str, DomainScore]]  # by choice of weights and domain
    domains: dict[str, DomainContent] = field(default_factory=dict)  # what each domain was
    predictions: dict[str, np.ndarray] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)  # asked for, but there was no data


def evaluate(
    method: Method,
    dataset: Dataset,
    names: Sequence[str],
    choices: Mapping[Choice, Weights],
    reporter: Reporter,
    should_stop: Callable[[], bool] = lambda: False,
) -> Evaluation:
    """Score each choice of weights ("last", "val") on each named target."""
    recipe, device = method.recipe, method.device
    for module in checkpoint.modules(method).values():
        module.eval()
    tags = dataset.target_tags(dataset.options)
    evaluation = Evaluation({choice: {} for choice in choices})
    reporter.begin("evaluate", len(names))
    for position, name in enumerate(names):
        if should_stop():
            raise Interrupted("in evaluation")
        try:
            domain = dataset.open_target(name).subsample(recipe.test_images)
        except MissingData:
            evaluation.missing.append(name)
            continue
        with closing(open_images(domain, device)) as images:
            for choice, weights in choices.items():
                if len(choices) > 1:
                    checkpoint.assign_weights(method, weights)
                score, predictions = score_domain(method, images, recipe.eval_batch, name)
                evaluation.results[choice][name] = score
                evaluation.predictions[f"{choice}/{name}"] = predictions
        evaluation.domains[name] = DomainContent(
            tags=tags[name],
            count=len(domain),
            sha256=domain.sha256() if distributed.is_rank_zero() else "",  # only it writes
        )
        reporter.update(position + 1, None, 0.0)
    reporter.end()
    if evaluation.missing:
        reporter.note(
            f"not evaluated, because their data are missing: {', '.join(evaluation.missing)}"
        )
    return evaluation


def summarise(
    domains: dict[str, DomainScore],
    metric: str,
    groups: Mapping[str, Sequence[str]],
    step: int = 0,
    source_val: float | None = None,
) -> ChoiceResult:
    """The result of one choice of weights: means over groups of domains, and the worst domain.

    The first group is the ranked one. A group covers those of its domains that were evaluated.
    """
    scores = {name: domain.score(metric) for name, domain in domains.items()}
    averages = {}
    for group, names in groups.items():
        covered = [scores[name] for name in names if name in scores]
        if covered:
            averages[group] = Average(mean=float(np.mean(covered)), domains=len(covered))
    ranked = next(iter(averages.values()))
    worst = min(scores, key=scores.__getitem__)
    return ChoiceResult(
        step=step,
        source_val=source_val,
        average=ranked.mean,
        domains=ranked.domains,
        averages=averages,
        worst=scores[worst],
        worst_domain=worst,
        per_domain=domains,
    )
