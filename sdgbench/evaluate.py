"""The other loop: each target image is read once and decided by each set of weights."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdgbench import checkpoint, metrics, parallel
from sdgbench.dataset import Dataset, MissingData
from sdgbench.errors import Interrupted
from sdgbench.feed import Images
from sdgbench.method import Method
from sdgbench.progress import Reporter
from sdgbench.stream import open_images

Weights = dict[str, dict[str, Tensor]]


def score_domain(
    method: Method, images: Images, batch: int
) -> tuple[dict[str, object], np.ndarray]:
    """Metrics and decisions of the method as it stands."""
    classes = method.task.classes
    stretches = [(start, start + batch) for start in range(0, len(images), batch)]
    whole = parallel.part_of(len(stretches))  # each process decides some stretches
    mine = whole.of(stretches) if whole else stretches
    with torch.inference_mode(), images.device.autocast():
        decisions = torch.cat(
            [method.task.decide(method.predict(images.span(*stretch))) for stretch in mine]
        )
    predicted = decisions.cpu().numpy()
    first = mine[0][0]
    confusion: np.ndarray = np.sum([
        metrics.confusion_matrix(
            images.truth(start, stop), predicted[start - first : stop - first], classes
        )
        for start, stop in mine
    ], axis=0)  # fmt: skip
    if whole:
        parts = parallel.gathered((predicted, confusion))
        predicted = np.concatenate([part[0] for part in parts])
        confusion = np.sum([part[1] for part in parts], axis=0)
    return method.task.score(confusion), predicted


@dataclass
class Evaluation:
    """What the targets said."""

    results: dict[str, dict[str, Any]]  # choice -> domain -> metrics
    domains: dict[str, Any] = field(default_factory=dict)  # what each domain was
    decisions: dict[str, np.ndarray] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)  # asked for, but there was no data


def evaluate(
    method: Method,
    dataset: Dataset,
    names: Sequence[str],
    choices: Mapping[str, Weights],
    reporter: Reporter,
    should_stop: Callable[[], bool] = lambda: False,
) -> Evaluation:
    """Score each choice of weights ("last", "val") on each named target."""
    recipe, device = method.recipe, method.device
    for module in checkpoint.modules(method).values():
        module.eval()
    tags = dataset.target_tags(dataset.options)
    found = Evaluation({choice: {} for choice in choices})
    reporter.begin("evaluate", len(names))
    for position, name in enumerate(names):
        if should_stop():
            raise Interrupted("in evaluation")
        try:
            domain = dataset.target(name).take(recipe.test_images)
        except MissingData:
            found.missing.append(name)
            continue
        with closing(open_images(domain, device)) as images:
            for choice, weights in choices.items():
                if len(choices) > 1:
                    checkpoint.assign_weights(method, weights)
                result, decided = score_domain(method, images, recipe.eval_batch)
                found.results[choice][name] = result
                found.decisions[f"{choice}/{name}"] = decided
        found.domains[name] = {
            "tags": tags[name], "count": len(domain),
            "sha256": domain.sha256() if parallel.is_first() else "",  # only it writes
        }  # fmt: skip
        reporter.update(position + 1, None, 0.0)
    reporter.end()
    if found.missing:
        reporter.note(f"not evaluated, for want of data: {', '.join(found.missing)}")
    return found


def average(
    results: Mapping[str, Mapping[str, Any]], metric: str, groups: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Means over groups of domains, each with how many it covers; the first group is ranked."""
    scores = {name: float(result[metric]) for name, result in results.items()}
    means = {}
    for group, names in groups.items():
        covered = [scores[name] for name in names if name in scores]
        if covered:
            means[group] = {"mean": float(np.mean(covered)), "domains": len(covered)}
    ranked = next(iter(means.values()))
    worst = min(scores, key=scores.__getitem__)
    return {
        "average": ranked["mean"],
        "domains": ranked["domains"],
        "averages": means,
        "worst": scores[worst],
        "worst_domain": worst,
    }
